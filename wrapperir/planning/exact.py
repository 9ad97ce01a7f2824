"""The exact tier: a plan of the least height, proven to be that, given time."""

import time
from collections.abc import Sequence

from attrs import frozen

from wrapperir.planning.greedy import GreedySolver
from wrapperir.planning.instance import Buffer, Plan
from wrapperir.planning.searches import MOST_TREE_BUFFERS, tree
from wrapperir.planning.sections import sections, static_orders
from wrapperir.planning.slots import Slots
from wrapperir.planning.squeeze import Proof, squeeze


@frozen
class ExactSolver:
    """The greedy plan, made lower by tree search until it is proven to be the lowest.

    Of more than :data:`~wrapperir.planning.searches.MOST_TREE_BUFFERS` buffers that take
    room, it returns the greedy plan.
    """

    name: str = "exact"

    def solve(
        self, buffers: Sequence[Buffer], *, enough: int | None = None, seconds: float
    ) -> Plan:
        """Return the lowest plan; see :class:`~wrapperir.planning.instance.Solver`."""
        return self.prove(buffers, enough=enough, seconds=seconds).plan

    def prove(
        self, buffers: Sequence[Buffer], *, enough: int | None = None, seconds: float
    ) -> Proof:
        """Return the lowest plan and a height that no plan is below.

        Raises:
            ValueError: as :class:`~wrapperir.planning.instance.Solver` says.
        """
        deadline = time.monotonic() + seconds
        plan = GreedySolver().solve(buffers, enough=enough, seconds=seconds)
        enough = plan.lower_bound if enough is None else enough
        slots = sections(Slots.of(buffers))
        if plan.height <= enough or len(slots.sizes) > MOST_TREE_BUFFERS:
            return Proof(plan, plan.lower_bound)
        search = tree(slots, static_orders(slots, buffers))
        return squeeze(
            plan,
            slots,
            [search],
            enough=enough,
            seconds=deadline - time.monotonic(),
        )
