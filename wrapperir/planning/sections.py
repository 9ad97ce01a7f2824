"""Sections of time: the form of the problem that the algorithms work on."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from math import gcd

from attrs import evolve, frozen

from wrapperir.planning.problem import Buffer, Plan


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
