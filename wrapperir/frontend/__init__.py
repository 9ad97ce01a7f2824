"""The frontend part of wrapperir."""
