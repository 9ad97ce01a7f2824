"""First fit in near linear time, in Python.

``first_fit_core.cpp`` is the same algorithm, and gives the same offsets.

A segment tree over the sections of time keeps at each node the byte ranges that are
occupied at some time in its span (``within``) and those occupied by buffers alive
throughout it (``across``).  Ranges that touch are merged, so that a stack of a thousand
buffers costs a query one step, where a scan over all buffers alive at the same time costs
a thousand.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from attrs import field, frozen

from wrapperir.planning.problem import Sections


def first_fit(
    sections: Sections, order: Sequence[int], *, below: int | None, probes: int
) -> tuple[list[int] | None, int]:
    """Return offsets, each buffer in turn as low as it fits, and the number of probes.

    The offsets are ``None`` if the height would not be ``below`` so many bytes.  After so
    many ``probes``, each a search of one node's ranges, buffers go on top of all that is
    placed, so that the number of steps is bounded.
    """
    left = probes
    tree = _OccupiedTree.of(sections.count)
    offsets = [0] * len(order)
    for index in order:
        inside, around = tree.nodes(sections.first[index], sections.stop[index])
        occupied = [tree.within[node] for node in inside]
        occupied += [tree.across[node] for node in around]
        size, alignment = sections.sizes[index], sections.alignments[index]
        offset = at = clear = 0
        while clear < len(occupied):
            if left == 0:
                top = max(
                    (ranges.ends[-1] for ranges in occupied if ranges.ends), default=0
                )
                offset = -(-top // alignment) * alignment
                break
            left -= 1
            end = occupied[at].end_of_block(offset, offset + size)
            if end is None:
                clear += 1
                at = (at + 1) % len(occupied)
            else:
                offset = -(-end // alignment) * alignment
                clear = 0
        if below is not None and offset + size >= below:
            return None, probes - left
        offsets[index] = offset
        for node in inside:
            tree.across[node].add(offset, offset + size)
            tree.within[node].add(offset, offset + size)
        for node in around:
            tree.within[node].add(offset, offset + size)
    return offsets, probes - left


@frozen
class _Ranges:
    """Disjoint ranges of bytes, none touching another, in ascending order."""

    starts: list[int] = field(factory=list[int])
    ends: list[int] = field(factory=list[int])

    def add(self, start: int, end: int) -> None:
        """Add a range, merged with the ranges that it overlaps or touches."""
        first = bisect_left(self.ends, start)
        last = bisect_right(self.starts, end)
        if first < last:
            start = min(start, self.starts[first])
            end = max(end, self.ends[last - 1])
        self.starts[first:last] = [start]
        self.ends[first:last] = [end]

    def end_of_block(self, start: int, end: int) -> int | None:
        """Return the end of the first range that overlaps the given one."""
        at = bisect_right(self.ends, start)
        return self.ends[at] if at < len(self.ends) and self.starts[at] < end else None


@frozen
class _OccupiedTree:
    """The occupied ranges of bytes over time, in a segment tree of sections."""

    leaves: int
    within: list[_Ranges]
    across: list[_Ranges]

    @classmethod
    def of(cls, sections: int) -> "_OccupiedTree":
        # A spare leaf on each side makes the walk from both ends uniform.
        leaves = 1 << (sections + 1).bit_length()
        return cls(
            leaves,
            [_Ranges() for _ in range(2 * leaves)],
            [_Ranges() for _ in range(2 * leaves)],
        )

    def nodes(self, first: int, stop: int) -> tuple[list[int], list[int]]:
        """Return the nodes that make up ``first`` to ``stop``, and their ancestors."""
        left, right = first + self.leaves, stop + 1 + self.leaves
        inside: list[int] = []
        around: list[int] = []
        from_left = from_right = False
        while left ^ right ^ 1:
            if not left & 1:
                inside.append(left ^ 1)
                from_left = True
            if right & 1:
                inside.append(right ^ 1)
                from_right = True
            left >>= 1
            right >>= 1
            if from_left:
                around.append(left)
            if from_right:
                around.append(right)
        while left > 1:
            left >>= 1
            around.append(left)
        return inside, around
