"""Digests of PyTorch's and Triton's files, which keys of PyTorch's caches have.

They take half a second.  They are kept in the user's cache for files that have not changed:
a process looks at sizes and times instead.  Others begin in the background, while the rest
of Inductor is imported; what needs a digest waits for it.
"""

import contextlib
import functools
import os
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import torch
from torch._inductor import codecache, config

from wrapperir.caching import PrivateCache, digest_of, user_cache

_PACKAGES = {"torch_key": "torch", "triton_key": "triton"}
"""The package whose files a function of PyTorch's digests."""

_SKIPPED = frozenset({"__pycache__", "include", "lib", "bin", "share"})
"""Folders without files that are digested."""


def obtain_digests() -> None:
    """Give PyTorch the digests that are kept, and begin the others.

    Does nothing if caches are off.
    """
    if config.force_disable_caches:
        return
    for name, package in _PACKAGES.items():
        digest: Any = getattr(codecache, name, None)
        if not callable(getattr(digest, "set", None)):
            continue
        place = _place(name, package)
        if place is not None and _recall(digest, *place):
            continue
        prefetch = getattr(digest, "prefetch", None)
        if prefetch is not None:
            prefetch()
        else:  # 2.11 makes a digest in each thread that needs it meanwhile
            digest = _made_once(digest)
            setattr(codecache, name, digest)
        if place is not None:
            threading.Thread(target=_keep, args=(digest, *place)).start()


def _made_once(digest: Any) -> Any:
    """Return a digest that one thread makes, and others wait for."""
    lock = threading.Lock()

    @functools.wraps(digest)
    def made() -> Any:
        with lock:
            return digest()

    return made


def _recall(digest: Any, cache: PrivateCache, key: str) -> bool:
    """Give PyTorch a digest that is kept; say whether there is one."""
    try:
        record = cache.load(key)
    except OSError:
        return False
    if record is None:
        return False
    text, is_text = record.get("made"), record.get("is_text")
    if not isinstance(text, str):
        return False
    with contextlib.suppress(RuntimeError, AssertionError):  # PyTorch has it already
        digest.set(text if is_text else bytes.fromhex(text))
    return True


def _keep(digest: Any, cache: PrivateCache, key: str) -> None:
    """Keep a digest, once PyTorch has made it."""
    with contextlib.suppress(Exception):  # what needs the digest raises it
        made = digest()
        is_text = isinstance(made, str)
        cache.store(key, {"made": made if is_text else made.hex(), "is_text": is_text})


def _place(name: str, package: str) -> tuple[PrivateCache, str] | None:
    """Return the record of a digest; ``None`` where none can be kept."""
    spec = find_spec(package)
    roots = None if spec is None else spec.submodule_search_locations
    try:
        cache = user_cache("key_digests")
        if cache is None or roots is None:
            return None
        files = sorted(line for root in roots for line in _files(root))
    except OSError:
        return None
    return cache, digest_of([name, torch.__version__, list(roots), "\n".join(files)])


def _files(folder: str) -> Iterator[str]:
    """Yield what tells a change of each file of a package that a digest may have."""
    with os.scandir(folder) as found:
        for each in found:
            if each.is_dir():
                if each.name not in _SKIPPED:
                    yield from _files(each.path)
            else:
                at = each.stat()
                size, times = at.st_size, f"{at.st_mtime_ns} {at.st_ctime_ns}"
                yield f"{each.path} {at.st_ino} {size} {times}"


obtain_digests()
