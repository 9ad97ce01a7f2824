"""Local search for a plan within a given height, in Python.

The buffers that stick out of a plan are taken out and put in again one by one, each where
the buffers in its way matter least; those are taken out in turn.  A buffer matters the
more, the more often others had to make room for it.  Then some buffers move to other gaps.

This is ejection search guided by penalties, as Y. Nagata and O. Bräysy describe it for
routing ("A powerful route minimization heuristic for the vehicle routing problem with time
windows", Operations Research Letters 37, 2009).  The penalties are in the spirit of squeaky
wheel optimization (D. Joslin and D. Clements, JAIR 10, 1999).
"""

import time
from bisect import bisect_left
from collections.abc import Sequence

from attrs import define

from wrapperir.planning.attempt import Attempt, Outcome
from wrapperir.planning.slots import Slots

_OUT = -1
"""The offset of a buffer that has been taken out."""
_MOVES = 2
"""How many buffers move to another gap whenever some are taken out."""


def search_ejections(
    slots: Slots,
    *,
    capacity: int,
    start: Sequence[int],
    seed: int,
    steps: int,
    seconds: float,
) -> Attempt:
    """Search for a plan of at most ``capacity`` bytes, in at most so many steps.

    ``slots`` come from :func:`~wrapperir.planning.sections.sections`; ``start`` is a plan
    of any height.  No buffer is larger than ``capacity``.  It never finds that there is no
    plan.
    """
    search = _EjectionSearch(slots, capacity, list(start), [1] * len(start), seed)
    return search.run(steps, time.monotonic() + seconds)


@define
class _EjectionSearch:
    slots: Slots
    capacity: int
    offsets: list[int]
    penalties: list[int]
    random: int

    def run(self, most: int, deadline: float) -> Attempt:
        """Put buffers in until none is out."""
        sizes = self.slots.sizes
        out = [
            index
            for index in sorted(range(len(sizes)), key=sizes.__getitem__)
            if self.offsets[index] + sizes[index] > self.capacity
        ]
        for index in out:
            self.offsets[index] = _OUT
        steps = 0
        while out:
            if steps >= most or time.monotonic() >= deadline:
                return Attempt(Outcome.UNDECIDED, (), steps)
            steps += 1
            out += self._put_in(out.pop())
        return Attempt(Outcome.FOUND, self.offsets, steps)

    def _put_in(self, index: int) -> list[int]:
        """Put a buffer in, and return the buffers taken out for it."""
        near = self._near(index)
        offset = self._least_missed(index, near)
        top = offset + self.slots.sizes[index]
        met = [
            other
            for other in near
            if self.offsets[other] < top
            and offset < self.offsets[other] + self.slots.sizes[other]
        ]
        for other in met:
            self.offsets[other] = _OUT
        self.offsets[index] = offset
        if met:
            self.penalties[index] += 1
            for _ in range(_MOVES):
                other = near[self._draw(len(near))]
                if self.offsets[other] != _OUT:
                    self._move(other)
        return met

    def _near(self, index: int) -> list[int]:
        """Return the buffers in the plan that are alive at some time that this one is."""
        begin, stops = self.slots.first[index], self.slots.stop
        # Buffers come in order of their first section.
        return [
            other
            for other in range(bisect_left(self.slots.first, stops[index]))
            if self.offsets[other] != _OUT and begin < stops[other]
        ]

    def _least_missed(self, index: int, near: Sequence[int]) -> int:
        """Return the offset where the penalties of the buffers in the way are least.

        That is next to a buffer, at the bottom or at the top.  Of offsets where none is in
        the way it is the lowest, else one drawn from the best.
        """
        size, alignment = self.slots.sizes[index], self.slots.alignments[index]
        highest = (self.capacity - size) // alignment * alignment
        starts = sorted((self.offsets[o], self.penalties[o]) for o in near)
        stops = sorted(
            (self.offsets[o] + self.slots.sizes[o], self.penalties[o]) for o in near
        )
        places = {0, highest}
        for start, _ in starts:
            if start >= size:
                places.add((start - size) // alignment * alignment)
        for stop, _ in stops:
            above = _align(stop, alignment)
            if above <= highest:
                places.add(above)
        begun = ended = missed = equal = best = 0
        least = -1
        for place in sorted(places):
            while begun < len(starts) and starts[begun][0] < place + size:
                missed += starts[begun][1]
                begun += 1
            while ended < len(stops) and stops[ended][0] <= place:
                missed -= stops[ended][1]
                ended += 1
            if least < 0 or missed < least:
                least, best, equal = missed, place, 1
            elif missed == least and missed:
                equal += 1
                if not self._draw(equal):
                    best = place
        return best

    def _move(self, index: int) -> None:
        """Put a buffer at the bottom of one of the gaps that it fits, drawn evenly."""
        self.offsets[index] = _OUT
        size, alignment = self.slots.sizes[index], self.slots.alignments[index]
        blocks = sorted(
            (self.offsets[o], self.offsets[o] + self.slots.sizes[o])
            for o in self._near(index)
        )
        place = gaps = 0
        for start, stop in (*blocks, (self.capacity, self.capacity)):
            if place + size <= start:
                gaps += 1
                if not self._draw(gaps):
                    self.offsets[index] = place
            place = max(place, _align(stop, alignment))

    def _draw(self, count: int) -> int:
        """Return a number below ``count``: splitmix64."""
        word = (1 << 64) - 1
        self.random = (self.random + 0x9E3779B97F4A7C15) & word
        bits = ((self.random ^ self.random >> 30) * 0xBF58476D1CE4E5B9) & word
        bits = ((bits ^ bits >> 27) * 0x94D049BB133111EB) & word
        return (bits ^ bits >> 31) % count


def _align(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment
