"""Addresses, for a picture, of buffers that have no place in a plan."""

import heapq
from bisect import bisect_left
from collections.abc import Sequence

from attrs import frozen


@frozen
class Span:
    """``size`` bytes, alive at the lines from ``begin`` up to, not including, ``end``."""

    size: int
    begin: int
    end: int


def lowest_addresses(spans: Sequence[Span]) -> list[int]:
    """Return an address in bytes for each span: the lowest that is free as it begins.

    This is first fit in order of time (Knuth, The Art of Computer Programming 1, 2.5).
    The time is proportional to the holes between live buffers.
    """
    addresses = [0] * len(spans)
    holes = _Holes()
    ending: list[tuple[int, int]] = []
    for index in sorted(range(len(spans)), key=lambda i: (spans[i].begin, i)):
        span = spans[index]
        while ending and ending[0][0] <= span.begin:
            _, done = heapq.heappop(ending)
            holes.give_back(addresses[done], spans[done].size)
        if span.size == 0 or span.begin >= span.end:
            continue
        addresses[index] = holes.take(span.size)
        heapq.heappush(ending, (span.end, index))
    return addresses


class _Holes:
    """Free memory below ``top``, as begins and ends in order of address."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []
        self._top = 0

    def take(self, size: int) -> int:
        for index, begin in enumerate(self._begins):
            if self._ends[index] - begin >= size:
                self._begins[index] += size
                if self._begins[index] == self._ends[index]:
                    del self._begins[index], self._ends[index]
                return begin
        address = self._top
        self._top += size
        return address

    def give_back(self, address: int, size: int) -> None:
        end = address + size
        index = bisect_left(self._begins, address)
        if index < len(self._begins) and self._begins[index] == end:
            end = self._ends[index]
            del self._begins[index], self._ends[index]
        if index > 0 and self._ends[index - 1] == address:
            index -= 1
            address = self._begins[index]
            del self._begins[index], self._ends[index]
        if end == self._top:
            self._top = address
        else:
            self._begins.insert(index, address)
            self._ends.insert(index, end)
