"""Checks of the memory that a kernel call reads and writes, before and while it runs."""

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
import torch
from attrs import define, frozen

from wrapperir.diagnostics import Code, FaultError
from wrapperir.interp.fault import kernel_fault
from wrapperir.interp.layout import Layout, same_elements
from wrapperir.interp.storage import ShadowStorage
from wrapperir.interp.streams import Launch
from wrapperir.interp.values import TensorValue
from wrapperir.ir import (
    Access,
    KernelDefinitionLine,
    Language,
    TensorParameter,
    runtime_parameters,
)
from wrapperir.kernels.triton_builder import Array


@frozen
class _Buffer:
    parameter: TensorParameter
    value: TensorValue


def _buffers(
    kernel: KernelDefinitionLine, arguments: Sequence[object]
) -> Iterator[_Buffer]:
    parameters = runtime_parameters(kernel.parameters)
    for parameter, argument in zip(parameters, arguments, strict=True):
        if isinstance(parameter, TensorParameter) and isinstance(argument, TensorValue):
            yield _Buffer(parameter, argument)


def check_memory(
    kernel: KernelDefinitionLine, arguments: Sequence[object], launch: Launch
) -> None:
    """Check that the call writes writable memory and reads written bytes.

    A Triton kernel's reads are checked one by one while it runs.  Reads of a C++
    kernel are not seen, so only an argument without a single written byte is a fault.

    Raises:
        FaultError: an argument may not be written, overlaps another, was never written, or
            is used on another stream meanwhile.
    """
    buffers = list(_buffers(kernel, arguments))
    for buffer in buffers:
        name, access = buffer.parameter.name, buffer.parameter.access
        storage = buffer.value.storage
        if access.writes and not storage.writable:
            problem = f"writes {name}, which is read-only"
            raise kernel_fault(Code.RUN_READ_ONLY, kernel.name, problem)
        if (
            access.reads
            and kernel.language is not Language.TRITON
            and not storage.any_written(buffer.value.layout)
            and not _writes_itself(buffers, buffer)
        ):
            problem = f"reads {name}, which nothing wrote"
            raise kernel_fault(Code.RUN_UNINITIALIZED_READ, kernel.name, problem)
        if access.reads:
            launch.read(storage.history, f"{name} of @{kernel.name}")
        if access.writes:
            launch.write(storage.history, f"{name} of @{kernel.name}")
    if kernel.language is Language.CPP:
        return  # it runs as its source says, so that an overlap has a meaning
    for one, other in combinations(buffers, 2):
        writes = one.parameter.access.writes or other.parameter.access.writes
        if writes and _partly_overlap(one.value, other.value):
            message = (
                f"{one.parameter.name} and {other.parameter.name} of @{kernel.name} "
                f"partly overlap: {one.value.layout} and {other.value.layout}"
            )
            raise FaultError(Code.RUN_OVERLAP, message, subject=f"@{kernel.name}")


def _writes_itself(buffers: Sequence[_Buffer], read: _Buffer) -> bool:
    """Say whether the call writes to the memory that it reads through ``read``."""
    memory = read.value.storage.memory.data_ptr()
    return any(
        buffer.parameter.access is Access.WRITE
        and buffer.value.storage.memory.data_ptr() == memory
        for buffer in buffers
    )


class CppWrites:
    """The bytes that a C++ kernel writes: each written argument, first element to last.

    The kernel sees neither size nor stride, so this may note more than it wrote.  The bytes
    just behind each written storage, of a guard or of a neighbour in a pool, are compared
    before and after.
    """

    def __init__(self, kernel: KernelDefinitionLine, arguments: Sequence[object]) -> None:
        """Record the bytes behind storages before the call."""
        self._kernel = kernel
        self._buffers = [
            b for b in _buffers(kernel, arguments) if b.parameter.access.writes
        ]
        self._behind = [_behind(b, self._buffers) for b in self._buffers]

    def note(self) -> None:
        """Compare after the call, and note the bytes as written.

        Raises:
            FaultError: the kernel wrote just behind a storage.
        """
        for buffer, before in zip(self._buffers, self._behind, strict=True):
            if not torch.equal(_behind(buffer, self._buffers), before):
                problem = f"writes past the end of {buffer.parameter.name}"
                code = Code.RUN_ACCESS_OUT_OF_BOUNDS
                raise kernel_fault(code, self._kernel.name, problem)
            buffer.value.storage.mark_extent(buffer.value.layout)


def _behind(buffer: _Buffer, written: Sequence[_Buffer]) -> torch.Tensor:
    """Return the bytes behind a storage, zeros where another argument may be written."""
    storage = buffer.value.storage
    if storage.behind is None:
        return torch.zeros(0, dtype=torch.uint8)
    behind = storage.behind.clone()
    start = storage.address + storage.nbytes
    for other in written:
        begin = max(other.value.storage.address - start, 0)
        end = other.value.storage.address + other.value.storage.nbytes - start
        if begin < end:
            behind[begin:end] = 0
    return behind


def _partly_overlap(one: TensorValue, other: TensorValue) -> bool:
    """Say whether two arguments share some bytes but not all.

    Interleaved views, such as the columns of a matrix, share none.
    """
    if one.storage.memory.data_ptr() != other.storage.memory.data_ptr():
        return False
    left = one.layout.begin + one.storage.base, one.layout.end + one.storage.base
    right = other.layout.begin + other.storage.base, other.layout.end + other.storage.base
    if one.layout.is_empty or other.layout.is_empty:
        return False
    if left[1] <= right[0] or right[1] <= left[0]:
        return False
    if one.storage.base == other.storage.base and same_elements(one.layout, other.layout):
        return False
    start = min(left[0], right[0])
    length = max(left[1], right[1]) - start
    first = _bytes(one.layout, left[0] - start, length)
    second = _bytes(other.layout, right[0] - start, length)
    return bool((first & second).any()) and not torch.equal(first, second)


def _bytes(layout: Layout, begin: int, length: int) -> torch.Tensor:
    """Return a mask of ``length`` bytes in which the layout, at ``begin``, covers some."""
    mask = torch.zeros(length, dtype=torch.bool)
    itemsize = layout.dtype.itemsize
    stride = (*(step * itemsize for step in layout.stride), 1)
    mask.as_strided((*layout.size, itemsize), stride, begin).fill_(True)
    return mask


@define(eq=False)
class _Region:
    """Memory that arguments share; ``tracked`` is the storage with a map, if one has."""

    start: int
    end: int
    writable: bool
    tracked: ShadowStorage | None


class AccessWatch:
    """Checks each access of a running Triton kernel against the memory of its arguments."""

    def __init__(self, kernel: KernelDefinitionLine, arguments: Sequence[object]) -> None:
        """Admit accesses to the arguments of a call."""
        regions: dict[int, _Region] = {}
        for buffer in _buffers(kernel, arguments):
            storage, writable = buffer.value.storage, buffer.parameter.access.writes
            if storage.nbytes == 0:
                continue  # it may be at the address of another storage
            start = storage.address
            end = start + storage.nbytes
            tracked = None if storage.written is None else storage
            region = _Region(start, end, writable, tracked)
            region = regions.setdefault(storage.memory.data_ptr(), region)
            region.start = min(region.start, start)
            region.end = max(region.end, end)
            region.writable |= writable
        self._ordered = sorted(regions.values(), key=lambda region: region.start)
        self._starts = np.array([r.start for r in self._ordered], dtype=np.uint64)
        self._ends = np.array([r.end for r in self._ordered], dtype=np.uint64)

    def read(self, addresses: Array, itemsize: int) -> None:
        """Check that the bytes were written."""
        for region, active in self._located(addresses, itemsize):
            if region.tracked is None or region.tracked.written is None:
                continue
            written = region.tracked.written.numpy()
            offsets = (active - np.uint64(region.start)).astype(np.int64)
            if not all(written[offsets + byte].all() for byte in range(itemsize)):
                message = "a kernel reads bytes that nothing wrote"
                raise FaultError(Code.RUN_UNINITIALIZED_READ, message)

    def write(self, addresses: Array, itemsize: int) -> None:
        """Check that writing is declared; note it."""
        for region, active in self._located(addresses, itemsize):
            if not region.writable:
                message = "a kernel writes through a parameter declared read"
                raise FaultError(Code.RUN_READ_ONLY, message)
            if region.tracked is None or region.tracked.written is None:
                continue
            written = region.tracked.written.numpy()
            offsets = (active - np.uint64(region.start)).astype(np.int64)
            for byte in range(itemsize):
                written[offsets + byte] = 1

    def _located(self, addresses: Array, itemsize: int) -> list[tuple[_Region, Array]]:
        """Return each region touched, with the addresses touched in it."""
        if addresses.size == 0:
            return []
        places = np.searchsorted(self._starts, addresses, side="right").astype(np.int64) - 1
        if (places < 0).any() or (
            addresses + np.uint64(itemsize) > self._ends[np.maximum(places, 0)]
        ).any():
            message = "a kernel touches memory outside the storages of its arguments"
            raise FaultError(Code.RUN_ACCESS_OUT_OF_BOUNDS, message)
        return [(self._ordered[p], addresses[places == p]) for p in np.unique(places)]
