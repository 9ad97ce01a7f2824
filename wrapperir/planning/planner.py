"""Memory plans: greedy, then made lower by searching for plans within given heights."""

import time
from collections.abc import Sequence
from functools import partial

from attrs import evolve

from wrapperir.planning.greedy import plan_greedily
from wrapperir.planning.problem import Buffer, Plan, Sections

_SECONDS = 5.0
"""Limit of a search without a time budget; rarely reached where there is a compiler."""
_MOST_SEARCHED = 2048
"""Most buffers that are searched without a time budget: a step takes longer for more."""
_MOST_BUDGETED = 4096
"""Most buffers that are searched at all: tables grow with the square of their number."""
_STEPS = 16
"""Steps of an attempt for each buffer; mostly the first order tried leads to a plan."""
_MOST_TURNS = 40
"""The steps of an attempt double with every turn; so many take centuries."""
_ATTEMPTS = 4
"""Attempts of a turn: the first, and as many as leave an eighth of the heights."""


def plan(
    buffers: Sequence[Buffer], *, capacity: int | None = None, seconds: float | None = None
) -> Plan:
    """Return the lowest plan found.

    The search ends at a plan of at most ``capacity`` bytes (the lower bound, if ``None``),
    or proven to be the lowest.  Without ``seconds``, it ends after a number of steps that
    depends only on the buffers, so that the same buffers give the same plan; with them, it
    goes on until they have passed.

    Raises:
        TypeError: a size, time or alignment is not an int.
        ValueError: a buffer has a negative size or ends before it begins, or an alignment
            is not positive.
    """
    deadline = time.monotonic() + (_SECONDS if seconds is None else seconds)
    best = plan_greedily(buffers, capacity=capacity, seconds=deadline - time.monotonic())
    wanted = best.lower_bound if capacity is None else capacity
    sections = Sections.of(buffers)
    most = _MOST_SEARCHED if seconds is None else _MOST_BUDGETED
    if best.height <= wanted or len(sections.sizes) > most:
        return best
    # Programs that need no search do without the imports.
    from wrapperir.planning.cores import compile_tree_search
    from wrapperir.planning.tree_search import SearchOutcome, branching_orders, search_tree

    orders = branching_orders(sections, buffers)
    search = compile_tree_search(sections, orders) or partial(search_tree, sections, orders)
    unit = sections.unit
    for turn in range(1 if seconds is None else _MOST_TURNS):
        # Each turn tries the wanted height first, then halves what is neither found nor
        # given up.  Heights that stay undecided are given up until the next turn.
        low = best.proven
        height = max(wanted // unit * unit, low)
        for _ in range(_ATTEMPTS):
            if best.height <= max(wanted, best.proven) or time.monotonic() >= deadline:
                return best
            if best.height <= low:
                break
            attempt = search(
                capacity=height,
                steps=_STEPS * len(sections.sizes) << turn,
                seconds=deadline - time.monotonic(),
            )
            if attempt.outcome is SearchOutcome.FOUND:
                best = sections.revise(best, attempt.offsets, "tree")
            else:
                low = height + unit
            if attempt.outcome is SearchOutcome.INFEASIBLE:
                best = evolve(best, proven=low)
            height = (low + best.height - unit) // 2 // unit * unit
    return best
