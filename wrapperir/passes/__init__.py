"""The passes part of wrapperir."""
