"""The least height of a plan, by trying all orders."""

from collections.abc import Sequence
from itertools import permutations

from wrapperir.planning import Buffer


def optimum(buffers: Sequence[Buffer]) -> int:
    """Return the least height; some order of a best plan's offsets gives it."""
    kept = [b for b in buffers if b.size and b.begin < b.end]
    return min(map(stacked_height, permutations(kept)))


def stacked_height(order: Sequence[Buffer]) -> int:
    """Put each buffer above those before it that are alive at some time that it is."""
    tops: list[int] = []
    for index, buffer in enumerate(order):
        below = [
            top
            for top, other in zip(tops, order[:index], strict=True)
            if buffer.begin < other.end and other.begin < buffer.end
        ]
        offset = -(-max(below, default=0) // buffer.alignment) * buffer.alignment
        tops.append(offset + buffer.size)
    return max(tops, default=0)
