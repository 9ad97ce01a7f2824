"""Settings for every test."""

from hypothesis import settings

# A shared machine's first call, which imports and warms caches, is not a failure.
settings.register_profile("random", deadline=None)
# The same examples on every machine; ``make fuzz`` draws new ones.
settings.register_profile("wrapperir", deadline=None, derandomize=True)
settings.load_profile("wrapperir")
