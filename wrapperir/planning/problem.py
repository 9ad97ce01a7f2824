"""Static memory allocation: buffers with sizes and live ranges, and plans of offsets.

A plan gives each buffer an offset in one pool, so that buffers that are alive together do
not overlap.  Finding the least height is NP-hard (dynamic storage allocation: Garey and
Johnson, 1979, SR2).  The algorithms work on sections of time.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from math import gcd

from attrs import evolve, fields, frozen


@frozen
class Buffer:
    """A buffer of ``size`` bytes, alive from time ``begin`` up to, not including, ``end``.

    Its offset is a multiple of ``alignment`` bytes.  A buffer with ``size`` 0 or
    ``begin == end`` overlaps nothing.
    """

    size: int
    begin: int
    end: int
    alignment: int = 1


@frozen
class Plan:
    """Offsets in bytes, in the order of the buffers, and how good they are.

    ``height`` is the size of the pool, ``lower_bound`` the most bytes alive at once.  No
    plan is lower than ``proven`` bytes, which is at least the lower bound.  ``solver``
    names the order or search that found the plan.
    """

    offsets: tuple[int, ...]
    height: int
    lower_bound: int
    proven: int
    solver: str

    @property
    def gap(self) -> float:
        """How far the height is above the lower bound, as a fraction of it."""
        return self.height / self.lower_bound - 1 if self.lower_bound else 0.0

    @property
    def optimal(self) -> bool:
        """Whether it is proven that no plan is lower."""
        return self.height <= self.proven


_NUMBERS = tuple(attribute.name for attribute in fields(Buffer))


def check_buffers(buffers: Sequence[Buffer]) -> None:
    """Refuse buffers that have no plan.

    Raises:
        TypeError: a size, time or alignment is not an int.
        ValueError: a buffer has a negative size or ends before it begins, or an alignment
            is not positive.
    """
    for index, buffer in enumerate(buffers):
        for name in _NUMBERS:
            value: object = getattr(buffer, name)
            if not isinstance(value, int):
                raise TypeError(f"the {name} of buffer {index} is {value!r}, not an int")
        if buffer.size < 0:
            raise ValueError(f"buffer {index} has a negative size, {buffer.size}")
        if buffer.end < buffer.begin:
            raise ValueError(
                f"buffer {index} ends at {buffer.end}, before it begins at {buffer.begin}"
            )
        if buffer.alignment <= 0:
            raise ValueError(
                f"buffer {index} has alignment {buffer.alignment}, which is not positive"
            )


def lower_bound(buffers: Sequence[Buffer]) -> int:
    """Return the most bytes alive at once, in n log n steps.  No plan is lower."""
    change: dict[int, int] = {}
    for buffer in buffers:
        change[buffer.begin] = change.get(buffer.begin, 0) + buffer.size
        change[buffer.end] = change.get(buffer.end, 0) - buffer.size
    live = most = 0
    for time in sorted(change):
        live += change[time]
        most = max(most, live)
    return most


@frozen
class Sections:
    """The buffers that occupy memory, with their live ranges as ranges of sections.

    Time is cut into as few sections as tell the buffers apart: two buffers are alive
    together if and only if they share a section.  The tuples are parallel, in order of the
    first section of each buffer.
    """

    count: int
    """Number of sections."""
    buffers: tuple[int, ...]
    """Index of each buffer in the sequence that the sections were made from."""
    first: tuple[int, ...]
    """First section of each buffer."""
    stop: tuple[int, ...]
    """Section after the last one of each buffer."""
    sizes: tuple[int, ...]
    alignments: tuple[int, ...]

    @classmethod
    def of(cls, buffers: Sequence[Buffer]) -> "Sections":
        """Return the sections of the buffers that have bytes and a live range."""
        kept = [i for i, b in enumerate(buffers) if b.size and b.begin < b.end]
        begins = sorted({buffers[i].begin for i in kept})
        ends = {bisect_left(begins, buffers[i].end) for i in kept}
        # Between two begins without an end, the earlier section would hold no buffer that
        # the later one does not, so they are one.
        at = [0, *accumulate(int(index + 1 in ends) for index in range(len(begins)))]
        spans = {
            i: (
                at[bisect_left(begins, buffers[i].begin)],
                at[bisect_left(begins, buffers[i].end)],
            )
            for i in kept
        }
        order = sorted(kept, key=spans.__getitem__)
        return cls(
            count=at[-1],
            buffers=tuple(order),
            first=tuple(spans[i][0] for i in order),
            stop=tuple(spans[i][1] for i in order),
            sizes=tuple(buffers[i].size for i in order),
            alignments=tuple(buffers[i].alignment for i in order),
        )

    @property
    def unit(self) -> int:
        """A number of bytes, at least 1, that divides every height worth asking for."""
        common = gcd(*self.sizes)
        if not common or any(a % common and common % a for a in self.alignments):
            return 1
        return common

    def revise(self, plan: Plan, offsets: Sequence[int], solver: str) -> Plan:
        """Return ``plan`` with the given offsets of these buffers."""
        every = list(plan.offsets)
        for index, offset in zip(self.buffers, offsets, strict=True):
            every[index] = offset
        height = max(map(int.__add__, offsets, self.sizes), default=0)
        return evolve(plan, offsets=tuple(every), height=height, solver=solver)
