"""Put two nests into one, where they access memory so that this keeps its meaning."""

import math
from collections.abc import Mapping

from attrs import evolve

from wrapperir.ir import Expr, NodeOrigin, TensorType, mul, symbols_in
from wrapperir.lowering.flat_nest import FlatNest, is_atomic, rewrite_axes
from wrapperir.lowering.indexing import IndexRanges
from wrapperir.lowering.kernel import SizeSymbols
from wrapperir.lowering.loops import Axis, Load, Store
from wrapperir.lowering.space_matching import CommonSpace, SharedAccess, match_spaces

_MOST_INSTRUCTIONS = 500
_MOST_ACCESSES = 2


def combine(
    first: FlatNest,
    second: FlatNest,
    buffers: Mapping[str, TensorType],
    symbols: SizeSymbols,
) -> FlatNest | str:
    """Return a nest that does what two do, one after the other, or why there is none.

    At each point of the common space the first's instructions run, then the second's.
    So what the second reads of the first's must be written at the same point, and what it
    overwrites must be read at the same point.
    """
    if len(first.code) + len(second.code) > _MOST_INSTRUCTIONS:
        return "the kernel would be too large"
    if any(map(is_atomic, first.code)) or any(map(is_atomic, second.code)):
        return "one combines values in memory"
    if not _sizes_fit(first, second):
        return "the iteration spaces differ"
    one, two = _by_buffer(first), _by_buffer(second)
    shared = _shared_accesses(one, two, buffers)
    write_parts = any(
        stores and two.get(name, ([], []))[1] for name, (_, stores) in one.items()
    )
    space = match_spaces(first, second, shared, symbols, write_parts=write_parts)
    if isinstance(space, str):
        return space
    left = rewrite_axes(first, space.parallel, space.inner, space.first, space.ranges)
    right = rewrite_axes(second, space.parallel, space.inner, space.second, space.ranges)
    left = evolve(left, deep=_deep(first, left, space))
    right = evolve(right, deep=_deep(second, right, space))
    reason = _hazard(left, right, space.ranges)
    if reason is not None:
        return reason
    return evolve(
        left,
        code=(*left.code, *right.code),
        deep=(*left.deep, *right.deep),
        origins=(*first.origins, *second.origins),
        stored=_stored(first, second),
    )


def _stored(first: FlatNest, second: FlatNest) -> dict[str, tuple[NodeOrigin, ...]]:
    """Return the origins of what two nests store, where the second may read the first's."""
    read = dict.fromkeys(each.buffer for each in second.code if isinstance(each, Load))
    used = [origin for name in read for origin in first.stored.get(name, ())]
    found = dict(first.stored)
    for name, origins in second.stored.items():
        found[name] = tuple(dict.fromkeys((*found.get(name, ()), *used, *origins)))
    return found


def _sizes_fit(first: FlatNest, second: FlatNest) -> bool:
    """Say whether the numbers of points allow one space; constants only are compared."""
    a, b = _count(first.parallel), _count(second.parallel)
    all_a, all_b = _count(first.axes), _count(second.axes)
    if any(not isinstance(count, int) for count in (a, b, all_a, all_b)):
        return True
    if not first.inner and not second.inner:
        return a == b
    if first.inner and second.inner:
        return a == b and all_a == all_b
    return b in (a, all_a) if first.inner else a in (b, all_b)


def _count(axes: tuple[Axis, ...]) -> Expr:
    result: Expr = 1
    for axis in axes:
        result = mul(result, axis.extent)
    return result


def _deep(old: FlatNest, new: FlatNest, space: CommonSpace) -> tuple[bool, ...]:
    """Return which instructions run for each point of the inner axes."""
    if old.inner or not space.inner:
        return old.deep
    runs_inside = _count(old.axes) != _count(space.parallel)
    if not runs_inside:
        # Extents alone do not tell where the inner axes have one point.
        names = {axis.name for axis in space.inner}
        runs_inside = any(
            name in names
            for each in new.code
            if isinstance(each, Store)
            for name in _names(each)
        )
    return (runs_inside,) * len(new.code)


def _names(store: Store) -> set[str]:
    return {name for expr in store.index for name in symbols_in(expr)}


def _by_buffer(flat: FlatNest) -> dict[str, tuple[list[Load], list[Store]]]:
    found: dict[str, tuple[list[Load], list[Store]]] = {}
    for each in flat.code:
        if isinstance(each, Load):
            found.setdefault(each.buffer, ([], []))[0].append(each)
        elif isinstance(each, Store):
            found.setdefault(each.buffer, ([], []))[1].append(each)
    return found


def _shared_accesses(
    one: Mapping[str, tuple[list[Load], list[Store]]],
    two: Mapping[str, tuple[list[Load], list[Store]]],
    buffers: Mapping[str, TensorType],
) -> list[SharedAccess]:
    """Return pairs of accesses to one buffer: those that must be equal come first."""
    must: list[SharedAccess] = []
    may: list[SharedAccess] = []
    for name, (loads, stores) in one.items():
        if name not in two:
            continue
        size = buffers[name].size
        other_loads, other_stores = two[name]
        must += _pairs(stores, other_loads, size)
        must += _pairs(loads, other_stores, size)
        may += _pairs(loads, other_loads, size)
        may += _pairs(stores, other_stores, size)
    must.sort(key=_dimensions, reverse=True)
    may.sort(key=_dimensions, reverse=True)
    return [*must, *may]


def _pairs(
    first: list[Load] | list[Store],
    second: list[Load] | list[Store],
    size: tuple[Expr, ...],
) -> list[SharedAccess]:
    indices = dict.fromkeys(each.index for each in first[:_MOST_ACCESSES])
    others = dict.fromkeys(each.index for each in second[:_MOST_ACCESSES])
    return [SharedAccess(a, b, size) for a in indices for b in others]


def _dimensions(shared: SharedAccess) -> int:
    return sum(not isinstance(part, int) for part in shared.first)


def _hazard(first: FlatNest, second: FlatNest, ranges: IndexRanges) -> str | None:
    """Return why the second cannot run at each point right after the first."""
    one, two = _by_buffer(first), _by_buffer(second)
    inside = _deep_stores(first)
    for each, deep in zip(second.code, second.deep, strict=True):
        if isinstance(each, Load) and not deep and each.buffer in inside:
            return f"{each.buffer} is written in the inner loop that it is read after"
    for name, (loads, stores) in one.items():
        other_loads, other_stores = two.get(name, ([], []))
        if stores and other_loads:
            if len({store.index for store in stores}) > 1 or stores[-1].mask is not None:
                return f"{name} is written in parts"
            if any(load.index != stores[-1].index for load in other_loads):
                return f"{name} is read where another point writes it"
        if loads and other_stores:
            indices: set[tuple[Expr, ...]] = {each.index for each in loads}
            indices |= {each.index for each in other_stores}
            if len(indices) > 1:
                return f"{name} is overwritten where another point reads it"
        for store in stores:
            for other in other_stores:
                if store.index != other.index and not _apart(store, other, ranges):
                    return f"{name} is written at different points"
    return None


def _deep_stores(flat: FlatNest) -> set[str]:
    return {
        each.buffer
        for each, deep in zip(flat.code, flat.deep, strict=True)
        if deep and isinstance(each, Store)
    }


def _apart(first: Store, second: Store, ranges: IndexRanges) -> bool:
    """Say whether two stores never write the same element: one dimension is apart.

    Its intervals are, or all indices of one differ from the other's modulo a number, as
    even and odd ones do.
    """
    for a, b in zip(first.index, second.index, strict=True):
        (low, high), (least, most) = ranges.interval(a), ranges.interval(b)
        if high < least or most < low:
            return True
        left, right = ranges.sum_of(a), ranges.sum_of(b)
        steps = [n for terms in (left, right) for monomial, n in terms.items() if monomial]
        step = math.gcd(*steps)
        if step > 1 and (left.get((), 0) - right.get((), 0)) % step:
            return True
    return False
