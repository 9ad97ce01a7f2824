"""Disjoint ranges of whole numbers, each with a value, looked up by position.

Begins are kept in order in chunks of bounded length, so that a change costs a search and
a move within one chunk, whatever the number of ranges.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

_MOST_IN_CHUNK = 512


class RangeMap(Generic[T]):
    """Values of disjoint ranges ``[begin, end)``."""

    def __init__(self) -> None:
        """Start with no range."""
        self._chunks: list[list[int]] = []
        self._firsts: list[int] = []
        self._ranges: dict[int, tuple[int, T]] = {}

    def overlapping(self, begin: int, end: int) -> Iterator[tuple[int, int, T]]:
        """Yield the ranges that share a number with ``[begin, end)``, in order.

        Ranges may be removed only after the last one was yielded.
        """
        chunks = self._chunks
        number = max(bisect_right(self._firsts, begin) - 1, 0)
        at = max(bisect_right(chunks[number], begin) - 1, 0) if chunks else 0
        while number < len(chunks):
            for first in chunks[number][at:]:
                if first >= end:
                    return
                last, value = self._ranges[first]
                if last > begin:
                    yield first, last, value
            number, at = number + 1, 0

    def insert(self, begin: int, end: int, value: T) -> None:
        """Add a range that is not empty and shares no number with another."""
        self._ranges[begin] = (end, value)
        if not self._chunks:
            self._chunks.append([begin])
            self._firsts.append(begin)
            return
        number = max(bisect_right(self._firsts, begin) - 1, 0)
        chunk = self._chunks[number]
        chunk.insert(bisect_left(chunk, begin), begin)
        self._firsts[number] = chunk[0]
        if len(chunk) > _MOST_IN_CHUNK:
            rest = chunk[_MOST_IN_CHUNK // 2 :]
            del chunk[_MOST_IN_CHUNK // 2 :]
            self._chunks.insert(number + 1, rest)
            self._firsts.insert(number + 1, rest[0])

    def remove(self, begin: int) -> None:
        """Remove the range that begins at ``begin``."""
        del self._ranges[begin]
        number = bisect_right(self._firsts, begin) - 1
        chunk = self._chunks[number]
        del chunk[bisect_left(chunk, begin)]
        if chunk:
            self._firsts[number] = chunk[0]
        else:
            del self._chunks[number]
            del self._firsts[number]

    def values(self) -> Iterator[T]:
        """Yield the values, in no order."""
        for _, value in self._ranges.values():
            yield value

    def cut(self, begin: int, end: int) -> list[T]:
        """Take ``[begin, end)`` out of the ranges; return the values that were there."""
        found = list(self.overlapping(begin, end))
        for first, last, value in found:
            self.remove(first)
            if first < begin:
                self.insert(first, begin, value)
            if last > end:
                self.insert(end, last, value)
        return [value for _, _, value in found]
