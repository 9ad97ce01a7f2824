"""The plan that compilers ask for: the fast tier, then a short search if it pays."""

import time
from collections.abc import Sequence

from attrs import evolve

from wrapperir.planning.greedy import GreedySolver
from wrapperir.planning.instance import Buffer, Plan
from wrapperir.planning.searches import tree
from wrapperir.planning.sections import sections, static_orders, unit
from wrapperir.planning.slots import Slots

_MOST_SEARCHED = 2048
"""A step of the search takes the longer the more buffers there are."""
_ATTEMPTS = 4
_STEPS = 16
"""Steps of an attempt for each buffer: mostly the first order tried leads to a plan."""


def plan(
    buffers: Sequence[Buffer], *, enough: int | None = None, seconds: float = 5.0
) -> Plan:
    """Return the greedy plan, made lower by a few short searches if it is not ``enough``.

    ``enough`` bytes are the lower bound if ``None``.  Work is bounded by steps: the same
    buffers give the same plan, unless it would take longer than so many ``seconds``.

    Raises:
        ValueError: a buffer has a negative size or ends before it begins, or an alignment
            is not positive.
    """
    deadline = time.monotonic() + seconds
    best = GreedySolver().solve(buffers, enough=enough, seconds=seconds)
    low = best.lower_bound if enough is None else max(enough, best.lower_bound)
    slots = sections(Slots.of(buffers))
    if best.height <= low or len(slots.sizes) > _MOST_SEARCHED:
        return best
    search = tree(slots, static_orders(slots, buffers))
    step = unit(slots)
    capacity = low
    for _ in range(_ATTEMPTS):
        attempt = search.attempt(
            (),
            capacity=capacity,
            seed=0,
            steps=_STEPS * len(slots.sizes),
            seconds=deadline - time.monotonic(),
        )
        if attempt.offsets:
            offsets = list(best.offsets)
            for index, offset in zip(slots.buffers, attempt.offsets, strict=True):
                offsets[index] = offset
            height = max(map(int.__add__, attempt.offsets, slots.sizes))
            best = evolve(best, offsets=tuple(offsets), height=height, solver=search.name)
        else:
            low = capacity + step
        if best.height <= low:
            break
        capacity = (low + best.height - step) // 2
    return best
