"""Static memory allocation: buffers with sizes and live ranges, and plans of offsets.

A plan gives each buffer an offset in one pool, so that buffers that are alive together do
not overlap.  Finding the least height is NP-hard (dynamic storage allocation: Garey and
Johnson, 1979, SR2).
"""

from collections.abc import Sequence

from attrs import frozen


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


def check_buffers(buffers: Sequence[Buffer]) -> None:
    """Refuse buffers that have no plan.

    Raises:
        ValueError: a buffer has a negative size or ends before it begins, or an alignment
            is not positive.
    """
    for index, buffer in enumerate(buffers):
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
