"""Kinds of device: their names in emitted C++, and their parts of the runtime."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import LiteralString

from attrs import frozen

import wrapperir
from wrapperir.emit.support import CPU_ALIGNMENT, CUDA_ALIGNMENT

_RUNTIME = Path(__file__).with_name("runtime")
EMITTED = Path(wrapperir.__file__).parent / "kernels" / "emitted"
"""Sources that emitted Python has, too."""


@frozen(kw_only=True)
class DeviceTable:
    """A kind of device as emitted C++ uses it.

    A kind that works asynchronously has a C++ table of functions, ``functions``: it
    allocates, zeroes and copies memory, and makes, records and waits for streams and events
    (``DeviceFunctions`` in ``runtime/device.h``).  Without one, work is done in the order
    of the program, in the memory of the host.

    Attributes:
        kind: The kind's name in programs.
        enumerator: The enumerator of ``Device`` in ``runtime/runtime.h``, PyTorch's kind.
        functions: The C++ name of the table of functions.
        headers: Files of the runtime that ``program.cpp`` includes.
        files: Paths of the kind's headers and sources; they are copied into artifacts.
        libraries: File names of PyTorch's libraries that are linked.
        reserved: Names that the headers declare: no value of a program gets one.
        recorder: The parts of the runtime that record and replay its graph regions; none if
            it has no graphs.
        allocation: The C++ function that makes an uninitialised tensor, as ``empty`` does.
        alignment: Bytes to which PyTorch aligns every allocation.
    """

    kind: str
    enumerator: LiteralString
    functions: LiteralString | None = None
    headers: tuple[LiteralString, ...] = ()
    files: tuple[Path, ...] = ()
    libraries: tuple[str, ...] = ()
    reserved: frozenset[str] = frozenset()
    recorder: tuple[Path, ...] = ()
    allocation: LiteralString = "empty"
    alignment: int = CPU_ALIGNMENT


def runtime_files(*names: str) -> tuple[Path, ...]:
    """Return the paths of files of the runtime."""
    return tuple(_RUNTIME / name for name in names)


_REGIONS = runtime_files(
    *("graph_regions.h", "region_calls.h", "result_layout.h", "result_layout.cpp")
)
CUDA_RECORDER = (
    *_REGIONS,
    *runtime_files("graph_regions.cpp", "region_recording.h", "region_recording.cpp"),
    *runtime_files("graph_captures.h", "graph_captures.cpp"),
    *runtime_files("graph_pools.h", "graph_pools.cpp"),
    EMITTED / "recording.h",
)
"""Recordings of CUDA's driver, whose operands may move."""
FIXED_RECORDER = (*_REGIONS, *runtime_files("fixed_regions.cpp"))
"""Recordings by a table's ``graphs``, whose operands are where they were recorded."""
CPU_TABLE = DeviceTable(kind="cpu", enumerator="cpu")
CUDA_TABLE = DeviceTable(
    kind="cuda",
    enumerator="cuda",
    functions="cuda_functions",
    headers=("cuda.h", "cuda_products.h"),
    files=(
        *runtime_files("cuda.h", "cuda_driver.h", "cuda.cpp", "triton_launch.cpp"),
        *runtime_files("cublas.h", "cublas_calls.h", "cublas_calls.cpp"),
        *runtime_files("cuda_products.h", "cuda_products.cpp"),
        *(EMITTED / "driver_functions.h", EMITTED / "descriptors.h"),
        *(EMITTED / "descriptor_parts.h", EMITTED / "special_launches.h"),
    ),
    libraries=("libtorch_cuda.so", "libc10_cuda.so"),
    reserved=frozenset(
        {
            *("Grid", "ProductOperand", "Products", "TritonKernel", "cuda_functions"),
            *("bfloat16_bits", "describe", "half_bits", "launch", "multiply", "narrow"),
        }
    ),
    recorder=CUDA_RECORDER,
    alignment=CUDA_ALIGNMENT,
)


def privateuse1_table(
    kind: str,
    headers: Sequence[LiteralString] = (),
    files: Sequence[Path] = (),
    reserved: Iterable[str] = (),
) -> DeviceTable:
    """Return the table of a device that a backend adds to PyTorch as PrivateUse1.

    Its memory, streams and events are those of the guard and the allocator that the backend
    registers.  ``headers`` declare what launches its kernels; with other sources they are
    among ``files``, and ``reserved`` are the names that they declare.
    """
    return DeviceTable(
        kind=kind,
        enumerator="privateuseone",
        functions="privateuse1_functions",
        headers=("privateuse1.h", *headers),
        files=(*runtime_files("privateuse1.h", "privateuse1.cpp"), *files),
        reserved=frozenset({"privateuse1_functions", "stream_id", *reserved}),
        recorder=FIXED_RECORDER,
    )


DEVICE_FILES = runtime_files("device.h", "device.cpp")
"""Files of the runtime that every kind with a table of functions needs."""
