"""The fast tier: first fit in several orders, the best of which is the plan."""

import time
from collections.abc import Sequence

from attrs import frozen

from wrapperir.planning.first_fit import Slots, first_fit
from wrapperir.planning.instance import Buffer, Plan
from wrapperir.planning.lower_bound import check_buffers, lower_bound
from wrapperir.planning.orders import ORDERS, facts

_PROBES = 40
"""Probes a buffer and doubling of the number of buffers that an order may take."""


@frozen
class GreedySolver:
    """First fit in every order of :data:`~wrapperir.planning.orders.ORDERS`."""

    name: str = "greedy"

    def solve(
        self, buffers: Sequence[Buffer], *, enough: int | None = None, seconds: float
    ) -> Plan:
        """Return the lowest plan; see :class:`~wrapperir.planning.instance.Solver`."""
        began = time.monotonic()
        check_buffers(buffers)
        bound = lower_bound(buffers)
        enough = bound if enough is None else enough
        kept = [i for i, b in enumerate(buffers) if b.size and b.begin < b.end]
        placed = [buffers[i] for i in kept]
        slots = Slots.of(placed)
        about = facts(placed)
        most = _PROBES * len(placed) * (len(placed).bit_length() + 1)
        best, height, found = [0] * len(placed), 0, self.name
        for name, key in ORDERS.items():
            order = sorted(range(len(placed)), key=lambda i: key(about[i]))
            offsets = first_fit(slots, order, below=height or None, probes=most)
            if offsets is not None:
                best, found = offsets, f"{self.name} {name}"
                height = max(
                    (o + b.size for o, b in zip(best, placed, strict=True)), default=0
                )
            if height <= enough or time.monotonic() - began > seconds:
                break
        offsets = [0] * len(buffers)
        for index, offset in zip(kept, best, strict=True):
            offsets[index] = offset
        return Plan(tuple(offsets), height, bound, found)
