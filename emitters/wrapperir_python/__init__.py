"""The Python emitter and the base class of emitters derived from it."""
