"""The anytime tier: the best plan that some time gives."""

import time
from collections.abc import Sequence

from attrs import frozen

from wrapperir.planning.greedy import GreedySolver
from wrapperir.planning.instance import Buffer, Plan
from wrapperir.planning.searches import MOST_TREE_BUFFERS, ejections, tree
from wrapperir.planning.sections import sections, static_orders
from wrapperir.planning.slots import Slots
from wrapperir.planning.squeeze import squeeze


@frozen
class AnytimeSolver:
    """The greedy plan, made lower by local search, and by tree search if it is small."""

    name: str = "anytime"

    def solve(
        self, buffers: Sequence[Buffer], *, enough: int | None = None, seconds: float
    ) -> Plan:
        """Return the lowest plan; see :class:`~wrapperir.planning.instance.Solver`."""
        deadline = time.monotonic() + seconds
        plan = GreedySolver().solve(buffers, enough=enough, seconds=seconds)
        enough = plan.lower_bound if enough is None else enough
        if plan.height <= enough or time.monotonic() >= deadline:
            return plan
        slots = sections(Slots.of(buffers))
        searches = [ejections(slots)]
        if len(slots.sizes) <= MOST_TREE_BUFFERS:
            searches.append(tree(slots, static_orders(slots, buffers)))
        return squeeze(
            plan,
            slots,
            searches,
            enough=enough,
            seconds=deadline - time.monotonic(),
        ).plan
