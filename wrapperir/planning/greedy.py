"""Greedy planning: first fit in several orders, the best of which is the plan."""

import math
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

from attrs import frozen

from wrapperir.planning.first_fit import first_fit
from wrapperir.planning.problem import Buffer, Plan, Sections, check_buffers, lower_bound

if TYPE_CHECKING:
    from wrapperir.planning.cores import FirstFit

_PROBES = 48
"""Most probes of one order, times n log n."""
_ORDERS = 3
"""All orders together may take the probes of so many; most orders take far fewer."""
_COMPILED_FROM = 64
"""Fewer buffers are placed before the compiled core would be loaded."""


@frozen
class BufferFacts:
    """The properties of a buffer that orders sort by."""

    size: int
    lifetime: int
    begin: int
    end: int
    conflict: int
    """Bytes of all buffers whose live ranges overlap this one's."""
    at_peak: bool
    """Whether it is alive when most bytes are."""


ORDERS: Mapping[str, Callable[[BufferFacts], tuple[int, ...]]] = {
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
"""Sort keys by name.  The best come first: a plan at the lower bound ends the search."""


def plan_greedily(
    buffers: Sequence[Buffer], *, capacity: int | None = None, seconds: float = math.inf
) -> Plan:
    """Return the lowest plan of first fit in the orders of :data:`ORDERS`.

    Stops early at a plan of at most ``capacity`` bytes (the lower bound, if ``None``), and
    after the order during which so many ``seconds`` have passed.  Otherwise the work is
    bounded by steps, so that the same buffers give the same plan.

    Raises:
        ValueError: a buffer has a negative size or ends before it begins, or an alignment
            is not positive.
    """
    began = time.monotonic()
    check_buffers(buffers)
    bound = lower_bound(buffers)
    wanted = bound if capacity is None else capacity
    sections = Sections.of(buffers)
    facts = order_facts([buffers[index] for index in sections.buffers])
    count = len(facts)
    place: FirstFit = partial(first_fit, sections)
    if count >= _COMPILED_FROM:
        from wrapperir.planning.cores import compile_first_fit  # loads ctypes

        place = compile_first_fit(sections) or place
    each = _PROBES * count * count.bit_length()
    left = _ORDERS * each
    best = Plan((0,) * len(buffers), 0, bound, bound, "greedy")
    for name, key in ORDERS.items() if count else ():
        # Buffers with equal keys are placed in the order they are given in.
        keys = [(key(fact), i) for fact, i in zip(facts, sections.buffers, strict=True)]
        order = sorted(range(count), key=keys.__getitem__)
        offsets, took = place(order, below=best.height or None, probes=min(each, left))
        left -= took
        if offsets is not None:
            best = sections.revise(best, offsets, f"greedy {name}")
        if best.height <= wanted or not left or time.monotonic() - began > seconds:
            break
    return best


def order_facts(buffers: Sequence[Buffer]) -> list[BufferFacts]:
    """Return the facts of buffers with non-empty live ranges, in n log n steps."""
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
        BufferFacts(
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
    """Return the times of ``(time, bytes)`` events in order, and the sums of bytes."""
    ordered = sorted(events)
    return [time for time, _ in ordered], [0, *accumulate(size for _, size in ordered)]
