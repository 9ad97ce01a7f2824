"""The orders in which greedy tries to place buffers."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate

from attrs import frozen

from wrapperir.planning.instance import Buffer


@frozen
class Facts:
    """A buffer and what it is ordered by."""

    size: int
    lifetime: int
    begin: int
    end: int
    conflict: int
    """The bytes of all buffers that are alive at some time that this one is."""
    at_peak: bool
    """Whether it is alive when most bytes are."""


ORDERS: Mapping[str, Callable[[Facts], tuple[int, ...]]] = {
    # Buffers of about the same size in time order leave gaps that the next ones fit.
    "size-class-begin": lambda f: (-f.size.bit_length(), f.begin, -f.end),
    "peak-lifetime": lambda f: (not f.at_peak, -f.lifetime, -f.size),
    "size-class-lifetime": lambda f: (-f.size.bit_length(), -f.lifetime),
    "size": lambda f: (-f.size, -f.lifetime),
    "conflict-size": lambda f: (-f.conflict * f.size,),
    "conflict": lambda f: (-f.conflict, -f.size),
    "size2-lifetime": lambda f: (-(f.size**2) * f.lifetime,),
    "area": lambda f: (-f.size * f.lifetime,),
    "lifetime-class-size": lambda f: (-f.lifetime.bit_length(), -f.size),
    "conflict-lifetime": lambda f: (-f.conflict * f.lifetime,),
    "begin": lambda f: (f.begin, -f.end),
    "end": lambda f: (-f.end, f.begin),
    "lifetime": lambda f: (-f.lifetime, -f.size),
}
"""Sort keys by name; the first to reach a bound ends the search, so the best come first."""


def facts(buffers: Sequence[Buffer]) -> list[Facts]:
    """Return what buffers are ordered by, in n log n steps; each begins before it ends."""
    begins, begun = _running_bytes((b.begin, b.size) for b in buffers)
    ends, ended = _running_bytes((b.end, b.size) for b in buffers)
    peak = max(
        begins,
        key=lambda time: (
            begun[bisect_right(begins, time)] - ended[bisect_right(ends, time)]
        ),
        default=0,
    )
    return [
        Facts(
            size=b.size,
            lifetime=b.end - b.begin,
            begin=b.begin,
            end=b.end,
            conflict=begun[bisect_left(begins, b.end)] - ended[bisect_right(ends, b.begin)],
            at_peak=b.begin <= peak < b.end,
        )
        for b in buffers
    ]


def _running_bytes(events: Iterable[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Return the times of events in order, and the bytes of so many first events."""
    ordered = sorted(events)
    return [time for time, _ in ordered], [0, *accumulate(size for _, size in ordered)]
