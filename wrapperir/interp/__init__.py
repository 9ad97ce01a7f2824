"""The interp part of wrapperir."""
