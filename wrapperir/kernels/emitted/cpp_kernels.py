"""C++ kernels of an emitted program, compiled as few libraries.

Kernels that need no header are compiled as one library, each in a tenth of a second; those
that include PyTorch's header as one library for each processor.  Libraries are kept in the
user's cache; ``cpp_calls.cpp`` calls their kernels, or ctypes where that cannot be
compiled.
"""

import ctypes
import functools
import os
import shlex
import shutil
import signal
import struct
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch

_HERE = Path(__file__).parent
_native_module: Any = ModuleType("native_module")
SourceFileLoader("native_module", str(_HERE / "native_module.py")).exec_module(
    _native_module
)
_caching, _flags, _sources = (
    _native_module.import_beside(Path(__file__), name)
    for name in ("private_cache", "kernel_flags", "kernel_sources")
)
_native: Any = _native_module.build(_HERE / "cpp_calls.cpp", "arguments.h")

FLAGS = (
    *("-O3", "-fno-trapping-math", "-fno-math-errno", "-ffp-contract=off"),
    *("-march=native", "-std=c++20", "-fPIC", "-fopenmp", "-w"),
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
    """A kernel to compile: the object that calls it, its source, entry and types.

    ``vectors`` are the vector instructions that it is written with, if it may include
    PyTorch's header; "" are this machine's.
    """

    name: str
    kernel: Any
    source: str
    entry: str
    types: tuple[str, ...]
    vectors: str | None


class _Compiler(NamedTuple):
    """A command with flags, its ``--version``, and the vector instructions of the flags."""

    command: tuple[str, ...]
    version: str
    vectors: str | None


_jobs: list[_KernelToCompile] = []


def kernel(
    name: str, types: Sequence[str], entry: str, source: str, vectors: str | None = None
) -> Any:
    """Return the kernel of a source; :func:`build` compiles it.

    A kernel that may include headers has ``vectors``, the vector instructions that it is
    written with; "" for those of this machine.
    """
    make = _CalledByCtypes if _native is None else _native.Kernel
    made = make(name, tuple(types))
    job = _KernelToCompile(name, made, source, entry, tuple(types), vectors)
    _jobs.append(job)
    return made


def build() -> None:
    """Compile all kernels, or find them in the cache.

    Raises:
        RuntimeError: a kernel does not compile.
    """
    if not _jobs:
        return
    jobs = tuple(_jobs)
    _jobs.clear()
    units: list[tuple[_Compiler, list[_KernelToCompile]]] = []
    for vectors in dict.fromkeys(job.vectors for job in jobs):
        group = [job for job in jobs if job.vectors == vectors]
        compiler = _compiler(vectors)
        if vectors is None:
            units.append((compiler, group))
        else:
            texts = [_unit(0, job) for job in group]
            chosen = _sources.units_of(texts)
            units += [(compiler, [group[index] for index in unit]) for unit in chosen]
    if len(units) == 1:
        return _build_unit(*units[0])
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        for done in [pool.submit(_build_unit, *unit) for unit in units]:
            done.result()


def _build_unit(compiler: _Compiler, jobs: Sequence[_KernelToCompile]) -> None:
    """Compile kernels together; alone, if that fails, so that the one with an error shows.

    Raises:
        RuntimeError: a kernel does not compile.
    """
    try:
        loaded = ctypes.CDLL(str(_library(_text(jobs), compiler)))
    except (RuntimeError, OSError) as error:
        if len(jobs) == 1:
            raise RuntimeError(f"C++ compile error of @{jobs[0].name}:\n{error}") from None
        for job in jobs:
            _build_unit(compiler, [job])
        return
    for index, job in enumerate(jobs):
        function = loaded[f"wrapperir_call_{index}"]
        job.kernel.bind(ctypes.cast(function, ctypes.c_void_p).value)


@functools.cache
def _compiler(vectors: str | None) -> _Compiler:
    spelled = os.environ.get("CXX") or ("g++" if shutil.which("g++") else "c++")
    command = shlex.split(spelled)
    if vectors is None:
        return _Compiler((*command, *FLAGS), "", None)
    version = subprocess.run(  # noqa: S603
        [*command, "--version"], capture_output=True, text=True, check=True
    ).stdout
    flags = _flags.kernel_flags(version, vectors or _flags.machine_vectors())
    return _Compiler((*command, *flags), version, vectors)


def _text(jobs: Sequence[_KernelToCompile]) -> str:
    units = [_unit(index, job) for index, job in enumerate(jobs)]
    if jobs[0].vectors is None:
        return "".join(f"namespace of_{i} {{\n{text}}}\n" for i, text in enumerate(units))
    if len(units) == 1:
        return units[0]
    joined: str = _sources.joined_source(
        {f"of_{index}": text for index, text in enumerate(units)}
    )
    return joined


def _unit(index: int, job: _KernelToCompile) -> str:
    """Return a kernel's source and a function of 64-bit arguments that calls the kernel."""
    entry = f"wrapperir_kernel_{index}"
    head, body = _sources.split_includes(job.source)
    values = ", ".join(_argument(place, type) for place, type in enumerate(job.types))
    return (
        f"{head}#define {job.entry} {entry}\n{body}\n#undef {job.entry}\n"
        f"namespace {{ {_ADDRESS} }}\n"
        f'extern "C" void wrapperir_call_{index}(const unsigned long long* a) {{\n'
        f"  {entry}({values});\n}}\n"
    )


_ADDRESS = (
    "struct Address { unsigned long long value; "
    "template <typename T> operator T*() const { return (T*)value; } };"
)
"""An address that converts to a pointer of the type that a source declares."""


def _argument(place: int, type: str) -> str:
    if type == "address":
        return f"Address{{a[{place}]}}"
    if type == "f32":
        return f"__builtin_bit_cast(float, unsigned(a[{place}]))"
    if type == "f64":
        return f"__builtin_bit_cast(double, a[{place}])"
    return f"({_TYPES[type]})a[{place}]"


def _library(text: str, compiler: _Compiler) -> Path:
    """Return the library of a text, in the user's cache.

    Raises:
        RuntimeError: it does not compile.
    """
    command, version, vectors = compiler
    flags = _linked(compiler)
    facts: list[object]
    if vectors is None:
        facts = [list(command), _file_facts(command[0]), _flags.machine_facts()]
    else:
        facts = _flags.compiler_facts(command, version)
    facts += [list(flags), text]

    def compile(library: Path) -> None:
        linked = (*flags, "-o", str(library))
        if vectors is None or _sources.HEADER not in text:
            try:
                return _run((*command, *_TEXT, *linked), text)
            except RuntimeError:
                if vectors is None:
                    raise  # else it may use what the header declares
        _run((*command, *_header(compiler), *_TEXT, *linked), text)

    return _kept("cpp_kernels", f"{_caching.digest_of(facts)}.so", compile)


_TEXT = ("-x", "c++", "-", "-x", "none")


def _linked(compiler: _Compiler) -> tuple[str, ...]:
    """Return the flags for a library whose names, and variables, are its own."""
    alone = ("-shared", "-Wl,-Bsymbolic")
    if compiler.vectors is None:
        return alone
    folder = Path(torch.__file__).parent / "lib"
    unique = ("-fno-gnu-unique",) if _flags.is_gcc(compiler.version) else ()
    return (*unique, *alone, f"-L{folder}", "-ltorch_cpu", "-lc10")


@functools.cache
def _header(compiler: _Compiler) -> tuple[str, ...]:
    """Return the flags that include PyTorch's header."""
    command, version, _ = compiler

    def run(arguments: Sequence[str], folder: Path) -> None:
        _run((*command, *arguments), "", folder)

    facts = [*_flags.compiler_facts(command, version), _sources.HEADER]
    kept = functools.partial(_kept, "headers", f"{_caching.digest_of(facts)}.gch")
    found: tuple[str, ...] = _flags.header_flags(_sources.HEADER, version, run, kept)
    return found


def _run(command: Sequence[str], text: str, folder: Path | None = None) -> None:
    """Run a compiler with a text as its input.

    Raises:
        RuntimeError: it fails; with what it printed.
        KeyboardInterrupt: Ctrl-C ended it.
    """
    done = subprocess.run(  # noqa: S603
        command, input=text, cwd=folder, capture_output=True, text=True
    )
    if done.returncode in (-signal.SIGINT, 128 + signal.SIGINT):
        raise KeyboardInterrupt
    if done.returncode:
        raise RuntimeError(done.stderr)


def _kept(kind: str, name: str, make: Callable[[Path], None]) -> Path:
    """Return a file that is made once, in the user's cache if that can be used."""
    try:
        cache = _caching.user_cache(kind)
        if cache is not None:
            found: Path = cache.built(name, make)
            return found
    except OSError:  # it is not this user's alone, or the disk is full
        pass
    made = Path(tempfile.mkdtemp()) / name
    make(made)
    return made


def _file_facts(command: str) -> list[object]:
    path = os.path.realpath(shutil.which(command) or command)
    try:
        status = os.stat(path)
    except OSError:
        return [path]
    return [path, status.st_size, status.st_mtime_ns]
