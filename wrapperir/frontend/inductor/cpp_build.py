# Inductor's own functions are used as it uses them.
# pyright: reportPrivateUsage=false
"""Build C++ kernels as Inductor builds its own: same compiler, flags and cache.

The same source gives the same machine code, so a kernel's results are Inductor's bit for
bit.  Builds are content-addressed on disk: what was built once is only loaded.
"""

import ctypes
import os
import re
import shlex
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from types import ModuleType
from typing import Any

from torch._inductor import config
from torch._inductor.codecache import (
    CppCodeCache,
    CppPythonBindingsCodeCache,
    _precompile_header,
)
from torch._inductor.cpp_builder import CppBuilder, CppTorchDeviceOptions
from torch._inductor.cpu_vec_isa import pick_vec_isa
from torch._inductor.exc import CppCompileError, InvalidCxxCompiler

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
        return _build_error(error)
    except OSError as error:
        return CppBuildError(str(error))


def _build_error(error: CppCompileError) -> CppBuildError:
    lines = str(error.output).splitlines()
    errors = [_PLACE.sub("", line) for line in lines if _ERROR.search(line)]
    shown = "\n".join(errors[:_SHOWN_ERRORS]) or "\n".join(lines[:_SHOWN_ERRORS])
    return CppBuildError(shown or "the compiler failed")


_SOURCE, _OUTPUT = "source", "output"
"""Names in a command that stand for what is compiled."""


def object_command() -> tuple[str, ...]:
    """Return the command that compiles a kernel of Inductor's, without files.

    What is to be added is the source, ``-c``, ``-o`` and the object.

    Raises:
        CppBuildError: there is no compiler.
    """
    try:
        return _object_command()
    except InvalidCxxCompiler as error:
        raise CppBuildError(str(error)) from None


def _object_command() -> tuple[str, ...]:
    options = CppTorchDeviceOptions(compile_only=True, **_flags())
    builder = CppBuilder(name=_OUTPUT, sources=_SOURCE, BuildOption=options)
    files = {_SOURCE, "-c", "-o", builder.get_target_file_path()}
    words = shlex.split(builder.get_command_line())
    return tuple(word for word in words if word not in files)


@cache
def precompiled_prefix() -> tuple[str, ...]:
    """Return what to add to :func:`object_command` for sources with Inductor's header.

    The header is compiled where it is not yet.

    Raises:
        CppBuildError: it does not compile.
    """
    header = CppPythonBindingsCodeCache._get_uncompiled_header("cpu")
    if header is None or not config.cpp_cache_precompile_headers:
        return ()
    options = CppTorchDeviceOptions(min_optimize=False, **_flags())
    line = CppBuilder(name="o", sources="i", BuildOption=options).get_command_line()
    try:
        found = _precompile_header(header, line, min_optimize=False, **_flags())
    except CppCompileError as error:
        raise _build_error(error) from None
    return ("-include", str(found))


def _flags() -> dict[str, Any]:
    return {
        **CppPythonBindingsCodeCache.cpp_compile_command_flags,
        "device_type": "cpu",
        "extra_flags": (),
        "use_relative_path": False,
        "vec_isa": pick_vec_isa(),
    }
