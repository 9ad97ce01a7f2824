"""The searches for a plan within a given height, compiled where there is a compiler."""

import ctypes
from array import array
from collections.abc import Sequence
from typing import Protocol

from attrs import frozen

from wrapperir.planning.attempt import Attempt, Outcome
from wrapperir.planning.ejection_search import search_ejections
from wrapperir.planning.native import NoCore, load_core
from wrapperir.planning.slots import Slots
from wrapperir.planning.tree_search import search_tree

MOST_TREE_BUFFERS = 4096
"""The tables of the tree search grow with the square of the buffers."""

_TREE_CORE = "tree_search_core.cpp"
_EJECTION_CORE = "ejection_search_core.cpp"
_MOST = 1 << 62
_TREE_STEPS = 2
"""Steps of a first attempt of the tree search for each buffer: one turn of one order."""
_EJECTION_STEPS = 256
"""Steps of a first attempt of the local search."""
_LONGEST = 1e9
"""Seconds that a core takes for its budget, so that its clock does not overflow."""

_NUMBER = ctypes.c_int64
_NUMBERS = ctypes.POINTER(ctypes.c_int64)


class Search(Protocol):
    """Searches for a plan within a given height."""

    @property
    def name(self) -> str:
        """What the search is called."""
        ...

    @property
    def first_steps(self) -> int:
        """How many steps a first attempt is worth."""
        ...

    def attempt(
        self,
        start: Sequence[int],
        *,
        capacity: int,
        seed: int,
        steps: int,
        seconds: float,
    ) -> Attempt:
        """Search for a plan of at most ``capacity`` bytes, in at most so many steps.

        ``start`` is a plan of any height.  Without the clock, the same arguments give the
        same attempt, compiled or not.

        Raises:
            MemoryError: there is too little memory.
        """
        ...


def tree(slots: Slots, ranks: Sequence[Sequence[int]]) -> Search:
    """Return the exact search of :mod:`~wrapperir.planning.tree_search`."""
    return CompiledTree.of(slots, ranks) or PythonTree(slots, ranks)


def ejections(slots: Slots) -> Search:
    """Return the local search of :mod:`~wrapperir.planning.ejection_search`."""
    return CompiledEjections.of(slots) or PythonEjections(slots)


@frozen
class PythonTree:
    """The exact search in Python."""

    slots: Slots
    ranks: Sequence[Sequence[int]]
    name: str = "tree"

    @property
    def first_steps(self) -> int:
        """How many steps a first attempt is worth."""
        return _TREE_STEPS * len(self.slots.sizes)

    def attempt(
        self,
        start: Sequence[int],
        *,
        capacity: int,
        seed: int,
        steps: int,
        seconds: float,
    ) -> Attempt:
        """Search; see :class:`Search`.  It needs neither ``start`` nor ``seed``."""
        return search_tree(
            self.slots, self.ranks, capacity=capacity, steps=steps, seconds=seconds
        )


@frozen
class PythonEjections:
    """The local search in Python."""

    slots: Slots
    name: str = "ejections"
    first_steps: int = _EJECTION_STEPS

    def attempt(
        self,
        start: Sequence[int],
        *,
        capacity: int,
        seed: int,
        steps: int,
        seconds: float,
    ) -> Attempt:
        """Search; see :class:`Search`."""
        return search_ejections(
            self.slots,
            capacity=capacity,
            start=start,
            seed=seed,
            steps=steps,
            seconds=seconds,
        )


@frozen
class CompiledTree:
    """The exact search in C++."""

    library: ctypes.CDLL
    sections: int
    columns: tuple["array[int]", ...]
    ranks: "array[int]"
    orders: int
    name: str = "tree"

    @property
    def first_steps(self) -> int:
        """How many steps a first attempt is worth."""
        return _TREE_STEPS * len(self.columns[0])

    @classmethod
    def of(cls, slots: Slots, ranks: Sequence[Sequence[int]]) -> "CompiledTree | None":
        """Return it for these buffers; ``None`` without a core, or for huge sizes."""
        library = load_core(_TREE_CORE)
        if isinstance(library, NoCore) or not _fits_words(slots):
            return None
        function = library.wrapperir_tree_search
        function.restype = _NUMBER
        function.argtypes = (
            *(_NUMBER, _NUMBER, _NUMBERS, _NUMBERS, _NUMBERS, _NUMBERS, _NUMBERS),
            *(_NUMBER, _NUMBER, _NUMBER, ctypes.c_double, _NUMBERS, _NUMBERS),
        )
        flat = array("q", (place for rank in ranks for place in rank))
        return cls(library, slots.count, _columns(slots), flat, len(ranks))

    def attempt(
        self,
        start: Sequence[int],
        *,
        capacity: int,
        seed: int,
        steps: int,
        seconds: float,
    ) -> Attempt:
        """Search; see :class:`Search`.  It needs neither ``start`` nor ``seed``."""
        count = len(self.columns[0])
        done, offsets = array("q", [0]), array("q", bytes(8 * count))
        status = self.library.wrapperir_tree_search(
            count,
            self.sections,
            *map(_numbers, self.columns),
            _numbers(self.ranks),
            self.orders,
            _word(capacity),
            _word(steps),
            _budget(seconds),
            _numbers(done),
            _numbers(offsets),
        )
        return _attempt(status, offsets, done[0])


@frozen
class CompiledEjections:
    """The local search in C++."""

    library: ctypes.CDLL
    columns: tuple["array[int]", ...]
    name: str = "ejections"
    first_steps: int = _EJECTION_STEPS

    @classmethod
    def of(cls, slots: Slots) -> "CompiledEjections | None":
        """Return it for these buffers; ``None`` without a core, or for huge sizes."""
        library = load_core(_EJECTION_CORE)
        if isinstance(library, NoCore) or not _fits_words(slots):
            return None
        function = library.wrapperir_ejection_search
        function.restype = _NUMBER
        function.argtypes = (
            *(_NUMBER, _NUMBERS, _NUMBERS, _NUMBERS, _NUMBERS),
            *(_NUMBER, _NUMBER, _NUMBER, ctypes.c_double, _NUMBERS, _NUMBERS),
        )
        return cls(library, _columns(slots))

    def attempt(
        self,
        start: Sequence[int],
        *,
        capacity: int,
        seed: int,
        steps: int,
        seconds: float,
    ) -> Attempt:
        """Search; see :class:`Search`."""
        done, offsets = array("q", [0]), array("q", start)
        status = self.library.wrapperir_ejection_search(
            len(offsets),
            *map(_numbers, self.columns),
            _word(capacity),
            seed,
            _word(steps),
            _budget(seconds),
            _numbers(done),
            _numbers(offsets),
        )
        return _attempt(status, offsets, done[0])


def _fits_words(slots: Slots) -> bool:
    return sum(slots.sizes) + sum(slots.alignments) <= _MOST


def _columns(slots: Slots) -> tuple["array[int]", ...]:
    columns = (slots.first, slots.stop, slots.sizes, slots.alignments)
    return tuple(array("q", column) for column in columns)


def _word(number: int) -> int:
    # No plan, and no budget, needs more.
    return min(number, _MOST)


def _budget(seconds: float) -> float:
    return min(max(seconds, 0.0), _LONGEST)


def _numbers(values: "array[int]") -> "ctypes.Array[ctypes.c_int64]":
    return (ctypes.c_int64 * len(values)).from_buffer(values)


def _attempt(status: int, offsets: Sequence[int], steps: int) -> Attempt:
    if status == -2:
        raise MemoryError("too little memory to search for a plan")
    outcome = Outcome(status)
    return Attempt(outcome, offsets if outcome is Outcome.FOUND else (), steps)
