"""Python objects for the timing loops in C++ (``harness.cpp``), which is compiled once."""

import ctypes
import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from attrs import frozen

import wrapperir_cpp
from bench.host.chains import SHAPE
from bench.results import ROOT, tested_versions

SOURCE = Path(__file__).with_name("harness.cpp")
TORCH = Path(torch.__file__).parent
INCLUDES = (
    TORCH / "include",
    TORCH / "include/torch/csrc/api/include",
    Path(wrapperir_cpp.__file__).parent / "runtime",
)
MOST_ARGUMENTS = 3


@frozen
class Subject:
    """A call to be timed in a loop; ``keeps`` holds the objects that it needs."""

    handle: int
    keeps: object = None

    def nanoseconds(self, calls: int) -> float:
        """Return the time of one call, as the mean of so many."""
        taken: float = _library().harness_time(self.handle, calls)
        if taken < 0:
            raise RuntimeError(_library().harness_error().decode())
        return taken

    def output(self) -> torch.Tensor:
        """Call the program and return what it gives."""
        result = torch.empty(SHAPE)
        if _library().harness_output(self.handle, ctypes.c_void_p(result.data_ptr())):
            raise RuntimeError(_library().harness_error().decode())
        return result


def loader(package: Path, inputs: Sequence[torch.Tensor]) -> Subject:
    """Return ``AOTIModelPackageLoader::run`` of a package."""
    return _made("loader", str(package).encode(), _addresses(inputs), len(inputs))


def library(path: Path, inputs: Sequence[torch.Tensor]) -> Subject:
    """Return ``wrapperir_run`` of a library, opened in its own directory."""
    names = str(path).encode(), str(path.parent).encode()
    return _made("library", *names, _addresses(inputs), len(inputs))


def bare_loop(
    steps: Sequence[tuple[int, Sequence[int]]],
    places: Sequence[torch.Tensor],
    last: int,
    *,
    fresh: bool,
) -> Subject:
    """Return a loop over kernels, each an address and the numbers of its places.

    The result is at the place ``last``; with ``fresh``, a new tensor in each call.
    """
    words: list[int] = []
    for kernel, numbers in steps:
        if len(numbers) > MOST_ARGUMENTS:
            raise ValueError(f"a kernel has more than {MOST_ARGUMENTS} arguments")
        words += [kernel, *numbers, *[0] * (MOST_ARGUMENTS - len(numbers))]
    table = (ctypes.c_int64 * len(words))(*words)
    counted = _addresses(places), len(places), last, int(fresh)
    return _made("bare_loop", table, len(steps), *counted, keeps=places)


def multiply() -> int:
    """Return the address of the BLAS function that multiplies matrices in a bare loop."""
    return ctypes.cast(_library().harness_multiply, ctypes.c_void_p).value or 0


def piece(name: str) -> Subject:
    """Return one thing that host programs do, such as ``sgemm_``."""
    return _made("piece", name.encode())


def _made(kind: str, *arguments: Any, keeps: object = None) -> Subject:
    handle = getattr(_library(), f"harness_{kind}")(*arguments)
    if handle is None:
        raise RuntimeError(_library().harness_error().decode())
    return Subject(handle, keeps)


def _addresses(tensors: Sequence[torch.Tensor]) -> Any:
    return (ctypes.c_void_p * len(tensors))(*[t.data_ptr() for t in tensors])


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(_compiled()))
    pointer, integer = ctypes.c_void_p, ctypes.c_int64
    for kind, arguments in {
        "loader": (ctypes.c_char_p, pointer, integer),
        "library": (ctypes.c_char_p, ctypes.c_char_p, pointer, integer),
        "bare_loop": (pointer, integer, pointer, integer, integer, ctypes.c_int),
        "piece": (ctypes.c_char_p,),
    }.items():
        function = getattr(library, f"harness_{kind}")
        function.argtypes, function.restype = arguments, pointer
    library.harness_error.restype = ctypes.c_char_p
    library.harness_time.argtypes = (pointer, integer)
    library.harness_time.restype = ctypes.c_double
    library.harness_output.argtypes = (pointer, pointer)
    return library


def _compiled() -> Path:
    """Return the library, compiled if the source or a version has changed."""
    header = INCLUDES[-1] / "wrapperir.h"
    key = SOURCE.read_bytes() + header.read_bytes() + tested_versions().encode()
    folder = ROOT / "out" / "cpp-harness"
    target = folder / f"{hashlib.sha256(key).hexdigest()[:16]}.so"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        compiler = shutil.which("g++") or "c++"
        command = [compiler, "-std=c++20", "-O2", "-shared", "-fPIC", "-w", str(SOURCE)]
        command += [f"-I{include}" for include in INCLUDES]
        command += [f"-L{TORCH / 'lib'}", "-ltorch_cpu", "-lc10"]
        command += [f"-Wl,-rpath,{TORCH / 'lib'}", "-o", str(target)]
        subprocess.run(command, check=True)
    return target
