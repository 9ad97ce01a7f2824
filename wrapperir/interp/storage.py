"""Shadow memory: storages that know which of their bytes were written."""

from collections.abc import Callable, Collection
from enum import StrEnum

import torch
from attrs import define, field

from wrapperir.diagnostics import Code, FaultError
from wrapperir.emit.torch_dtypes import torch_dtype
from wrapperir.interp.layout import Layout
from wrapperir.interp.streams import History
from wrapperir.ir import CPU, Device, TensorType

POISON = 0xFF
"""Fills memory without a value: NaN in every float format, −1 in every signed integer."""

GUARD_BYTES = 64
"""Bytes of the guard behind each allocation, which shows writes past its end."""

_ALIGNMENT = 64  # of PyTorch's CPU allocations, in bytes
_GUARD = torch.arange(1, GUARD_BYTES + 1, dtype=torch.uint8)


class Owner(StrEnum):
    """The owner of a storage, which keeps it alive."""

    BLOCK = "block"
    INPUT = "input"
    DONATED = "donated input"
    CONSTANT = "constant"
    PROGRAM = "program"


@define(eq=False, kw_only=True)
class ShadowStorage:
    """Memory that names refer to.

    Args:
        memory: PyTorch's storage of the bytes.
        base: Byte offset in ``memory`` at which the storage begins for the program.
        nbytes: Bytes from ``base`` on.
        owner: The owner; a storage of a block is poisoned when its last name is dropped.
        writable: Whether a program may write to it.
        type: The type it was allocated as, or the type of the value it came with.
        written: A byte for each byte, 1 where it was written; ``None`` if all were.
        behind: The bytes that follow, where they can be seen: guards or neighbours.
        history: Uses by streams.
        pool: The storage of the pool that it is placed in.
        alignment: Alignment of its place in a pool, in bytes; ``None`` outside of pools.
        released: Called when a storage of a block has lost its last name.
        names: Number of names that refer to it.
    """

    memory: torch.UntypedStorage
    base: int
    nbytes: int
    owner: Owner = Owner.BLOCK
    writable: bool = True
    type: TensorType | None = None
    written: torch.Tensor | None = None
    behind: torch.Tensor | None = None
    history: History = field(factory=History)
    pool: "ShadowStorage | None" = None
    alignment: int | None = None
    released: Callable[[], None] | None = None
    names: int = field(default=0, init=False)

    def keep(self) -> None:
        """Count one more name."""
        self.names += 1

    def drop(self) -> None:
        """Count one name less; poison a storage of a block that has none left."""
        self.names -= 1
        if self.names == 0 and self.owner is Owner.BLOCK:
            self.fill(zeroed=False)
            released, self.released = self.released, None
            if released is not None:
                released()

    def fill(self, *, zeroed: bool) -> None:
        """Fill the bytes with zeros or :data:`POISON`."""
        self.bytes().fill_(0 if zeroed else POISON)

    def begin(self, *, zeroed: bool) -> None:
        """Begin a buffer: zeroed and written, or poisoned and not written."""
        self.written = None if zeroed else torch.zeros(self.nbytes, dtype=torch.uint8)
        self.fill(zeroed=zeroed)

    def bytes(self) -> torch.Tensor:
        """Return the storage's bytes as a tensor of ``uint8``."""
        return _tensor_on(self.memory, torch.uint8, self.base, (self.nbytes,), (1,))

    def guarded_bytes(self) -> torch.Tensor:
        """Return the bytes of a new storage and of the guard behind them."""
        size = (self.nbytes + GUARD_BYTES,)
        return _tensor_on(self.memory, torch.uint8, self.base, size, (1,))

    def within(self, others: Collection["ShadowStorage"]) -> bool:
        """Say whether it is one of ``others``, or placed in one, or in a pool in one."""
        storage: ShadowStorage | None = self
        while storage is not None:
            if storage in others:
                return True
            storage = storage.pool
        return False

    @property
    def address(self) -> int:
        """The address of its first byte."""
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
        dtype = torch_dtype(layout.dtype)
        return _tensor_on(self.memory, dtype, offset, layout.size, layout.stride)

    def mark(self, layout: Layout) -> None:
        """Note that all elements of ``layout`` were written."""
        if self.written is not None and not layout.is_empty:
            elements(self.written, layout).fill_(1)

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
        return bool(elements(self.written, layout).all())

    def written_elements(self, layout: Layout) -> torch.Tensor | None:
        """Return a mask of the elements that were written; ``None`` if all were."""
        if self.all_written(layout):
            return None
        assert self.written is not None  # otherwise all are
        return elements(self.written, layout).bool().all(dim=-1)

    def any_written(self, layout: Layout) -> bool:
        """Say whether any byte of any element was written, or there is no element."""
        if self.written is None or layout.is_empty:
            return True
        return bool(elements(self.written, layout).any())


def new_storage(
    device: Device, nbytes: int, alignment: int, type: TensorType | None = None
) -> ShadowStorage:
    """Return a storage of new bytes, aligned and followed by a guard.

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
    behind = block[base + nbytes : base + nbytes + GUARD_BYTES]
    behind.copy_(_GUARD)
    memory = block.untyped_storage()
    return ShadowStorage(memory=memory, base=base, nbytes=nbytes, type=type, behind=behind)


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


def elements(written: torch.Tensor, layout: Layout) -> torch.Tensor:
    """Return the bytes of ``written`` that belong to elements; one more dimension."""
    itemsize = layout.dtype.itemsize
    size = (*layout.size, itemsize)
    stride = (*(step * itemsize for step in layout.stride), 1)
    return written.as_strided(size, stride, layout.begin)
