"""Expressions: folding, evaluation, substitution."""

import math
from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from wrapperir.ir import (
    EvaluationError,
    Expr,
    ExprOp,
    Operation,
    Symbol,
    accepts_arity,
    add,
    ceildiv,
    depth,
    evaluate,
    evaluate_int,
    floordiv,
    maximum,
    minimum,
    mod,
    mul,
    product,
    sub,
    substitute,
    symbols_in,
)

INTS = st.integers(-(2**40), 2**40)
S0, S1 = Symbol("s0"), Symbol("s1")

BINARY: dict[str, tuple[Callable[[Expr, Expr], Expr], Callable[[int, int], int]]] = {
    "add": (add, lambda a, b: a + b),
    "sub": (sub, lambda a, b: a - b),
    "mul": (mul, lambda a, b: a * b),
    "floordiv": (floordiv, lambda a, b: a // b),
    "mod": (mod, lambda a, b: a % b),
    "ceildiv": (ceildiv, lambda a, b: -(-a // b)),
    "minimum": (minimum, min),
    "maximum": (maximum, max),
}


@given(st.sampled_from(sorted(BINARY)), INTS, INTS)
def test_folded_and_evaluated_are_what_python_computes(
    name: str, left: int, right: int
) -> None:
    assume(right != 0)
    build, python = BINARY[name]
    expected = python(left, right)
    assert build(left, right) == expected
    values = {"s0": left, "s1": right}
    assert evaluate(build(S0, S1), values) == expected
    assert evaluate(build(S0, right), values) == expected
    assert evaluate(build(left, S1), values) == expected


@pytest.mark.parametrize(
    "op", [ExprOp.FLOORDIV, ExprOp.MOD, ExprOp.CEILDIV, ExprOp.TRUEDIV]
)
def test_division_by_zero_has_no_value(op: ExprOp) -> None:
    with pytest.raises(EvaluationError, match=op.value):
        evaluate(Operation(op, (S0, 0)), {"s0": 3})


def test_folding_leaves_a_division_by_zero_to_the_run() -> None:
    assert floordiv(4, 0) == Operation(ExprOp.FLOORDIV, (4, 0))


def test_an_unbound_symbol_is_named() -> None:
    with pytest.raises(EvaluationError, match="s1"):
        evaluate(S0 + S1, {"s0": 1})


@pytest.mark.parametrize(
    "expr",
    [
        Operation(ExprOp.POW, (10, Operation(ExprOp.POW, (10, 10)))),
        Operation(ExprOp.SHL, (1, 10**9)),
        Operation(ExprOp.SQRT, (-1,)),
        Operation(ExprOp.LOG2, (0,)),
        Operation(ExprOp.TRUNC, (math.inf,)),
        Operation(ExprOp.SHL, (1, -1)),
    ],
)
def test_what_has_no_value_or_a_huge_one_is_an_evaluation_error(expr: Expr) -> None:
    with pytest.raises(EvaluationError):
        evaluate(expr, {})


def test_comparisons_and_logic_are_boolean() -> None:
    less = Operation(ExprOp.LT, (S0, 4))
    more = Operation(ExprOp.GE, (S0, 4))
    for value in (3, 4, 5):
        values = {"s0": value}
        assert evaluate(less, values) is (value < 4)
        assert evaluate(Operation(ExprOp.OR, (less, more)), values) is True
        assert evaluate(Operation(ExprOp.AND, (S0, 7)), values) is True
        assert evaluate(Operation(ExprOp.AND, (less, more)), values) is False
        assert evaluate(Operation(ExprOp.NOT, (less,)), values) is (value >= 4)
        assert evaluate(less + 1, values) == int(value < 4) + 1


def test_what_does_not_decide_is_not_evaluated() -> None:
    nonzero = Operation(ExprOp.NE, (S0, 0))
    quotient = Operation(ExprOp.FLOORDIV, (10, S0))
    where = Operation(ExprOp.WHERE, (nonzero, quotient, 7))
    both = Operation(ExprOp.AND, (nonzero, Operation(ExprOp.GT, (quotient, 3))))
    either = Operation(ExprOp.OR, (Operation(ExprOp.NOT, (nonzero,)), quotient))
    assert [evaluate(e, {"s0": 0}) for e in (where, both, either)] == [7, False, True]
    assert [evaluate(e, {"s0": 2}) for e in (where, both, either)] == [5, True, True]


def test_a_sum_of_floats_adds_from_the_left() -> None:
    total = Operation(ExprOp.ADD, (S0, 1.0, -1e100))
    assert evaluate(total, {"s0": 1e100}) == 0.0


def test_whole_numbers_only_for_evaluate_int() -> None:
    half = Operation(ExprOp.TRUEDIV, (S0, 2))
    assert evaluate_int(half, {"s0": 6}) == 3
    with pytest.raises(EvaluationError, match="whole"):
        evaluate_int(half, {"s0": 5})
    with pytest.raises(EvaluationError):
        evaluate_int(Operation(ExprOp.TRUEDIV, (1e308, 1e-308)), {})


@given(INTS, INTS)
def test_substituting_numbers_and_evaluating_agree(left: int, right: int) -> None:
    expr = mul(S0 + S1, sub(S0, S1)) + 7
    inner = substitute(expr, {"s0": left})
    assert set(symbols_in(inner)) == {"s1"}
    assert evaluate(inner, {"s1": right}) == evaluate(expr, {"s0": left, "s1": right})


def test_symbols_come_left_to_right_with_repeats() -> None:
    assert list(symbols_in(S1 + S0 * S1)) == ["s1", "s0", "s1"]


def test_depth_counts_operations() -> None:
    assert depth(3) == depth(S0) == 0
    assert depth(mul(S0 + 1, S1)) == 2


def test_products_fold_ones_and_zeros() -> None:
    assert product(()) == 1
    assert product((1, S0, 1)) == S0
    assert product((S0, 0)) == 0


@pytest.mark.parametrize("op", list(ExprOp))
def test_every_operator_evaluates_at_an_arity_it_accepts(op: ExprOp) -> None:
    counts = [count for count in range(1, 5) if accepts_arity(op, count)]
    assert counts
    assert not accepts_arity(op, 0)
    for count in counts:
        result = evaluate(Operation(op, (4, 2, 3, 5)[:count]), {})
        assert isinstance(result, int | float)
