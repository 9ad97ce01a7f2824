"""The fast tier: first fit in several orders, the best of which is the plan."""

import time
from collections.abc import Sequence
from operator import add

from attrs import frozen

from wrapperir.planning.first_fit import first_fit
from wrapperir.planning.instance import Buffer, Plan
from wrapperir.planning.lower_bound import check_buffers, lower_bound
from wrapperir.planning.orders import ORDERS, facts
from wrapperir.planning.slots import Slots

_PROBES = 48
"""Probes that an order may take, times n log n."""
_ORDERS = 3
"""How many orders may take as many; mostly they take less, and all are tried."""


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
        slots = Slots.of(buffers)
        about = facts([buffers[index] for index in slots.buffers])
        count = len(about)
        fit = first_fit(slots)
        each = _PROBES * count * count.bit_length()
        left = _ORDERS * each
        best: Sequence[int] = [0] * count
        height, found = 0, self.name
        for name, key in ORDERS.items() if count else ():
            keys = [key(fact) for fact in about]
            order = sorted(range(count), key=keys.__getitem__)
            offsets, took = fit.place(order, below=height or None, probes=min(each, left))
            left -= took
            if offsets is not None:
                best, found = offsets, f"{self.name} {name}"
                height = max(map(add, offsets, slots.sizes))
            if height <= enough or not left or time.monotonic() - began > seconds:
                break
        offsets = [0] * len(buffers)
        for index, offset in zip(slots.buffers, best, strict=True):
            offsets[index] = offset
        return Plan(tuple(offsets), height, bound, found)
