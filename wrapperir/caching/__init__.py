"""Caches of one user: content-addressed files in directories that nobody else can write."""

from collections.abc import Callable
from pathlib import Path

from wrapperir.caching.private_cache import (
    CacheRefusedError,
    PrivateCache,
    digest_of,
    user_cache,
)
from wrapperir.diagnostics import Code

__all__ = [
    "CacheRefusedError",
    "PrivateCache",
    "build_cache",
    "built_once",
    "digest_of",
    "user_cache",
]


def build_cache(kind: str) -> PrivateCache:
    """Return this user's cache of a kind; its directory exists and is private.

    Raises:
        DiagnosticError: WIR710, the directory cannot be used.
    """
    try:
        cache = user_cache(kind)
        if cache is not None:
            cache.folder()
            return cache
        reason = "this user has no home directory"
    except OSError as error:
        reason = str(error.strerror or error)
        if error.filename:
            reason = f"{error.filename}: {reason}"
    raise Code.INVALID_ARTIFACT.error(
        f"built files cannot be kept: {reason}",
        hint="set XDG_CACHE_HOME to a directory of yours",
    )


def built_once(kind: str, key: str, make: Callable[[Path], None]) -> Path:
    """Return the file of a kind with this key; ``make`` writes it where it is missing.

    One of several processes makes the file.  A file that was damaged since is made anew.

    Raises:
        DiagnosticError: WIR710, the cache cannot be used.
        Exception: whatever ``make`` raises.
    """
    return build_cache(kind).built(key, make)
