"""Index expressions simplify to equal ones, and the known identities hold."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wrapperir.ir import Expr, ExprOp, Operation, Symbol, ceildiv, evaluate
from wrapperir.lowering.indexing import IndexRanges

a, b, c, s, t = map(Symbol, "abcst")


def ranges(**extents: Expr) -> IndexRanges:
    """Return ranges of axes, with the symbols ``s`` and ``t`` zero at least."""
    return IndexRanges(extents, {"s": (0, float("inf")), "t": (0, float("inf"))})


@pytest.mark.parametrize(
    ("extents", "expr", "simple"),
    [
        ({"b": 32}, (a * 32 + b) // 32, a),
        ({"b": 32}, (a * 32 + b) % 32, b),
        ({"a": 7}, a // 7, 0),
        ({"a": 7}, a % 7, a),
        ({"a": 70}, (a // 7) * 7 + a % 7, a),
        ({"a": 70}, (a // 7) * 21 + (a % 7) * 3, a * 3),
        ({}, a // 4 // 8, a // 32),
        ({"b": s}, (a * s + b) // s, a),
        ({"b": s}, (a * s + b) % s, b),
        ({"a": s * t}, (a // t) * t + a % t, a),
        ({"a": s, "b": t}, (a * t + b) // t, a),
        ({"a": 4, "b": s + 1}, (a * (s + 1) + b) // (s + 1), a),
        ({"a": 4, "b": s + 1}, (a * (s + 1) + b) % (s + 1), b),
        ({"a": 8, "b": 32}, (a * 32 + b) // 64, a // 2),
        ({"a": 8, "b": 32}, (a * 32 + b) % 64, a % 2 * 32 + b),
        ({"a": 64}, a % 32 // 8, a // 8 % 4),
        ({"a": 64}, a % 32 % 8, a % 8),
        ({"a": 4, "b": 3, "c": 2}, ((a * 3 + b) * 2 + c) // 2 % 3, b),
        ({"a": 4, "b": 3, "c": 2}, ((a * 3 + b) * 2 + c) // 6, a),
        ({"a": 1}, a * 5 + b, b),
        ({"a": 8}, 7 - (7 - a), a),
        ({"a": 8}, (a + 8) // 8, 1),
        ({"a": s}, ceildiv(s * 4, 4) - s, 0),
        ({"a": s, "b": 4}, (a * 4 + b) // (s * 4), 0),
        ({"a": s, "b": 4}, (a * 4 + b) % (s * 4), a * 4 + b),
    ],
)
def test_identities(extents: dict[str, Expr], expr: Expr, simple: Expr) -> None:
    known = ranges(**extents)
    assert known.simplify(expr) == known.simplify(simple)
    if not isinstance(simple, Operation):
        assert known.simplify(expr) == simple


def test_no_division_by_a_size_that_may_be_zero() -> None:
    known = ranges(a=4)
    assert known.simplify(a // s) == a // s
    assert known.simplify((a * s) // s) == (a * s) // s


def test_signs() -> None:
    known = ranges(a=s, b=8)
    assert known.is_nonnegative(s - 1 - a)
    assert known.is_nonnegative(s * t - t)
    assert not known.is_nonnegative(a - 1)
    assert known.is_below(a * 8 + b, s * 8)
    assert not known.is_below(a * 8 + b, s * 8 - 1)
    assert known.interval(b * 3 + 1) == (1, 22)


def test_linear_terms() -> None:
    known = ranges(a=s, b=8, c=9)
    terms = known.linear_terms(a * s * 8 + b * 3 + c // 4 + c + 5, "abc")
    assert terms.coefficients == {"a": known.simplify(s * 8), "b": 3}
    assert terms.rest == known.simplify(c // 4 + c + 5)


_EXTENTS = {"a": 6, "b": 4, "c": 1}
_CONSTANTS = st.integers(-3, 24)
_LEAVES = st.sampled_from([a, b, c, s]) | _CONSTANTS


def _operation(op: ExprOp, left: Expr, right: Expr) -> Operation:
    return Operation(op, (left, right))


def _operations(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    positive = st.sampled_from([1, 2, 3, 4, 6, 8, 12, 24, s, s * 4, s + 1])
    plain = st.builds(
        _operation,
        st.sampled_from([ExprOp.ADD, ExprOp.SUB, ExprOp.MUL, ExprOp.MIN, ExprOp.MAX]),
        inner,
        inner,
    )
    divided = st.builds(
        _operation,
        st.sampled_from([ExprOp.FLOORDIV, ExprOp.MOD, ExprOp.CEILDIV]),
        inner,
        positive,
    )
    return plain | divided


_EXPRESSIONS: st.SearchStrategy[Expr] = st.recursive(_LEAVES, _operations, max_leaves=8)


@given(_EXPRESSIONS)
def test_simplified_expressions_have_the_same_values(expr: Expr) -> None:
    known = IndexRanges(_EXTENTS, {"s": (1, float("inf"))})
    simple = known.simplify(expr)
    low, high = known.interval(expr)
    nonnegative = known.is_nonnegative(expr)
    for x, y, size in itertools.product(range(6), range(4), (1, 2, 5)):
        values = {"a": x, "b": y, "c": 0, "s": size}
        value = evaluate(expr, values)
        assert value == evaluate(simple, values)
        assert low <= value <= high
        assert value >= 0 or not nonnegative
    assert known.simplify(simple) == simple
