"""Checks of the CPU's vector instruction sets, which Inductor makes in each process.

For each set that the CPU has, Inductor builds small libraries and starts a process that
loads them.  PyTorch before 2.13 imports torch in each of these processes, one after the
other, which takes seconds.  Checks that pass are kept in the user's cache, for one compiler
and release of PyTorch, and looked up only when Inductor makes them.  What passed with a set
is not checked with the sets that it includes.
"""

import contextlib
import functools
import os
import shutil
from collections.abc import Callable
from typing import Any

import torch
from torch._inductor.cpp_builder import get_cpp_compiler
from torch._inductor.cpu_vec_isa import VecAVX2, VecAVX512, VecISA

from wrapperir.caching import PrivateCache, digest_of, user_cache
from wrapperir.frontend.inductor.shared_patch import SharedPatch

_PASSED = {"passed": True}
_passed_here: set[tuple[type[VecISA], str]] = set()
"""Sets and codes of the checks that passed, or were looked up, in this process."""


def _recalling(check: Callable[[Any, str], bool]) -> Callable[[Any, str], bool]:
    """Return a check that looks up what passed in an earlier process."""

    def recall_or_check(kind: VecISA, code: str) -> bool:
        if any(code == known and _includes(s, type(kind)) for s, known in _passed_here):
            return True
        if passed := look_up_or_check(kind, code):
            _passed_here.add((type(kind), code))
        return passed

    def look_up_or_check(kind: VecISA, code: str) -> bool:
        place = _place(kind.build_arch_flags(), code)
        if place is None:
            return check(kind, code)
        cache, key = place
        with contextlib.suppress(OSError):
            if cache.load(key) == _PASSED:
                return True
        passed = check(kind, code)
        if passed:
            with contextlib.suppress(OSError):
                cache.store(key, _PASSED)
        return passed

    return recall_or_check


recalling_vector_sets = SharedPatch(VecISA, "check_build", _recalling)
"""The context in which Inductor makes no check that passed in an earlier process.

A check is whether a library of some code builds with the flags of a set, and loads.
"""


def _includes(larger: type[VecISA], smaller: type[VecISA]) -> bool:
    if smaller is VecAVX2:
        return issubclass(larger, VecAVX512)
    return larger is not smaller and issubclass(larger, smaller)


def _place(flags: str, code: str) -> tuple[PrivateCache, str] | None:
    """Return the record of a check; ``None`` where none can be kept."""
    compiler = _compiler_facts()
    try:
        cache = user_cache("vector_sets")
    except OSError:
        return None
    if cache is None or compiler is None:
        return None
    return cache, digest_of([torch.__version__, torch.__file__, compiler, flags, code])


@functools.cache
def _compiler_facts() -> list[object] | None:
    """Return what identifies the C++ compiler; ``None`` where there is none."""
    try:
        compiler = shutil.which(get_cpp_compiler())
        if compiler is None:
            return None
        path = os.path.realpath(compiler)
        found = os.stat(path)
    except Exception:  # PyTorch's, where there is no compiler
        return None
    return [path, found.st_size, found.st_mtime_ns]
