"""Values of names while a program runs: tensors, tuples, pools, events, numbers."""

from collections.abc import Iterator

import torch
from attrs import evolve, frozen

from wrapperir.diagnostics import Code
from wrapperir.interp.fault import FaultError
from wrapperir.interp.layout import Layout
from wrapperir.interp.pool import Pool
from wrapperir.interp.storage import Storage
from wrapperir.interp.streams import Event


@frozen
class TensorValue:
    """A view: the tensor, its layout counted from its storage's start, and the storage.

    ``origin`` is the byte where the storage begins for the program: the storage of an
    operator's result begins its type's offset before its first element.
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


RunValue = TensorValue | TupleValue | OpaqueValue | Pool | Event | int | float
"""The value of a name while a program runs."""


def storages_of(value: RunValue) -> Iterator[Storage]:
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
        case _:
            return value
