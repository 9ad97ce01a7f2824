"""Settings for every test."""

from hypothesis import settings

# A shared machine's first call, which imports and warms caches, is not a failure.
settings.register_profile("wrapperir", deadline=None)
settings.load_profile("wrapperir")
