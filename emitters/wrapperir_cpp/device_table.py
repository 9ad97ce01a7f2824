"""Kinds of device: their names in emitted C++, and the parts of the runtime they need."""

from pathlib import Path
from typing import LiteralString

from attrs import frozen

_RUNTIME = Path(__file__).with_name("runtime")


@frozen(kw_only=True)
class DeviceTable:
    """A kind of device as emitted C++ uses it.

    A kind that works asynchronously has a C++ table of functions, ``functions``: it
    allocates, zeroes and copies memory, and makes, records and waits for streams and events
    (``DeviceFunctions`` in ``runtime/device.h``).  Without one, work is done in the order
    of the program, in the memory of the host.

    Attributes:
        kind: The kind's name in programs.
        enumerator: The enumerator of ``Device`` in ``runtime/runtime.h``: PyTorch's kind.
        functions: The C++ name of the table of functions.
        headers: Files of the runtime that ``program.cpp`` includes.
        files: Paths of the kind's headers and sources; they are copied into artifacts.
        libraries: File names of PyTorch's libraries that are linked.
        reserved: Names that the headers declare: no value of a program gets one.
        allocation: The C++ function that makes an uninitialised tensor, as ``empty`` does.
        has_operators: Whether PyTorch has C functions ``aoti_torch_KIND_OPERATOR``.
    """

    kind: str
    enumerator: LiteralString
    functions: LiteralString | None = None
    headers: tuple[LiteralString, ...] = ()
    files: tuple[Path, ...] = ()
    libraries: tuple[str, ...] = ()
    reserved: frozenset[str] = frozenset()
    allocation: LiteralString = "empty"
    has_operators: bool = False


def runtime_files(*names: str) -> tuple[Path, ...]:
    """Return the paths of files of the runtime."""
    return tuple(_RUNTIME / name for name in names)


CPU_TABLE = DeviceTable(kind="cpu", enumerator="cpu", has_operators=True)
CUDA_TABLE = DeviceTable(
    kind="cuda",
    enumerator="cuda",
    functions="cuda_functions",
    headers=("cuda.h",),
    files=runtime_files(
        *("cuda.h", "cuda_driver.h"),
        *("cuda.cpp", "cuda_driver.cpp", "triton_launch.cpp"),
    ),
    libraries=("libtorch_cuda.so", "libc10_cuda.so"),
    reserved=frozenset(
        {
            *("Grid", "TritonKernel", "cuda_functions"),
            *("bfloat16_bits", "describe", "half_bits", "launch", "narrow"),
        }
    ),
    has_operators=True,
)
DEVICE_FILES = runtime_files("device.h", "device.cpp")
"""Files of the runtime that every kind with a table of functions needs."""
