"""The testing part of wrapperir."""
