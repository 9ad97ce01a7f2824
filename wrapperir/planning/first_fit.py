"""First fit in a given order, compiled where there is a compiler."""

import ctypes
from array import array
from collections.abc import Sequence
from typing import Protocol

from attrs import frozen

from wrapperir.planning.native import NoCore, load_core
from wrapperir.planning.occupied import place_in_order
from wrapperir.planning.slots import Slots

_CORE = "first_fit_core.cpp"
_COMPILED_FROM = 64
"""Fewer buffers are placed sooner than the core is loaded."""
_MOST = 1 << 62

_NUMBERS = ctypes.POINTER(ctypes.c_int64)
_ARGUMENTS = (
    *(ctypes.c_int64, ctypes.c_int64),
    *(_NUMBERS, _NUMBERS, _NUMBERS, _NUMBERS, _NUMBERS),
    *(ctypes.c_int64, _NUMBERS, _NUMBERS),
)


class FirstFit(Protocol):
    """Places the buffers of one problem; all that do give the same offsets."""

    def place(
        self, order: Sequence[int], *, below: int | None, probes: int
    ) -> tuple[Sequence[int] | None, int]:
        """Do what :func:`~wrapperir.planning.occupied.place_in_order` does."""
        ...


def first_fit(slots: Slots) -> FirstFit:
    """Return what is fastest for these buffers."""
    if len(slots.buffers) >= _COMPILED_FROM:
        compiled = CompiledFirstFit.of(slots)
        if compiled is not None:
            return compiled
    return PythonFirstFit(slots)


@frozen
class PythonFirstFit:
    """First fit in Python."""

    slots: Slots

    def place(
        self, order: Sequence[int], *, below: int | None, probes: int
    ) -> tuple[Sequence[int] | None, int]:
        """Return offsets and probes; see :class:`FirstFit`."""
        return place_in_order(self.slots, order, below=below, probes=probes)


@frozen
class CompiledFirstFit:
    """First fit in C++."""

    library: ctypes.CDLL
    slots: int
    columns: tuple["array[int]", ...]
    """Of each buffer its first slot, the slot after its last, its size and alignment."""

    @classmethod
    def of(cls, slots: Slots) -> "CompiledFirstFit | None":
        """Return it for these buffers; ``None`` without a core, or for huge sizes."""
        library = load_core(_CORE)
        if isinstance(library, NoCore):
            return None
        if sum(slots.sizes) + sum(slots.alignments) > _MOST:
            return None
        place = library.wrapperir_first_fit
        place.restype = ctypes.c_int64
        place.argtypes = _ARGUMENTS
        columns = (slots.first, slots.stop, slots.sizes, slots.alignments)
        return cls(library, slots.count, tuple(array("q", column) for column in columns))

    def place(
        self, order: Sequence[int], *, below: int | None, probes: int
    ) -> tuple[Sequence[int] | None, int]:
        """Return offsets and probes; see :class:`FirstFit`.

        Raises:
            MemoryError: there is too little memory.
        """
        offsets = array("q", bytes(8 * len(order)))
        left = ctypes.c_int64(probes)
        height = self.library.wrapperir_first_fit(
            len(order),
            self.slots,
            *map(_numbers, self.columns),
            _numbers(array("q", order)),
            _MOST if below is None else below,
            ctypes.byref(left),
            _numbers(offsets),
        )
        if height == -2:
            raise MemoryError("too little memory to place the buffers")
        return None if height < 0 else offsets, probes - left.value


def _numbers(values: "array[int]") -> "ctypes.Array[ctypes.c_int64]":
    return (ctypes.c_int64 * len(values)).from_buffer(values)
