"""The verify part of wrapperir."""
