"""Make one point of the equal parts of an axis, where a condition differs between them.

Before::

    nest i0 < 128:
        v0 = index i0
        v1 = literal 64
        v2 = lt v0 v1
        v3 = load x[i0] if v2
        v4 = ge v0 v1
        v5 = load y[i0 - 64] if v4
        v6 = where v2 v3 v5
        store z[i0] = v6

After::

    nest i0 < 64:
        v3.0 = load x[i0]
        store z[i0] = v3.0
        v5.1 = load y[i0]
        store z[i0 + 64] = v5.1

Each part computes its own values only, and what several parts need is computed once: sines
of ``cat((x, x))`` are those of ``x``.  This is after fusion, which needs all points of a
buffer in one space.

On a GPU, parts are joined only if that saves slow operators: loads and stores of several
parts take a little longer than those of one with masks.
"""

import math
from collections.abc import Iterator, Mapping

from attrs import evolve

from wrapperir.ir import Expr, Symbol, TensorType, add, sub, symbols_in
from wrapperir.lowering.costs import SLOW
from wrapperir.lowering.flat_nest import FlatNest, is_atomic
from wrapperir.lowering.indexing import IndexRanges, is_whole
from wrapperir.lowering.kernel import SizeSymbols
from wrapperir.lowering.loops import (
    Apply,
    Axis,
    IndexValue,
    InnerLoop,
    Instruction,
    Literal,
    Load,
    Nest,
    Store,
)
from wrapperir.lowering.profit import device_kind
from wrapperir.lowering.scalar_op import ScalarOp
from wrapperir.lowering.substitution import Substitution, results
from wrapperir.lowering.value_numbering import remove_redundancy

_MOST_PARTS = 8
_MOST_INSTRUCTIONS = 256
_LEAST_CONTIGUOUS = 16
"""Points of a part along which memory is contiguous: a cache line of ``f32``."""
_AFTER_EQUAL = {ScalarOp.LT: 0, ScalarOp.GE: 0, ScalarOp.LE: 1, ScalarOp.GT: 1}
"""Points from where both operands are equal to where the result changes, if one grows."""


def join_parts(
    nest: Nest,
    buffers: Mapping[str, TensorType],
    symbols: SizeSymbols,
    *,
    round_casts: bool = False,
) -> Nest:
    """Return a nest with linear accesses that has one point for the parts of each axis.

    ``round_casts`` is as in
    :func:`~wrapperir.lowering.value_numbering.remove_redundancy`.
    """
    code = [step for step in nest.body if not isinstance(step, InnerLoop)]
    if len(code) < len(nest.body) or not _may_change_order(code):
        return nest
    flat = FlatNest(
        parallel=nest.axes, inner=(), code=tuple(code), deep=(False,) * len(code)
    )
    on_cpu = device_kind(flat, buffers) == "cpu"
    for axis in nest.axes:
        ranges = flat.ranges(symbols)
        width = _part_width(axis, flat, ranges)
        if width is None or not _is_wide(axis, width, flat, ranges):
            continue
        joined = _joined(axis, width, flat, symbols)
        slim = remove_redundancy(
            joined, joined.ranges(symbols), lambda _: False, round_casts=round_casts
        )
        if on_cpu or _slow_operators(slim) < _slow_operators(joined):
            flat = slim
    return evolve(nest, axes=flat.parallel, body=flat.code)


def _may_change_order(code: list[Instruction]) -> bool:
    """Return whether points may run in another order: no two write one element."""
    names = {name for each in code for name in results(each)}
    return not any(
        is_atomic(each) or any(not names.isdisjoint(symbols_in(at)) for at in each.index)
        for each in code
        if isinstance(each, Store)
    )


def _part_width(axis: Axis, flat: FlatNest, ranges: IndexRanges) -> int | None:
    """Return the points of equal parts in which conditions on an axis do not change."""
    if not isinstance(axis.extent, int):
        return None
    borders = {at for at in _borders(axis.name, flat, ranges) if 0 < at < axis.extent}
    if not borders:
        return None
    width = math.gcd(axis.extent, *borders)
    parts = axis.extent // width
    are_few = parts <= _MOST_PARTS and parts * len(flat.code) <= _MOST_INSTRUCTIONS
    return width if are_few else None


def _borders(axis: str, flat: FlatNest, ranges: IndexRanges) -> Iterator[int]:
    """Yield the points of an axis from which on a comparison has another result."""
    values: dict[str, Expr] = {}
    for each in flat.code:
        if isinstance(each, IndexValue) and each.dtype.is_integer and is_whole(each.expr):
            values[each.result] = each.expr
        elif isinstance(each, Literal) and each.dtype.is_integer:
            values[each.result] = int(each.value)
        elif isinstance(each, Apply) and each.op in _AFTER_EQUAL:
            left, right = map(values.get, each.operands)
            if left is None or right is None:
                continue
            terms = ranges.linear_terms(sub(left, right), (axis,))
            slope, rest = terms.coefficients.get(axis), terms.rest
            if isinstance(rest, int) and slope == 1:
                yield _AFTER_EQUAL[each.op] - rest
            elif isinstance(rest, int) and slope == -1:
                yield rest + 1 - _AFTER_EQUAL[each.op]


def _is_wide(axis: Axis, width: int, flat: FlatNest, ranges: IndexRanges) -> bool:
    """Return whether parts of an axis are long, or memory is not contiguous along it."""
    return width >= _LEAST_CONTIGUOUS or not any(
        ranges.linear_terms(each.index[0], (axis.name,)).coefficients.get(axis.name) == 1
        for each in flat.code
        if isinstance(each, Load | Store)
    )


def _slow_operators(flat: FlatNest) -> int:
    return sum(isinstance(each, Apply) and each.op in SLOW for each in flat.code)


def _joined(axis: Axis, width: int, flat: FlatNest, symbols: SizeSymbols) -> FlatNest:
    """Return instructions over the points of one part: those of each part in order."""
    assert isinstance(axis.extent, int)
    place = flat.parallel.index(axis)
    part_axis = (Axis(axis.name, width),) if width > 1 else ()
    parallel = (*flat.parallel[:place], *part_axis, *flat.parallel[place + 1 :])
    joined = evolve(flat, parallel=parallel)
    names = [name for each in flat.code for name in results(each)]
    first: Expr = Symbol(axis.name) if width > 1 else 0
    code: list[Instruction] = []
    for part in range(axis.extent // width):
        rename = Substitution(
            values={name: f"{name}.{part}" for name in names},
            indices={axis.name: add(first, part * width)},
            simplify=joined.ranges(symbols).simplify,
        )
        code += map(rename.instruction, flat.code)
    return evolve(joined, code=tuple(code), deep=(False,) * len(code))
