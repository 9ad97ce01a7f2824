"""The text part of wrapperir."""
