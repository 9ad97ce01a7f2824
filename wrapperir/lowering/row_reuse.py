"""Choose values that inner loops keep in memory for later loops over the same row.

Where inner loops of a point run one after the other, as on a CPU, what one stores another
can load, from a cache.  A value that is stored anyway is loaded again if that is cheaper
than computing it; one that is not may be kept in the memory of an output that a later loop
overwrites::

    for r0 < 256:                            for r0 < 256:
        v0 = load x[i0, r0]                      v0 = load x[i0, r0]
        v1 = exp v0                              v1 = exp v0
        v2 = reduce sum v1                       store y[i0, r0] = v1
    for r0 < 256:                                v2 = reduce sum v1
        v3 = load x[i0, r0]                  for r0 < 256:
        v4 = exp v3                              v4 = load y[i0, r0]
        v5 = div v4 v2                           v5 = div v4 v2
        store y[i0, r0] = v5                     store y[i0, r0] = v5
"""

from collections.abc import Mapping

from wrapperir.ir import DType, TensorType, symbols_in
from wrapperir.lowering.costs import CPU_COSTS, operation_cost
from wrapperir.lowering.flat_nest import is_atomic
from wrapperir.lowering.loop_plan import LoopPlan, RowReuse
from wrapperir.lowering.loops import Apply, Load, Store

_CACHED_ACCESS = 0.3
"""The cost of an access to a cached row, in the unit of :class:`~.costs.DeviceCosts`."""


def choose_reuse(plan: LoopPlan, buffers: Mapping[str, TensorType]) -> dict[int, RowReuse]:
    """Return what later loops load instead of computing it, by place of the value."""
    found: dict[int, RowReuse] = {}
    stores = _usable_stores(plan)
    while True:
        loops, _ = plan.needed(found)
        best: tuple[float, RowReuse] | None = None
        for store_place in stores:
            for candidate in _candidates(plan, loops, store_place, buffers, found):
                if best is None or candidate[0] > best[0]:
                    best = candidate
        if best is None:
            return found
        found[best[1].place] = best[1]
        stores = [p for p in stores if plan.code[p] is not best[1].store]


def _usable_stores(plan: LoopPlan) -> list[int]:
    """Return the stores of inner loops to buffers that the nest accesses only there."""
    counts: dict[str, int] = {}
    for each in plan.code:
        if isinstance(each, Load | Store):
            counts[each.buffer] = counts.get(each.buffer, 0) + 1
    found: list[int] = []
    for place in plan.roots:
        each = plan.code[place]
        if not isinstance(each, Store) or not plan.inner[place] or counts[each.buffer] > 1:
            continue
        names = {name for part in each.index for name in symbols_in(part)}
        if each.mask is None and not is_atomic(each) and names.isdisjoint(plan.definition):
            found.append(place)
    return found


def _candidates(
    plan: LoopPlan,
    loops: list[list[int]],
    store_place: int,
    buffers: Mapping[str, TensorType],
    known: Mapping[int, RowReuse],
) -> list[tuple[float, RowReuse]]:
    """Return the values that a store's memory may keep, with what each saves."""
    store = plan.code[store_place]
    assert isinstance(store, Store)
    stored = plan.definition.get(store.value)
    last = plan.stage[store_place]
    found: list[tuple[float, RowReuse]] = []
    for place, each in enumerate(plan.code):
        if not isinstance(each, Apply) or not plan.inner[place] or place in known:
            continue
        if each.dtype is not buffers[store.buffer].dtype or each.dtype is DType.BOOL:
            continue
        used = [loop for loop, needed in enumerate(loops) if place in needed]
        again = [loop for loop in used if loop > last] if place == stored else used[1:]
        if not again or (place != stored and (place > store_place or used[-1] > last)):
            continue
        saved = len(again) * (_cost(plan, place, known) - _CACHED_ACCESS)
        saved -= 0 if place == stored else _CACHED_ACCESS
        if saved > _CACHED_ACCESS:
            first = last if place == stored else used[0]
            is_added = place != stored
            reuse = RowReuse(
                place=place, loop=first, dtype=each.dtype, store=store, is_added=is_added
            )
            found.append((saved, reuse))
    return found


def _cost(plan: LoopPlan, place: int, known: Mapping[int, RowReuse]) -> float:
    """Return the cost of computing a value in an inner loop."""
    needed: set[int] = set()
    pending = [place]
    while pending:
        at = pending.pop()
        if at in needed or not plan.inner[at]:
            continue
        needed.add(at)
        if at not in known:
            pending += plan.uses(at)
    code = [plan.code[at] for at in needed if at not in known]
    loads = sum(isinstance(each, Load) for each in code) + len(needed) - len(code)
    return operation_cost(code, CPU_COSTS) + loads * _CACHED_ACCESS
