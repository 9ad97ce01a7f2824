"""Intervals hold every value of an expression."""

import math

from hypothesis import given
from hypothesis import strategies as st

from wrapperir.analysis.arithmetic import UNBOUNDED, Interval, interval_of
from wrapperir.ir import Expr, ExprOp, Operation, Symbol, evaluate

RANGES = st.tuples(st.integers(-9, 9), st.integers(0, 9))


def power(base: Expr, exponent: Expr) -> Interval:
    return interval_of(Operation(ExprOp.POW, (base, exponent)), lambda _: UNBOUNDED, {})


@given(RANGES, st.integers(0, 7), st.data())
def test_powers(bounds: tuple[int, int], exponent: int, data: st.DataObject) -> None:
    low, width = bounds
    expr = Operation(ExprOp.POW, (Symbol("s"), exponent))
    least, most = interval_of(expr, lambda _: (low, low + width), {})
    value = data.draw(st.integers(low, low + width))
    assert least <= evaluate(expr, {"s": value}) <= most
    if low >= 0:
        assert (least, most) == (low**exponent, (low + width) ** exponent)


def test_powers_without_a_bound() -> None:
    assert power(3, Symbol("n")) == UNBOUNDED
    assert power(3, -1) == UNBOUNDED
    assert power(3, 10**9) == UNBOUNDED
    assert power(Symbol("s"), 2) == (-math.inf, math.inf)
