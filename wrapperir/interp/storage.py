"""Shadow memory: storages that know which of their bytes were written."""

from collections.abc import Iterator
from enum import StrEnum

import torch
from attrs import define, evolve, field, frozen

from wrapperir.diagnostics import Code
from wrapperir.interp.fault import FaultError
from wrapperir.interp.layout import Layout
from wrapperir.interp.torch_values import DTYPES, TORCH_DTYPES
from wrapperir.ir.types import CPU, Device, TensorType

POISON = 0xFF
"""Fills memory without a value: NaN in every float format, −1 in every signed integer."""

_ALIGNMENT = 64  # of what PyTorch allocates on the CPU
_GUARD_BYTES = 64  # behind each allocation, to see what writes past its end
_GUARD = torch.arange(1, _GUARD_BYTES + 1, dtype=torch.uint8)


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
        guarded: whether bytes that nothing may write follow.
        names: how many names refer to it.
    """

    memory: torch.UntypedStorage
    base: int
    nbytes: int
    owner: Owner
    writable: bool
    type: TensorType | None
    written: torch.Tensor | None = None
    guarded: bool = False
    names: int = field(default=0, init=False)

    def keep(self) -> None:
        """Count one more name."""
        self.names += 1

    def drop(self) -> None:
        """Count one name less; without names, what the block owned is poisoned."""
        self.names -= 1
        if self.names == 0 and self.owner is Owner.BLOCK:
            self.poison()

    def poison(self) -> None:
        """Fill the bytes with :data:`POISON`."""
        self.bytes().fill_(POISON)

    def bytes(self) -> torch.Tensor:
        """Return the storage's bytes as a tensor of ``uint8``."""
        return _tensor_on(self.memory, torch.uint8, self.base, (self.nbytes,), (1,))

    def overrun(self) -> bool:
        """Say whether something wrote past the end, where that can be seen."""
        if not self.guarded:
            return False
        end = self.base + self.nbytes
        behind = _tensor_on(self.memory, torch.uint8, end, (_GUARD_BYTES,), (1,))
        return not torch.equal(behind, _GUARD)

    def tensor(self, layout: Layout) -> torch.Tensor:
        """Return the view with this layout.

        Raises:
            FaultError: it does not lie within the storage.
        """
        if not layout.is_empty and layout.end > self.nbytes:
            message = f"{layout} needs {layout.end} bytes of a storage of {self.nbytes}"
            raise FaultError(Code.RUN_VIEW_OUT_OF_BOUNDS, message)
        itemsize = layout.dtype.itemsize
        if self.base % itemsize:
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


@frozen
class TensorValue:
    """A view: the tensor, its layout counted from its storage's start, and the storage.

    For the program the storage may begin later, at byte ``origin``: that of an operator's
    result begins its type's offset before its first element, wherever that lies.
    """

    tensor: torch.Tensor
    layout: Layout
    storage: Storage
    origin: int = 0

    @property
    def own_layout(self) -> Layout:
        """The layout with its offset counted from where the program sees the start."""
        return self._shifted(self.layout, -self.origin)

    def view(self, layout: Layout) -> "TensorValue":
        """Return the view with this layout, whose offset counts as the program's do.

        Raises:
            FaultError: it does not lie within the storage.
        """
        if self.origin % layout.dtype.itemsize:
            message = f"the storage is not aligned for elements of {layout.dtype.value}"
            raise FaultError(Code.RUN_VIEW_OUT_OF_BOUNDS, message)
        placed = self._shifted(layout, self.origin)
        tensor = self.storage.tensor(placed)
        return TensorValue(tensor, placed, self.storage, self.origin)

    @staticmethod
    def _shifted(layout: Layout, bytes: int) -> Layout:
        if bytes == 0:
            return layout
        return evolve(layout, offset=layout.offset + bytes // layout.dtype.itemsize)

    def require_written(self, name: str) -> None:
        """Raise a :class:`FaultError` unless every element was written."""
        if not self.storage.all_written(self.layout):
            message = f"%{name} is read, but was not wholly written"
            raise FaultError(Code.RUN_UNINITIALIZED_READ, message, subject=f"%{name}")


@frozen
class TupleValue:
    """The results of an operator that returned several."""

    elements: tuple["RunValue", ...]


@frozen
class OpaqueValue:
    """A value that is only passed on."""

    value: object


RunValue = TensorValue | TupleValue | OpaqueValue | int | float
"""What a name stands for while a program runs."""


def storages_of(value: RunValue) -> Iterator[Storage]:
    """Yield the storages that a value refers to, repeats included."""
    if isinstance(value, TensorValue):
        yield value.storage
    elif isinstance(value, TupleValue):
        for element in value.elements:
            yield from storages_of(element)


def python_of(value: RunValue) -> object:
    """Return what an operator is given for a value."""
    match value:
        case TensorValue(tensor=tensor):
            return tensor
        case TupleValue(elements):
            return [python_of(element) for element in elements]
        case OpaqueValue(inner):
            return inner
        case _:
            return value


def allocate(type: TensorType, layout: Layout, *, zeroed: bool) -> TensorValue:
    """Return a new buffer: zeroed and written, or poisoned and not written.

    The storage spans just the type's extent and is aligned as the type promises.

    Raises:
        FaultError: the device is not the CPU, or the memory cannot be had.
    """
    require_cpu(type.device)
    nbytes = 0 if layout.is_empty else layout.end
    alignment = type.alignment or 1
    slack = alignment if alignment > _ALIGNMENT else 0
    try:
        block = torch.empty(nbytes + slack + _GUARD_BYTES, dtype=torch.uint8)
    except RuntimeError as error:
        message = f"{nbytes} bytes cannot be allocated"
        raise FaultError(Code.RUN_ALLOCATION, message) from error
    memory = block.untyped_storage()
    base = -memory.data_ptr() % alignment if slack else 0
    end = base + nbytes
    block[end : end + _GUARD_BYTES] = _GUARD
    storage = Storage(
        memory=memory,
        base=base,
        nbytes=nbytes,
        guarded=True,
        owner=Owner.BLOCK,
        writable=True,
        type=type,
        written=None if zeroed else torch.zeros(nbytes, dtype=torch.uint8),
    )
    storage.bytes().fill_(0 if zeroed else POISON)
    return TensorValue(storage.tensor(layout), layout, storage)


def adopt(
    tensor: torch.Tensor,
    *,
    owner: Owner,
    writable: bool,
    type: TensorType | None,
    offset: int = 0,
) -> TensorValue:
    """Return a tensor that came from outside, with a storage of its own.

    The storage begins ``offset`` elements before the tensor's first element.

    Raises:
        FaultError: the tensor is not strided, or its dtype has no name.
    """
    if tensor.layout is not torch.strided or tensor.dtype not in DTYPES:
        message = f"a tensor of {tensor.dtype}, {tensor.layout} has no type here"
        raise FaultError(Code.RUN_VALUE_KIND, message)
    memory = tensor.untyped_storage()
    base = (int(tensor.storage_offset()) - offset) * tensor.element_size()
    if base < 0:
        message = f"offset is {tensor.storage_offset()}, not {offset}"
        raise FaultError(Code.RUN_VIEW_OUT_OF_BOUNDS, message)
    storage = Storage(
        memory=memory,
        base=base,
        nbytes=int(memory.nbytes()) - base,
        owner=owner,
        writable=writable,
        type=type,
    )
    return TensorValue(tensor.detach(), layout_in(tensor, storage), storage)


def layout_in(tensor: torch.Tensor, storage: Storage) -> Layout:
    """Return a tensor's layout, its offset counted from the start of ``storage``."""
    return Layout(
        DTYPES[tensor.dtype],
        tuple(tensor.size()),
        tuple(tensor.stride()),
        int(tensor.storage_offset()) - storage.base // tensor.element_size(),
    )


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
