"""The user's cache of programs of traced graphs, and of their emitted files.

A later process with the same graph loads the files: nothing is lowered or emitted.
"""

import logging
from pathlib import Path

import torch

from wrapperir.caching import PrivateCache, user_cache
from wrapperir.frontend.kept_programs import (
    KeptProgram,
    format_kept,
    keeps_programs,
    parse_kept,
)

_logger = logging.getLogger("wrapperir.cache")


def program_cache() -> PrivateCache | None:
    """Return the cache; ``None`` if it is off, or cannot be used, which is logged."""
    if not keeps_programs() or torch.compiler.config.force_disable_caches:
        return None
    try:
        cache = user_cache("programs")
        if cache is not None:
            cache.folder()
    except OSError as error:
        _logger.warning("programs are not kept for later processes: %s", error)
        return None
    return cache


def has_programs(cache: PrivateCache) -> bool:
    """Say whether any program was kept, so that what programs share was built."""
    try:
        return any(cache.folder().iterdir())
    except OSError:
        return False


def find_program(cache: PrivateCache, key: str) -> KeptProgram | None:
    """Return the program that is kept under a key, if there is one."""
    try:
        path = cache.found(key)
        return None if path is None else parse_kept(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def keep_program(cache: PrivateCache, key: str, kept: KeptProgram) -> None:
    """Keep a program under a key; a failure is logged."""

    def write(path: Path) -> None:
        path.write_text(format_kept(kept), encoding="utf-8")

    try:
        cache.built(key, write)
    except OSError as error:
        _logger.warning("a program is not kept for later processes: %s", error)
