"""Checks of the memory that a kernel call reads and writes."""

from collections.abc import Iterator, Sequence
from itertools import combinations

import torch
from attrs import frozen

from wrapperir.diagnostics import Code
from wrapperir.interp.fault import FaultError
from wrapperir.interp.layout import Layout, same_elements
from wrapperir.interp.streams import Launch
from wrapperir.interp.values import TensorValue
from wrapperir.ir import (
    Access,
    KernelDefinitionLine,
    Language,
    TensorParameter,
    runtime_parameters,
)


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
    """Check that the call writes only what it may and reads what was written.

    A Triton kernel's reads are checked one by one while it runs.  What a C++ kernel
    reads cannot be seen, so only an argument without a single written byte is a fault.

    Raises:
        FaultError: an argument may not be written, overlaps another, was never written, or
            is used on another stream meanwhile.
    """
    buffers = list(_buffers(kernel, arguments))
    for buffer in buffers:
        access = buffer.parameter.access
        storage = buffer.value.storage
        if access.writes and not storage.writable:
            message = f"@{kernel.name} writes {buffer.parameter.name}, which is read-only"
            raise FaultError(Code.RUN_READ_ONLY, message, subject=f"@{kernel.name}")
        if (
            access.reads
            and kernel.language is not Language.TRITON
            and not storage.any_written(buffer.value.layout)
            and not _writes_itself(buffers, buffer)
        ):
            message = f"@{kernel.name} reads {buffer.parameter.name}, which nothing wrote"
            raise FaultError(
                Code.RUN_UNINITIALIZED_READ, message, subject=f"@{kernel.name}"
            )
        if access.reads:
            launch.read(storage.history, f"{buffer.parameter.name} of @{kernel.name}")
        if access.writes:
            launch.write(storage.history, f"{buffer.parameter.name} of @{kernel.name}")
    if kernel.language is Language.CPP:
        return  # it runs as its source reads, so what an overlap means is defined
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
    """What a C++ kernel writes: each written argument, first element to last.

    The kernel sees neither size nor stride, so this may note more than it wrote.  The bytes
    just behind each written storage, of a guard or of a neighbour in a pool, are looked
    at before and after.
    """

    def __init__(self, kernel: KernelDefinitionLine, arguments: Sequence[object]) -> None:
        """Look, before the call."""
        self._kernel = kernel
        self._buffers = [
            b for b in _buffers(kernel, arguments) if b.parameter.access.writes
        ]
        self._behind = [_behind(b, self._buffers) for b in self._buffers]

    def note(self) -> None:
        """Look again, after the call, and note what was written.

        Raises:
            FaultError: the kernel wrote just behind a storage.
        """
        for buffer, before in zip(self._buffers, self._behind, strict=True):
            if not torch.equal(_behind(buffer, self._buffers), before):
                name = self._kernel.name
                message = f"@{name} writes past the end of {buffer.parameter.name}"
                raise FaultError(Code.RUN_ACCESS_OUT_OF_BOUNDS, message, subject=f"@{name}")
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
