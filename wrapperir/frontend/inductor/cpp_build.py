"""Build C++ kernels as Inductor builds its own: same compiler, flags and cache.

The same source gives the same machine code, so a kernel's results are Inductor's bit for
bit.  Builds are content-addressed on disk: what was built once is only loaded.
"""

import ctypes
import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

from torch._inductor.codecache import CppCodeCache, CppPythonBindingsCodeCache
from torch._inductor.exc import CppCompileError

_ERROR = re.compile(r"(?:fatal )?error:")
_PLACE = re.compile(r"^\S+?:(?=\d+:\d+:)")  # of the cached file; line and column stay
_SHOWN_ERRORS = 3


class CppBuildError(Exception):
    """A source did not compile or load; the message has the compiler's first errors."""


class _KernelLibraries(CppCodeCache):
    """Plain libraries of kernels, built with the flags of Inductor's own bindings."""

    cache: dict[str, Callable[[], ctypes.CDLL | ModuleType]] = {}  # noqa: RUF012
    cache_clear = staticmethod(cache.clear)
    cpp_compile_command_flags = CppPythonBindingsCodeCache.cpp_compile_command_flags

    @classmethod
    def _get_uncompiled_header(cls, device: str) -> str | None:
        return CppPythonBindingsCodeCache._get_uncompiled_header(device)


def build_libraries(sources: Sequence[str]) -> list[ctypes.CDLL | CppBuildError]:
    """Compile and load each source; as many at a time as there are processors.

    A source exports its kernels as ``extern "C"``.  The result has, for each source in
    order, its library or why there is none.
    """
    loads = [_load_of(source) for source in sources]
    workers = min(len(loads), os.cpu_count() or 1)
    if workers <= 1:
        return [_outcome(load) for load in loads]
    with ThreadPoolExecutor(max_workers=workers) as pool:
        return list(pool.map(_outcome, loads))


def _load_of(source: str) -> Callable[[], ctypes.CDLL]:
    load: Callable[[], ctypes.CDLL] = _KernelLibraries.load_async(source)
    return load


def _outcome(load: Callable[[], ctypes.CDLL]) -> ctypes.CDLL | CppBuildError:
    try:
        return load()
    except CppCompileError as error:
        lines = str(error.output).splitlines()
        errors = [_PLACE.sub("", line) for line in lines if _ERROR.search(line)]
        shown = "\n".join(errors[:_SHOWN_ERRORS]) or "\n".join(lines[:_SHOWN_ERRORS])
        return CppBuildError(shown or "the compiler failed")
    except OSError as error:
        return CppBuildError(str(error))
