"""Settings for every test."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# A shared machine's first call, which imports and warms caches, is not a failure.
settings.register_profile("random", deadline=None)
# The same examples on every machine; ``make fuzz`` draws new ones.
settings.register_profile("wrapperir", deadline=None, derandomize=True)
settings.load_profile("wrapperir")


@pytest.fixture(autouse=True, scope="session")
def run_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give this run a cache of its own, which its processes share; return its directory."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    cache = shared / "run-cache"
    os.environ["XDG_CACHE_HOME"] = str(cache)
    return cache
