"""Vector instruction sets of the CPU, which Inductor tries out in each process.

For each set that the CPU has, Inductor starts a process that loads a library built for it,
which takes a second in all.  That all of them passed is kept in the user's cache, for one
CPU, compiler and release of PyTorch.
"""

import functools
import os
import shutil
from collections.abc import Callable
from typing import Any

import torch
from torch._inductor import config, cpu_vec_isa
from torch._inductor.cpp_builder import get_cpp_compiler

from wrapperir.caching import PrivateCache, digest_of, user_cache

_PASSED = {"passed": True}
_valid_sets: Any = cpu_vec_isa.valid_vec_isa_list  # cached by functools


def recall_vector_sets() -> None:
    """Have Inductor try no set out, if an earlier process kept that all passed."""
    place = _place()
    if place is None or _are_tried():
        return
    cache, key = place
    try:
        passed = cache.load(key) == _PASSED
    except OSError:
        return
    if passed:
        _supposing_all_pass(_valid_sets)


def keep_vector_sets() -> None:
    """Keep that all sets passed, if Inductor has tried them out and they did."""
    place = _place()
    if place is None or not _are_tried():
        return
    cache, key = place
    try:
        all_pass = _valid_sets() == _supposing_all_pass(_valid_sets.__wrapped__)
        if all_pass and cache.load(key) != _PASSED:
            cache.store(key, _PASSED)
    except OSError:
        pass  # they are tried out again


def _are_tried() -> bool:
    return bool(_valid_sets.cache_info().currsize)


@functools.cache
def _place() -> tuple[PrivateCache, str] | None:
    """Return the record that all sets passed; ``None`` where none can be kept."""
    if config.cpp.vec_isa_ok is not None:
        return None
    try:
        compiler = shutil.which(get_cpp_compiler())
        cache = user_cache("vector_sets")
        if compiler is None or cache is None:
            return None
        path = os.path.realpath(compiler)
        found = os.stat(path)
    except Exception:  # PyTorch's, where there is no compiler
        return None
    sets = [str(each) for each in _supposing_all_pass(_valid_sets.__wrapped__)]
    compiler_facts = [path, found.st_size, found.st_mtime_ns]
    return cache, digest_of([torch.__version__, torch.__file__, compiler_facts, sets])


def _supposing_all_pass(list_sets: Callable[[], list[Any]]) -> list[Any]:
    with config.patch({"cpp.vec_isa_ok": True}):
        return list_sets()
