"""Caches of one user: content-addressed files in directories that nobody else can write."""

from wrapperir.caching.builds import build_cache, built_once
from wrapperir.caching.private_cache import (
    CacheRefusedError,
    PrivateCache,
    digest_of,
    user_cache,
)

__all__ = [
    "CacheRefusedError",
    "PrivateCache",
    "build_cache",
    "built_once",
    "digest_of",
    "user_cache",
]
