"""Makes a plan lower and lower by searching for plans within given heights."""

import time
from collections.abc import Sequence

from attrs import evolve, frozen

from wrapperir.planning.attempt import Outcome
from wrapperir.planning.instance import Plan
from wrapperir.planning.searches import Search
from wrapperir.planning.sections import unit
from wrapperir.planning.slots import Slots

_MOST_TURNS = 32
"""Steps double with every turn, so many times."""
_CLOSE = 8
"""A turn ends when what is left is such a part of what it began with."""


@frozen
class Proof:
    """A plan, and a height in bytes that no plan is below."""

    plan: Plan
    bound: int

    @property
    def optimal(self) -> bool:
        """Whether no plan is lower."""
        return self.plan.height <= self.bound


def squeeze(
    plan: Plan,
    slots: Slots,
    searches: Sequence[Search],
    *,
    enough: int,
    seconds: float,
) -> Proof:
    """Return the best plan found in so many seconds, from the plan given.

    Every turn tries ``enough`` first, and then the middle of what is neither found nor
    given up.  What is undecided is given up for the turn; the next one takes twice the
    steps.  It stops at a height of at most ``enough``, or proven to be the least.
    ``slots`` come from :func:`~wrapperir.planning.sections.sections`.
    """
    deadline = time.monotonic() + seconds
    step = unit(slots)
    best = Proof(plan, plan.lower_bound)
    turn = 0

    def going_on() -> bool:
        wanted = max(enough, best.bound)
        return best.plan.height > wanted and time.monotonic() < deadline

    while going_on():
        low = best.bound
        capacity = max(enough // step * step, low)
        close = (best.plan.height - capacity) // _CLOSE
        while low + close < best.plan.height and going_on():
            outcome = Outcome.UNDECIDED
            for search in searches:
                attempt = search.attempt(
                    [best.plan.offsets[index] for index in slots.buffers],
                    capacity=capacity,
                    seed=turn,
                    steps=search.first_steps << turn,
                    seconds=deadline - time.monotonic(),
                )
                outcome = attempt.outcome
                if outcome is Outcome.FOUND:
                    found = _plan(plan, slots, attempt.offsets, search.name)
                    best = Proof(found, best.bound)
                if outcome is not Outcome.UNDECIDED:
                    break
            if outcome is not Outcome.FOUND:
                low = capacity + step
            if outcome is Outcome.INFEASIBLE:
                best = evolve(best, bound=low)
            capacity = (low + best.plan.height - step) // 2 // step * step
        turn = min(turn + 1, _MOST_TURNS)
    return best


def _plan(plan: Plan, slots: Slots, found: Sequence[int], solver: str) -> Plan:
    """Return ``plan`` with the offsets found for the buffers of ``slots``."""
    offsets = list(plan.offsets)
    for index, offset in zip(slots.buffers, found, strict=True):
        offsets[index] = offset
    height = max(map(int.__add__, found, slots.sizes))
    return Plan(tuple(offsets), height, plan.lower_bound, solver)
