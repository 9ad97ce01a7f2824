"""C++ kernels of an emitted program that need no header, compiled as one library.

Without PyTorch's headers a kernel compiles in a tenth of a second.  The library is kept in
the user's cache; ``cpp_calls.cpp`` calls its kernels, or ctypes where that cannot be
compiled.
"""

import ctypes
import os
import platform
import shlex
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

_HERE = Path(__file__).parent
_native_module: Any = ModuleType("native_module")
SourceFileLoader("native_module", str(_HERE / "native_module.py")).exec_module(
    _native_module
)
_caching = _native_module.import_beside(Path(__file__), "private_cache")
_native: Any = _native_module.build(_HERE / "cpp_calls.cpp", "arguments.h")

FLAGS = (
    *("-O3", "-fno-trapping-math", "-fno-math-errno", "-ffp-contract=off"),
    *("-march=native", "-std=c++20", "-fPIC", "-fopenmp", "-w", "-shared"),
)
_FORMATS = {
    **{"bool": "?", "i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I"},
    **{"i64": "q", "u64": "Q", "f16": "e", "f32": "f", "f64": "d"},
}
_TYPES = {
    **{"address": "void*", "bool": "bool", "f32": "float", "f64": "double"},
    **{"f16": "unsigned short", "bf16": "unsigned short"},
    **{"i8": "signed char", "i16": "short", "i32": "int", "i64": "__INT64_TYPE__"},
    **{"u8": "unsigned char", "u16": "unsigned short", "u32": "unsigned"},
    "u64": "__UINT64_TYPE__",
}
"""The C++ types of parameters, by the names that the program has for them."""


class _CalledByCtypes:
    """A kernel that is called through ctypes."""

    def __init__(self, name: str, types: tuple[str, ...]) -> None:
        self.__name__ = name
        self._types = types
        self._function: Callable[[Any], object] | None = None

    def bind(self, address: int) -> None:
        self._function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)

    def __call__(self, *given: Any) -> None:
        if self._function is None:
            raise RuntimeError(f"{self.__name__} is not compiled")
        packed = [
            _pack(argument, type) for argument, type in zip(given, self._types, strict=True)
        ]
        self._function((ctypes.c_uint64 * len(packed))(*packed))


def _pack(argument: Any, type: str) -> int:
    if type == "address":
        return int(argument.data_ptr())
    if type == "bf16":
        return int.from_bytes(struct.pack("<f", argument), "little") >> 16
    return int.from_bytes(struct.pack("<" + _FORMATS[type], argument), "little")


class _KernelToCompile(NamedTuple):
    """A kernel to compile: the object that calls it, its source, entry and types."""

    kernel: Any
    source: str
    entry: str
    types: tuple[str, ...]


_jobs: list[_KernelToCompile] = []


def kernel(name: str, types: Sequence[str], entry: str, source: str) -> Any:
    """Return the kernel of a source; :func:`build` compiles it."""
    make = _CalledByCtypes if _native is None else _native.Kernel
    made = make(name, tuple(types))
    _jobs.append(_KernelToCompile(made, source, entry, tuple(types)))
    return made


def build() -> None:
    """Compile all kernels, or find them in the cache.

    Raises:
        RuntimeError: a kernel does not compile.
    """
    if not _jobs:
        return
    text = "".join(_unit(index, job) for index, job in enumerate(_jobs))
    command = [*shlex.split(os.environ.get("CXX") or shutil.which("g++") or "c++"), *FLAGS]
    loaded = ctypes.CDLL(str(_library(text, command)))
    for index, job in enumerate(_jobs):
        function = loaded[f"wrapperir_call_{index}"]
        job.kernel.bind(ctypes.cast(function, ctypes.c_void_p).value)
    _jobs.clear()


def _unit(index: int, job: _KernelToCompile) -> str:
    """Return a kernel in a namespace of its own, and a function of 64-bit arguments."""
    values = ", ".join(_argument(place, type) for place, type in enumerate(job.types))
    types = ", ".join(_TYPES[type] for type in job.types)
    entry = f"wrapperir_kernel_{index}"
    return (
        f"#define {job.entry} {entry}\n"
        f"namespace of_{index} {{\n{job.source}\n}}\n"
        f"#undef {job.entry}\n"
        f'void wrapperir_target_{index}({types}) __asm__("{entry}");\n'
        f'extern "C" void wrapperir_call_{index}(const unsigned long long* a) {{\n'
        f"  wrapperir_target_{index}({values});\n}}\n"
    )


def _argument(place: int, type: str) -> str:
    if type == "f32":
        return f"__builtin_bit_cast(float, unsigned(a[{place}]))"
    if type == "f64":
        return f"__builtin_bit_cast(double, a[{place}])"
    return f"({_TYPES[type]})a[{place}]"


def _library(text: str, command: Sequence[str]) -> Path:
    def compile(library: Path) -> None:
        done = subprocess.run(  # noqa: S603
            [*command, "-x", "c++", "-", "-o", str(library)],
            input=text,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f"C++ compile error:\n{done.stderr}")

    key = _caching.digest_of((text, list(command), _compiler_facts(command[0]), _machine()))
    try:
        cache = _caching.user_cache("cpp_kernels")
        if cache is not None:
            found: Path = cache.built(f"{key}.so", compile)
            return found
    except OSError:  # it is not this user's alone, or the disk is full
        pass
    library = Path(tempfile.mkdtemp()) / f"{key}.so"
    compile(library)
    return library


def _compiler_facts(command: str) -> list[object]:
    path = os.path.realpath(shutil.which(command) or command)
    try:
        status = os.stat(path)
    except OSError:
        return [path]
    return [path, status.st_size, status.st_mtime_ns]


def _machine() -> str:
    """Return what this machine's ``-march=native`` depends on."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    kept = ("flags", "Features", "model", "model name", "cpu family", "CPU part")
    found = {line for line in lines if line.split(":")[0].strip() in kept}
    return "\n".join(sorted(found))
