"""What first fit needs to know of buffers."""

from bisect import bisect_left
from collections.abc import Sequence

from attrs import frozen

from wrapperir.planning.instance import Buffer


@frozen
class Slots:
    """The buffers that take room, their spans of time as ranges of slots.

    There is a slot for each time that a buffer begins: two buffers are alive together if
    and only if they share one, that of the later.
    """

    count: int
    buffers: tuple[int, ...]
    """Which buffers these are; all else is in the order of these."""
    first: tuple[int, ...]
    stop: tuple[int, ...]
    sizes: tuple[int, ...]
    alignments: tuple[int, ...]

    @classmethod
    def of(cls, buffers: Sequence[Buffer]) -> "Slots":
        """Return the slots of those buffers that have bytes and live for some time."""
        kept = [i for i, b in enumerate(buffers) if b.size and b.begin < b.end]
        times = sorted({buffers[i].begin for i in kept})
        return cls(
            len(times),
            tuple(kept),
            tuple(bisect_left(times, buffers[i].begin) for i in kept),
            tuple(bisect_left(times, buffers[i].end) for i in kept),
            tuple(buffers[i].size for i in kept),
            tuple(buffers[i].alignment for i in kept),
        )
