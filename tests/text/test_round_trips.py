"""Text and JSON read back as the same program, and print the same again."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.draws import draws
from wrapperir.ir import Expr, ExprOp, Operation, Program, Symbol, ValueType
from wrapperir.testing.arbitrary import exprs, programs, value_types
from wrapperir.text import (
    format_expr,
    format_json,
    format_program,
    format_type,
    parse_expr,
    parse_json,
    parse_program,
    parse_type,
)

ADD, SUB, NEG, POW, MUL = (
    ExprOp.ADD,
    ExprOp.SUB,
    ExprOp.NEG,
    ExprOp.POW,
    ExprOp.MUL,
)
a, b, c = Symbol("a"), Symbol("b"), Symbol("c")


def assert_same(again: Program, program: Program) -> None:
    # Equality takes True for 1 and a dtype for its name, and no NaN for itself; repr
    # takes each for what it is.
    assert repr(again) == repr(program)
    assert again == program or "nan" in repr(program)


@settings(max_examples=draws(80, fuzz=200))
@given(programs)
def test_round_trips(program: Program) -> None:
    text = format_program(program)
    read = parse_program(text)
    assert_same(read, program)
    assert format_program(read) == text

    json = format_json(program)
    loaded = parse_json(json)
    assert_same(loaded, program)
    assert format_json(loaded) == json

    # Each from what the other read, which shares no object with the first program or
    # shares them otherwise: nothing depends on identity.
    assert format_program(loaded) == text
    assert format_json(read) == json


@settings(max_examples=300)
@given(exprs)
def test_expression_round_trip(expr: Expr) -> None:
    text = format_expr(expr)
    assert repr(parse_expr(text)) == repr(expr)


@settings(max_examples=draws(80, fuzz=200))
@given(value_types)
def test_type_round_trip(type: ValueType) -> None:
    assert repr(parse_type(format_type(type))) == repr(type)


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (Operation(ADD, (a, b, c)), "a + b + c"),
        (Operation(ADD, (Operation(ADD, (a, b)), c)), "(a + b) + c"),
        (Operation(ADD, (a, Operation(ADD, (b, c)))), "a + (b + c)"),
        (Operation(SUB, (Operation(SUB, (a, b)), c)), "a - b - c"),
        (Operation(SUB, (Operation(ADD, (a, b)), c)), "a + b - c"),
        (Operation(ADD, (Operation(SUB, (a, b)), c)), "a - b + c"),
        (Operation(SUB, (a, Operation(SUB, (b, c)))), "a - (b - c)"),
        (Operation(MUL, (Operation(ADD, (a, 1)), b)), "(a + 1) * b"),
        (-5, "-5"),
        (Operation(NEG, (5,)), "-(5)"),
        (Operation(NEG, (-5,)), "-(-5)"),
        (Operation(NEG, (Operation(NEG, (a,)),)), "--a"),
        (Operation(NEG, (Operation(POW, (5, 2)),)), "-5 ** 2"),
        (Operation(POW, (-5, 2)), "(-5) ** 2"),
        (Operation(POW, (a, -2)), "a ** -2"),
        (Operation(POW, (a, Operation(POW, (b, c)))), "a ** b ** c"),
        (Operation(POW, (Operation(POW, (a, b)), c)), "(a ** b) ** c"),
        (Operation(SUB, (a, -5)), "a - -5"),
        (1.0, "1.0"),
        (1e-05, "1e-05"),
        (float("-inf"), "-inf"),
        (-0.0, "-0.0"),
        (Operation(ExprOp.NOT, (Operation(ExprOp.EQ, (a, b)),)), "not a == b"),
        (Operation(ExprOp.EQ, (Operation(ExprOp.NOT, (a,)), b)), "(not a) == b"),
        (Operation(ExprOp.LT, (Operation(ExprOp.LT, (a, b)), c)), "(a < b) < c"),
        (Operation(ExprOp.CEILDIV, (a, 8)), "ceildiv(a, 8)"),
        (Operation(ExprOp.MOD, (a, b)), "a % b"),
    ],
)
def test_expression_spelling(expr: Expr, text: str) -> None:
    assert format_expr(expr) == text
    assert repr(parse_expr(text)) == repr(expr)


@given(st.sampled_from(["1", "a", "-a", "a * b"]), st.integers(0, 20))
@example("a", 100)
def test_redundant_parentheses_change_nothing(text: str, count: int) -> None:
    assert parse_expr("(" * count + text + ")" * count) == parse_expr(text)
