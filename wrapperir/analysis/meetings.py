"""Which collectives of several ranks belong together, and whether they agree.

The n-th collective that a rank starts in a group belongs to the n-th of each other rank.
A send belongs to the receive of its peer that comes as many pairs after the first.
"""

from collections import Counter
from collections.abc import Hashable
from typing import Any, Generic, TypeVar

from attrs import define, field, frozen

from wrapperir.ir import Collective, DType, RankReduction

P = TypeVar("P")


@frozen(kw_only=True)
class CollectiveCall:
    """What one rank gives to a collective.

    ``read`` and ``written`` are the dtype of each tensor and its number of elements, which
    is ``None`` if it is not known, as are splits that are not.
    """

    operation: Collective
    reduction: RankReduction | None = None
    peer: int | None = None
    read: tuple[tuple[DType, int | None], ...] = ()
    written: tuple[tuple[DType, int | None], ...] = ()
    read_splits: tuple[int | None, ...] = ()
    write_splits: tuple[int | None, ...] = ()

    def __str__(self) -> str:
        """Return ``all_reduce(sum) of f32 × 8``."""
        reduction = f"({self.reduction.value})" if self.reduction else ""
        peer = "" if self.peer is None else f" with peer {self.peer}"
        tensors = self.read or self.written
        shown = ", ".join(f"{d.value} × {'?' if n is None else n}" for d, n in tensors)
        return f"{self.operation.value}{reduction}{peer} of {shown}"


@define(eq=False)
class Meeting(Generic[P]):
    """One collective: the ``size`` ranks that take part, and what each one brings."""

    size: int
    calls: dict[int, tuple[CollectiveCall, P]] = field(factory=dict[int, Any])

    @property
    def is_complete(self) -> bool:
        """Whether every rank has started it."""
        return len(self.calls) == self.size


class Meetings(Generic[P]):
    """The collectives of one group that its ranks have started."""

    def __init__(self, size: int) -> None:
        """Begin with none, for a group of ``size`` ranks."""
        self._size = size
        self._meetings: dict[Hashable, Meeting[P]] = {}
        self._counts: Counter[Hashable] = Counter()

    def join(
        self, rank: int, call: CollectiveCall, brings: P
    ) -> tuple[Meeting[P], tuple[int, str] | None]:
        """Return the meeting of a collective, and the first rank with which it differs.

        The difference is in words.  A rank that starts more collectives than others waits
        for them in a meeting of its own.
        """
        route: Hashable = None
        size = self._size
        if call.operation is Collective.SEND:
            route, size = (rank, call.peer), 2
        elif call.operation is Collective.RECEIVE:
            route, size = (call.peer, rank), 2
        number = self._counts[rank, call.operation.is_pairwise and call.operation, route]
        self._counts[rank, call.operation.is_pairwise and call.operation, route] += 1
        meeting = self._meetings.setdefault((route, number), Meeting(size))
        differs = None
        for other, (known, _) in meeting.calls.items():
            found = difference(other, known, rank, call)
            if found is not None:
                differs = other, found
                break
        meeting.calls[rank] = call, brings
        return meeting, differs


def difference(
    first: int, one: CollectiveCall, second: int, other: CollectiveCall
) -> str | None:
    """Return how the calls of two ranks certainly do not belong together, in words."""
    if one.operation.is_pairwise and other.operation.is_pairwise:
        sent, received = (one.read or one.written), (other.read or other.written)
        return _tensors_differ(sent, received)
    if (one.operation, one.reduction) != (other.operation, other.reduction):
        return "the operations differ"
    if one.peer != other.peer:
        return "the peers differ"
    if one.operation is not Collective.ALL_TO_ALL:
        return _tensors_differ(one.read, other.read)
    if bool(one.read_splits) != bool(other.read_splits):
        return "one has splits, the other none"
    if not one.read_splits:
        return _tensors_differ(one.read, other.read)
    if [dtype for dtype, _ in one.read] != [dtype for dtype, _ in other.read]:
        return "the dtypes differ"
    for given, taken in (
        (one.read_splits[second], other.write_splits[first]),
        (other.read_splits[first], one.write_splits[second]),
    ):
        if given is not None and taken is not None and given != taken:
            return f"one gives {given} rows, the other takes {taken}"
    return None


_Tensors = tuple[tuple[DType, int | None], ...]


def _tensors_differ(one: _Tensors, other: _Tensors) -> str | None:
    if len(one) != len(other):
        return "the numbers of tensors differ"
    for (dtype, count), (other_dtype, other_count) in zip(one, other, strict=True):
        if dtype is not other_dtype:
            return "the dtypes differ"
        if count is not None and other_count is not None and count != other_count:
            return "the numbers of elements differ"
    return None
