"""The plugin part of wrapperir."""
