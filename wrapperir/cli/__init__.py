"""The cli part of wrapperir."""
