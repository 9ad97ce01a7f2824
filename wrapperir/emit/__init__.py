"""The emit part of wrapperir."""
