"""Shadow memory: storages that know which of their bytes were written."""

from collections.abc import Callable, Collection
from enum import StrEnum

import torch
from attrs import define, field

from wrapperir.diagnostics import Code
from wrapperir.interp.fault import FaultError
from wrapperir.interp.layout import Layout
from wrapperir.interp.streams import History
from wrapperir.interp.torch_values import TORCH_DTYPES
from wrapperir.ir import CPU, Device, TensorType

POISON = 0xFF
"""Fills memory without a value: NaN in every float format, −1 in every signed integer."""

GUARD_BYTES = 64
"""Behind each allocation, to see what writes past its end."""

_ALIGNMENT = 64  # of what PyTorch allocates on the CPU
_GUARD = torch.arange(1, GUARD_BYTES + 1, dtype=torch.uint8)


class Owner(StrEnum):
    """Who keeps a storage alive."""

    BLOCK = "block"
    INPUT = "input"
    CONSTANT = "constant"
    PROGRAM = "program"


@define(eq=False, kw_only=True)
class Storage:
    """Memory that names refer to.

    Args:
        memory: PyTorch's storage of the bytes.
        base: bytes of ``memory`` before the storage begins for the program.
        nbytes: bytes from ``base`` on.
        owner: who keeps it alive; only what a block owns is poisoned when dropped.
        writable: whether a program may write to it.
        type: the type it was allocated as, or that of the value it came with.
        written: a byte for each byte, 1 where something wrote it; ``None`` if all are.
        behind: the bytes that follow, where they can be seen: guards or neighbours.
        history: what streams did to it.
        pool: the memory of the pool that it is placed in, if it is.
        alignment: what its place in a pool gives it, in bytes; ``None`` outside of pools.
        released: told when what the block owned lost its last name.
        names: how many names refer to it.
    """

    memory: torch.UntypedStorage
    base: int
    nbytes: int
    owner: Owner
    writable: bool
    type: TensorType | None
    written: torch.Tensor | None = None
    behind: torch.Tensor | None = None
    history: History = field(factory=History)
    pool: "Storage | None" = None
    alignment: int | None = None
    released: Callable[[], None] | None = None
    names: int = field(default=0, init=False)

    def keep(self) -> None:
        """Count one more name."""
        self.names += 1

    def drop(self) -> None:
        """Count one name less; without names, what the block owned is poisoned."""
        self.names -= 1
        if self.names == 0 and self.owner is Owner.BLOCK:
            self.fill(zeroed=False)
            released, self.released = self.released, None
            if released is not None:
                released()

    def fill(self, *, zeroed: bool) -> None:
        """Fill the bytes with zeros or :data:`POISON`."""
        self.bytes().fill_(0 if zeroed else POISON)

    def bytes(self) -> torch.Tensor:
        """Return the storage's bytes as a tensor of ``uint8``."""
        return _tensor_on(self.memory, torch.uint8, self.base, (self.nbytes,), (1,))

    def within(self, others: Collection["Storage"]) -> bool:
        """Say whether it is one of ``others``, or placed in one, or in a pool in one."""
        storage: Storage | None = self
        while storage is not None:
            if storage in others:
                return True
            storage = storage.pool
        return False

    @property
    def address(self) -> int:
        """Where its first byte lies."""
        return self.memory.data_ptr() + self.base

    def tensor(self, layout: Layout) -> torch.Tensor:
        """Return the view with this layout.

        Raises:
            FaultError: it does not lie within the storage.
        """
        if not layout.is_empty and layout.end > self.nbytes:
            message = f"{layout} needs {layout.end} bytes of a storage of {self.nbytes}"
            raise FaultError(Code.RUN_VIEW_OUT_OF_BOUNDS, message)
        itemsize = layout.dtype.itemsize
        if self.base % itemsize or (self.alignment or itemsize) % itemsize:
            message = f"the storage is not aligned for elements of {layout.dtype.value}"
            raise FaultError(Code.RUN_VIEW_OUT_OF_BOUNDS, message)
        offset = 0 if layout.is_empty else layout.offset + self.base // itemsize
        dtype = TORCH_DTYPES[layout.dtype]
        return _tensor_on(self.memory, dtype, offset, layout.size, layout.stride)

    def mark(self, layout: Layout) -> None:
        """Note that all elements of ``layout`` were written."""
        if self.written is not None and not layout.is_empty:
            _elements(self.written, layout).fill_(1)

    def mark_extent(self, layout: Layout) -> None:
        """Note that all bytes from the first element to the last were written."""
        if self.written is not None:
            self.written[layout.begin : layout.end].fill_(1)

    def all_written(self, layout: Layout) -> bool:
        """Say whether every byte of every element was written."""
        if self.written is None or layout.is_empty:
            return True
        if bool(self.written.all()):
            self.written = None  # nothing unwrites a byte
            return True
        return bool(_elements(self.written, layout).all())

    def any_written(self, layout: Layout) -> bool:
        """Say whether any byte of any element was written, or there is no element."""
        if self.written is None or layout.is_empty:
            return True
        return bool(_elements(self.written, layout).any())


def guarded_bytes(device: Device, nbytes: int, alignment: int) -> tuple[torch.Tensor, int]:
    """Return new bytes with guards behind them, and where the aligned ones begin.

    Raises:
        FaultError: the device is not the CPU, or the memory cannot be had.
    """
    require_cpu(device)
    slack = alignment if alignment > _ALIGNMENT else 0
    try:
        block = torch.empty(nbytes + slack + GUARD_BYTES, dtype=torch.uint8)
    except RuntimeError as error:
        message = f"{nbytes} bytes cannot be allocated"
        raise FaultError(Code.RUN_ALLOCATION, message) from error
    base = -block.data_ptr() % alignment if slack else 0
    end = base + nbytes
    block[end : end + GUARD_BYTES] = _GUARD
    return block, base


def require_cpu(device: Device) -> None:
    """Raise a :class:`FaultError` unless the device is the CPU."""
    if device.kind != CPU.kind:
        message = f"the interpreter runs on the CPU, not on {device}"
        raise FaultError(Code.RUN_DEVICE, message)


def _tensor_on(
    memory: torch.UntypedStorage,
    dtype: torch.dtype,
    offset: int,
    size: tuple[int, ...],
    stride: tuple[int, ...],
) -> torch.Tensor:
    return torch.empty(0, dtype=dtype).set_(memory, offset, size, stride)


def _elements(written: torch.Tensor, layout: Layout) -> torch.Tensor:
    """Return the bytes of ``written`` that belong to elements; one more dimension."""
    itemsize = layout.dtype.itemsize
    size = (*layout.size, itemsize)
    stride = (*(step * itemsize for step in layout.stride), 1)
    return written.as_strided(size, stride, layout.begin)
