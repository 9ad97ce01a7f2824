"""Intervals that an expression's value must lie in, from the ranges of its symbols.

Textbook interval arithmetic (Moore, 1966), kept to what sizes and grids need; whatever
it does not know is unbounded, so what it excludes is excluded for certain.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from wrapperir.ir import Expr, ExprOp, Operation, Symbol

Bound: TypeAlias = int | float
"""An exact integer, or an infinity."""

Interval: TypeAlias = tuple[Bound, Bound]
"""The least and greatest value, inclusive."""

UNBOUNDED: Interval = (-math.inf, math.inf)
_TRUTH: Interval = (0, 1)
_LARGEST = 1 << 1100


def plus(left: Bound, right: Bound) -> Bound:
    """Return the sum; an infinity wins, also over integers too large for a float."""
    if isinstance(left, float):
        return left
    return right if isinstance(right, float) else left + right


def times(left: Bound, right: Bound) -> Bound:
    """Return the product; zero times an infinity is zero, as it is for bounds."""
    if left == 0 or right == 0:
        return 0
    if isinstance(left, float) or isinstance(right, float):
        return math.inf if (left > 0) == (right > 0) else -math.inf
    return left * right


def multiply(left: Interval, right: Interval) -> Interval:
    """Return the interval of products."""
    corners = [times(a, b) for a in left for b in right]
    return (min(corners), max(corners))


def _sum(args: Sequence[Interval]) -> Interval:
    low, high = args[0]
    for other in args[1:]:
        low, high = plus(low, other[0]), plus(high, other[1])
    return (low, high)


def _product(args: Sequence[Interval]) -> Interval:
    result = args[0]
    for other in args[1:]:
        result = multiply(result, other)
    return result


def _negated(interval: Interval) -> Interval:
    return (times(-1, interval[1]), times(-1, interval[0]))


def _quotient(args: Sequence[Interval], round_up: bool) -> Interval:
    (low, high), (least, most) = args
    if least <= 0:
        return UNBOUNDED

    def divide(value: Bound, divisor: Bound) -> Bound:
        if isinstance(value, float):
            return value
        if isinstance(divisor, float):
            return (1 if value > 0 else 0) if round_up else (-1 if value < 0 else 0)
        return -(-value // divisor) if round_up else value // divisor

    corners = [divide(value, divisor) for value in (low, high) for divisor in (least, most)]
    return (min(corners), max(corners))


def _remainder(args: Sequence[Interval]) -> Interval:
    (low, high), (least, most) = args
    if least <= 0:
        return UNBOUNDED
    if low >= 0 and high < least:
        return (low, high)
    return (0, plus(most, -1))


def _absolute(interval: Interval) -> Interval:
    low, high = interval
    if low >= 0:
        return interval
    mirrored = _negated(interval)
    return mirrored if high <= 0 else (0, max(high, mirrored[1]))


def _extreme(
    args: Sequence[Interval], choose: Callable[[Sequence[Bound]], Bound]
) -> Interval:
    return (choose([low for low, _ in args]), choose([high for _, high in args]))


_OPERATIONS: Mapping[ExprOp, Callable[[Sequence[Interval]], Interval]] = {
    ExprOp.ADD: _sum,
    ExprOp.SUB: lambda a: _sum((a[0], _negated(a[1]))),
    ExprOp.MUL: _product,
    ExprOp.NEG: lambda a: _negated(a[0]),
    ExprOp.FLOORDIV: lambda a: _quotient(a, round_up=False),
    ExprOp.CEILDIV: lambda a: _quotient(a, round_up=True),
    ExprOp.MOD: _remainder,
    ExprOp.MIN: lambda a: _extreme(a, min),
    ExprOp.MAX: lambda a: _extreme(a, max),
    ExprOp.ABS: lambda a: _absolute(a[0]),
    ExprOp.WHERE: lambda a: (min(a[1][0], a[2][0]), max(a[1][1], a[2][1])),
    **{
        op: lambda _: _TRUTH
        for op in (
            ExprOp.EQ,
            ExprOp.NE,
            ExprOp.LT,
            ExprOp.LE,
            ExprOp.GT,
            ExprOp.GE,
            ExprOp.AND,
            ExprOp.OR,
            ExprOp.NOT,
        )
    },
}


def interval_of(
    expr: Expr, ranges: Callable[[str], Interval], known: dict[int, Interval]
) -> Interval:
    """Return an interval that holds every value of ``expr``.

    ``ranges`` gives each symbol's interval.  ``known`` remembers operations by identity,
    so that an expression whose parts are shared costs its parts, not its paths; the
    caller keeps them alive.
    """
    if isinstance(expr, Symbol):
        return ranges(expr.name)
    if isinstance(expr, Operation):
        found = known.get(id(expr))
        if found is None:
            args = [interval_of(arg, ranges, known) for arg in expr.args]
            rule = _OPERATIONS.get(expr.op)
            found = UNBOUNDED if rule is None else _clipped(rule(args))
            known[id(expr)] = found
        return found
    if isinstance(expr, int):
        return (expr, expr)
    return (math.floor(expr), math.ceil(expr)) if math.isfinite(expr) else UNBOUNDED


def _clipped(interval: Interval) -> Interval:
    """Bound the cost of hostile products: values beyond any size become infinite."""
    low, high = interval
    return (
        low if -_LARGEST < low < _LARGEST else -math.inf,
        high if -_LARGEST < high < _LARGEST else math.inf,
    )
