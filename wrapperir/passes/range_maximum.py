"""A list of numbers with fast additions to, and maxima of, ranges."""

from collections.abc import Sequence

_LEAST = -(1 << 100)


class RangeMaximum:
    """A list of numbers; adding to a range and its maximum take logarithmic time.

    This is a segment tree that is walked from the leaves up, the "zkw" tree of Zhang
    Kunwei, *The power of statistics*, 2002.  An amount added to all leaves below a node is
    kept at that node.  One unused leaf lies at either end.
    """

    def __init__(self, numbers: Sequence[int]) -> None:
        """Hold these numbers, in linear time."""
        self._leaves = leaves = 1 << (len(numbers) + 1).bit_length()
        self._added = [0] * leaves
        self._most = [_LEAST] * (2 * leaves)
        self._most[leaves + 1 : leaves + 1 + len(numbers)] = numbers
        for node in range(leaves - 1, 0, -1):
            self._most[node] = max(self._most[2 * node], self._most[2 * node + 1])

    def add(self, begin: int, end: int, amount: int) -> None:
        """Add ``amount`` to the numbers from ``begin`` up to, not including, ``end``."""
        left, right = self._leaves + begin, self._leaves + end + 1
        if begin >= end or not amount:
            return
        while left ^ right ^ 1:
            if not left & 1:
                self._raise(left ^ 1, amount)
            if right & 1:
                self._raise(right ^ 1, amount)
            left >>= 1
            right >>= 1
            self._update(left)
            self._update(right)
        while left > 1:
            left >>= 1
            self._update(left)

    def maximum(self, begin: int, end: int) -> int:
        """Return the maximum from ``begin`` up to ``end``, which is after ``begin``."""
        left, right = self._leaves + begin, self._leaves + end + 1
        on_left = on_right = _LEAST
        while left ^ right ^ 1:
            if not left & 1:
                on_left = max(on_left, self._most[left ^ 1])
            if right & 1:
                on_right = max(on_right, self._most[right ^ 1])
            left >>= 1
            right >>= 1
            on_left += self._added[left]
            on_right += self._added[right]
        most = max(on_left, on_right)
        while left > 1:
            left >>= 1
            most += self._added[left]
        return most

    def _raise(self, node: int, amount: int) -> None:
        self._most[node] += amount
        if node < self._leaves:
            self._added[node] += amount

    def _update(self, node: int) -> None:
        below = max(self._most[2 * node], self._most[2 * node + 1])
        self._most[node] = below + self._added[node]
