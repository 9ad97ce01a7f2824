"""Values of names while a program runs: tensors, tuples, pools, events, numbers.

Tensors have new storages, or come from outside.
"""

from collections.abc import Iterator

import torch
from attrs import evolve, frozen

from wrapperir.diagnostics import Code, FaultError
from wrapperir.emit.torch_dtypes import element_type
from wrapperir.interp.fault import value_fault
from wrapperir.interp.layout import Layout
from wrapperir.interp.pool import Pool
from wrapperir.interp.storage import Owner, ShadowStorage, new_storage
from wrapperir.interp.streams import Event
from wrapperir.ir import DType, TensorType


@frozen
class TensorValue:
    """A view: the tensor, its layout counted from its storage's start, and the storage.

    ``origin`` is the byte where the storage begins for the program: the storage of an
    operator's result begins its type's offset before its first element.
    """

    tensor: torch.Tensor
    layout: Layout
    storage: ShadowStorage
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

    def written_elements(self) -> torch.Tensor | None:
        """Return a mask of the elements that were written; ``None`` if all were."""
        return self.storage.written_elements(self.layout)

    def require_written(self, name: str) -> None:
        """Raise a :class:`FaultError` unless every element was written."""
        if not self.storage.all_written(self.layout):
            problem = "is read, but was not wholly written"
            raise value_fault(Code.RUN_UNINITIALIZED_READ, name, problem)


@frozen
class TupleValue:
    """The results of an operator that returned several."""

    elements: tuple["RunValue", ...]


@frozen
class OpaqueValue:
    """A value that is only passed on."""

    value: object


RunValue = TensorValue | TupleValue | OpaqueValue | Pool | Event | int | float
"""The value of a name while a program runs."""


def storages_of(value: RunValue) -> Iterator[ShadowStorage]:
    """Yield the storages that a value refers to, repeats included."""
    if isinstance(value, TensorValue | Pool):
        yield value.storage
    elif isinstance(value, TupleValue):
        for element in value.elements:
            yield from storages_of(element)


def python_of(value: RunValue) -> object:
    """Return the Python object that an operator is given for a value.

    Raises:
        FaultError: it is a pool or an event.
    """
    match value:
        case Pool() | Event():
            message = "a pool or an event is not an argument"
            raise FaultError(Code.RUN_VALUE_KIND, message)
        case TensorValue(tensor=tensor):
            return tensor
        case TupleValue(elements):
            return [python_of(element) for element in elements]
        case OpaqueValue(inner):
            return inner
        case int() | float():
            return value


def allocate(type: TensorType, layout: Layout, *, zeroed: bool) -> TensorValue:
    """Return a new buffer: zeroed and written, or poisoned and not written.

    The storage spans just the type's extent and is aligned as the type promises.

    Raises:
        FaultError: the device is not the CPU, or the memory cannot be had.
    """
    storage = new_storage(type.device, layout.nbytes, type.alignment or 1, type)
    storage.begin(zeroed=zeroed)
    return TensorValue(storage.tensor(layout), layout, storage)


def adopt(
    tensor: torch.Tensor, type: TensorType, offset: int, owner: Owner, *, writable: bool
) -> TensorValue:
    """Return a tensor that came from outside, with a storage of its own.

    The storage begins ``offset`` elements before the tensor's first element.

    Raises:
        FaultError: the tensor is not strided, or its dtype has no name.
    """
    dtype = element_type(tensor.dtype)
    if tensor.layout is not torch.strided or dtype is None:
        message = f"a tensor of {tensor.dtype}, {tensor.layout} has no type here"
        raise FaultError(Code.RUN_VALUE_KIND, message)
    memory = tensor.untyped_storage()
    base = (int(tensor.storage_offset()) - offset) * tensor.element_size()
    if base < 0:
        message = f"offset is {tensor.storage_offset()}, not {offset}"
        raise FaultError(Code.RUN_VIEW_OUT_OF_BOUNDS, message)
    storage = ShadowStorage(
        memory=memory,
        base=base,
        nbytes=int(memory.nbytes()) - base,
        owner=owner,
        writable=writable,
        type=type,
    )
    return TensorValue(tensor.detach(), layout_in(tensor, dtype, storage), storage)


def layout_in(tensor: torch.Tensor, dtype: DType, storage: ShadowStorage) -> Layout:
    """Return a tensor's layout, its offset counted from the start of ``storage``."""
    offset = int(tensor.storage_offset()) - storage.base // dtype.itemsize
    return Layout(dtype, tuple(tensor.size()), tuple(tensor.stride()), offset)
