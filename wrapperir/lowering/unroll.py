"""Unroll inner loops of a few points, so that reductions become operators on elements.

Before::

    for r0 < 2:
        v0 = load x[i0 * 2 + r0]
        v1 = reduce max v0
    store y[i0] = v1

After::

    v0.0 = load x[i0 * 2]
    v0.1 = load x[i0 * 2 + 1]
    v1 = maximum v0.0 v0.1
    store y[i0] = v1

Windows of pooling are unrolled, and loops of one point.  Short rows are not: a loop over
them is fused with others over the same rows.
"""

import itertools
from collections.abc import Iterator, Sequence

from attrs import evolve

from wrapperir.ir import DType, Expr, symbols_in
from wrapperir.lowering.flat_nest import FlatNest
from wrapperir.lowering.kernel import SizeSymbols
from wrapperir.lowering.loop_plan import LoopPlan
from wrapperir.lowering.loops import Apply, Instruction, Literal, Load, Reduce
from wrapperir.lowering.scalar_op import ReduceOp, ScalarOp
from wrapperir.lowering.substitution import Substitution, results

MOST_POINTS = 8
MOST_POINTS_ON_GPU = 9
"""Windows of 3 × 3: a loop of masked loads suits the vectors of a CPU, not threads."""
_CHAINS = {
    ReduceOp.SUM: ScalarOp.ADD,
    ReduceOp.PROD: ScalarOp.MUL,
    ReduceOp.MIN: ScalarOp.MINIMUM,
    ReduceOp.MAX: ScalarOp.MAXIMUM,
    ReduceOp.ANY: ScalarOp.OR,
    ReduceOp.ALL: ScalarOp.AND,
}
_LOGIC = frozenset({ReduceOp.ANY, ReduceOp.ALL})
_PLACES = {ReduceOp.ARGMIN: ScalarOp.LT, ReduceOp.ARGMAX: ScalarOp.GT}


def unroll(
    flat: FlatNest,
    symbols: SizeSymbols,
    *,
    most: int = MOST_POINTS,
    any_loop: bool = False,
) -> FlatNest:
    """Return instructions without inner axes, if those have at most ``most`` points.

    Of loops of several points, only windows are unrolled, or ``any_loop``.
    """
    points = _points(flat, most)
    if points is None or flat.scans:
        return flat
    if not (len(points) == 1 or any_loop or _is_window(flat)):
        return flat
    reductions = [each for each in flat.code if isinstance(each, Reduce)]
    if not all(map(_can_unroll, reductions)):
        return flat
    plan = LoopPlan(flat)
    inside = [
        name
        for each, is_inner in zip(flat.code, plan.inner, strict=True)
        if is_inner and not isinstance(each, Reduce)
        for name in results(each)
    ]
    ranges = evolve(flat, inner=()).ranges(symbols)
    copies: list[Substitution] = []
    for number, point in enumerate(points):
        indices: dict[str, Expr] = {
            axis.name: at for axis, at in zip(flat.inner, point, strict=True)
        }
        values = {name: f"{name}.{number}" for name in inside}
        copies.append(Substitution(values, indices, simplify=ranges.simplify))
    code: list[Instruction] = []
    for each, is_inner in zip(flat.code, plan.inner, strict=True):
        if not is_inner:
            code.append(each)
        elif isinstance(each, Reduce):
            (operand,) = each.operands
            parts = _unrolled(each, [copy.value(operand) for copy in copies])
            code += [evolve(part, origins=each.origins) for part in parts]
        else:
            code += [copy.instruction(each) for copy in copies]
    return evolve(flat, inner=(), code=tuple(code), deep=(False,) * len(code))


def _points(flat: FlatNest, most: int) -> list[tuple[int, ...]] | None:
    """Return the points of the inner axes in order, if they are few."""
    count = 1
    extents: list[range] = []
    for axis in flat.inner:
        if not isinstance(axis.extent, int):
            return None
        count *= axis.extent
        extents.append(range(axis.extent))
    if not flat.inner or not 1 <= count <= most:
        return None
    return list(itertools.product(*extents))


def _is_window(flat: FlatNest) -> bool:
    """Say whether a load moves along one dimension with both kinds of axes."""
    inner = {axis.name for axis in flat.inner}
    parallel = {axis.name for axis in flat.parallel}
    for each in flat.code:
        for part in each.index if isinstance(each, Load) else ():
            names = {*symbols_in(part)}
            if not inner.isdisjoint(names) and not parallel.isdisjoint(names):
                return True
    return False


def _can_unroll(each: Reduce) -> bool:
    if each.op in _LOGIC:
        return each.dtype is DType.BOOL
    return each.dtype is not DType.BOOL and (each.op in _CHAINS or each.op in _PLACES)


def _unrolled(each: Reduce, operands: Sequence[str]) -> Iterator[Instruction]:
    """Yield what computes a reduction's result from its operands, in order."""
    (result,) = each.results
    if each.op in _PLACES:
        yield from _place(each, result, operands)
        return
    op = _CHAINS[each.op]
    names = list(operands)
    if each.op is ReduceOp.SUM and each.dtype.is_float:
        # A sum begins with 0.0, so that the sum of -0.0 is 0.0.
        zero = Literal(result=f"{result}.zero", dtype=each.dtype, value=0.0)
        yield zero
        names = [zero.result, *names]
    elif len(names) == 1:
        # One operand alone: the operator of it and itself, or a product with 1.
        other = names[0]
        if each.op in (ReduceOp.SUM, ReduceOp.PROD):
            start = int(each.op is ReduceOp.PROD)
            value = float(start) if each.dtype.is_float else start
            unit = Literal(result=f"{result}.unit", dtype=each.dtype, value=value)
            yield unit
            other = unit.result
        names = [names[0], other]
    total = names[0]
    for number, name in enumerate(names[1:], start=2):
        last = number == len(names)
        new = result if last else f"{result}.{number}"
        yield Apply(result=new, dtype=each.dtype, op=op, operands=(total, name))
        total = new


def _place(each: Reduce, result: str, operands: Sequence[str]) -> Iterator[Instruction]:
    """Yield what computes the position of the first extreme value; NaN comes first."""
    start = Literal(result=f"{result}.at0", dtype=DType.I64, value=0)
    yield start
    best, place = operands[0], start.result
    for number, value in enumerate(operands[1:], start=1):

        def name(part: str, number: int = number) -> str:
            return f"{result}.{part}{number}"

        def test(part: str, op: ScalarOp, *given: str) -> Apply:
            return Apply(result=name(part), dtype=DType.BOOL, op=op, operands=given)

        better = test("better", _PLACES[each.op], value, best)
        yield better
        if each.dtype.is_float:
            yield test("nan", ScalarOp.ISNAN, value)
            yield test("known", ScalarOp.ISNAN, best)
            yield test("plain", ScalarOp.NOT, name("known"))
            # Where the best is NaN no comparison holds, so it stays.
            yield test("first", ScalarOp.AND, name("nan"), name("plain"))
            better = test("take", ScalarOp.OR, better.result, name("first"))
            yield better
        yield Literal(result=name("at"), dtype=DType.I64, value=number)
        new_best = Apply(
            result=name("best"),
            dtype=each.dtype,
            op=ScalarOp.WHERE,
            operands=(better.result, value, best),
        )
        new_place = Apply(
            result=name("place"),
            dtype=DType.I64,
            op=ScalarOp.WHERE,
            operands=(better.result, name("at"), place),
        )
        yield new_best
        yield new_place
        best, place = new_best.result, new_place.result
    zero = Literal(result=f"{result}.zero", dtype=DType.I64, value=0)
    yield zero
    yield Apply(
        result=result, dtype=DType.I64, op=ScalarOp.ADD, operands=(place, zero.result)
    )
