import math
from typing import Any

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._sympy import functions
from torch.utils._sympy.numbers import int_oo

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.ir import Expr, ExprOp, Operation, Symbol, evaluate, evaluate_int
from wrapperir.symbolic import lower_size, lower_sympy, to_sympy

S0, S1 = sympy.symbols("s0 s1", positive=True, integer=True)
U0 = sympy.Symbol("u0", integer=True)
SYMBOLS = {"s0": S0, "s1": S1, "u0": U0}

fn: Any = functions

leaves = st.one_of(st.sampled_from([S0, S1, U0]), st.integers(-40, 40).map(sympy.Integer))


def attempt(make: Any) -> Any:
    """Let torch's functions refuse what has no value (division by zero and the like)."""

    def made(args: Any) -> Any:
        try:
            result = make(*args)
        except (ZeroDivisionError, ValueError, AssertionError, TypeError):
            return args[0]
        return args[0] if result.has(sympy.nan, sympy.zoo, sympy.oo) else result

    return made


def remainder(left: Any, right: Any) -> Any:
    """Choose as torch does: ``Mod`` where both are known not to be negative."""
    return (fn.Mod if left.is_nonnegative else fn.PythonMod)(left, right)


def grow(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    pair = st.tuples(inner, inner)
    positive = st.integers(1, 20).map(sympy.Integer)
    numbers: list[Any] = [
        pair.map(attempt(lambda a, b: a + b)),
        pair.map(attempt(lambda a, b: a - b)),
        pair.map(attempt(lambda a, b: a * b)),
        pair.map(attempt(fn.Max)),
        pair.map(attempt(fn.Min)),
        st.tuples(inner, positive).map(attempt(fn.FloorDiv)),
        st.tuples(inner, positive).map(attempt(fn.CeilDiv)),
        st.tuples(inner, positive).map(attempt(remainder)),
        st.tuples(inner, st.just(sympy.Integer(2))).map(attempt(fn.PowByNatural)),
        pair.map(attempt(fn.BitwiseFn_bitwise_xor)),
        st.tuples(pair.map(lambda p: sympy.Lt(*p)), inner, inner).map(attempt(fn.Where)),
    ]
    return st.one_of(numbers)


_recursive = st.recursive(leaves, grow, max_leaves=6)


@st.composite
def expressions(draw: st.DrawFn) -> Any:
    return draw(_recursive)


VALUES = st.fixed_dictionaries(
    {"s0": st.integers(1, 50), "s1": st.integers(1, 50), "u0": st.integers(-50, 50)}
)


def number(expr: Any, values: dict[str, int]) -> Any:
    return expr.xreplace({SYMBOLS[k]: sympy.Integer(v) for k, v in values.items()})


@given(expressions(), VALUES)
def test_lowering_keeps_the_value(expr: Any, values: dict[str, int]) -> None:
    lowered = lower_sympy(expr)
    assert evaluate(lowered, values) == int(number(expr, values))


@given(expressions())
def test_round_trip_is_equal(expr: Any) -> None:
    # a division known to be exact comes back as the plain one
    expected = expr.replace(fn.CleanDiv, fn.FloorDiv)
    assert to_sympy(lower_sympy(expr), SYMBOLS) == expected


@given(expressions(), VALUES)
def test_lower_size_is_an_integer_of_the_same_value(
    expr: Any, values: dict[str, int]
) -> None:
    halved = (expr * (expr + 1)) / 2
    lowered = lower_size(sympy.expand(halved))
    value = evaluate(lowered, values)
    assert isinstance(value, int)
    assert value == evaluate_int(lowered, values) == int(number(halved, values))


F0 = sympy.Symbol("f0", real=True)


@pytest.mark.parametrize(
    ("expr", "value"),
    [
        (fn.IntTrueDiv(S0, S1), 7 / 3),
        (fn.FloatTrueDiv(F0, sympy.Float(2.0)), 1.25),
        (fn.ToFloat(S0), 7.0),
        (fn.TruncToInt(fn.IntTrueDiv(U0, S1)), -1),
        (fn.FloorToInt(fn.IntTrueDiv(U0, S1)), -2),
        (fn.CeilToInt(fn.IntTrueDiv(S0, S1)), 3),
        (fn.RoundToInt(fn.IntTrueDiv(S0, S1)), 2),
        (fn.TruncToFloat(F0), 2.0),
        (fn.FloatPow(F0, sympy.Float(2.0)), 6.25),
        (fn.PowByNatural(S1, S0), 3**7),
        (fn.ModularIndexing(S0 * S1, S1 + 1, 4), 21 // 4 % 4),
        (fn.Mod(S0, S1), 1),
        (fn.PythonMod(U0, S1), 1),
        (fn.CleanDiv(S0 * 6, S1 * 2), 7),
        (fn.LShift(S0, S1), 7 << 3),
        (fn.RShift(S0, S1), 0),
        (fn.Identity(S0 + 1), 8),
        (fn.OpaqueUnaryFn_sqrt(fn.ToFloat(S0)), math.sqrt(7)),
        (fn.OpaqueUnaryFn_log2(fn.ToFloat(S0)), math.log2(7)),
        (fn.BitwiseFn_bitwise_and(S0, S1), 3),
        (fn.BitwiseFn_bitwise_or(S0, S1), 7),
        (fn.BitwiseFn_bitwise_xor(S0, S1), 4),
        (fn.Where(S0 > S1, S0, S1), 7),
        (sympy.Piecewise((S0, U0 > 0), (S1, True)), 3),
        (sympy.Eq(S0, S1), 0),
        (sympy.Ne(S0, S1), 1),
        (sympy.And(S0 > 5, U0 >= 0), 0),
        (sympy.Or(S0 > 5, U0 >= 0), 1),
        (sympy.Not(sympy.And(S0 > 5, U0 >= 0)), 1),
        (sympy.true, 1),
        (sympy.false, 0),
        (sympy.Rational(7, 2), 3.5),
        (S0 / 2, 3.5),
        (S0 / S1, 7 / 3),
        (1 / S0, 1 / 7),
        (sympy.sqrt(S0), math.sqrt(7)),
        (sympy.Abs(U0), 5),
        (sympy.floor(S0 / 2), 3),
        (sympy.ceiling(S0 / 2), 4),
        (sympy.Max(S0, U0, S1), 7),
        (sympy.Float(0.5), 0.5),
        (sympy.oo, math.inf),
        (True, 1),
        (2.5, 2.5),
    ],
)
def test_functions(expr: Any, value: float) -> None:
    lowered = lower_sympy(expr)
    values = {"s0": 7, "s1": 3, "u0": -5, "f0": 2.5}
    assert evaluate(lowered, values) == value
    again = to_sympy(lowered, {**SYMBOLS, "f0": F0})
    assert evaluate(lower_sympy(again), values) == value


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (S0 * 64, Operation(ExprOp.MUL, (Symbol("s0"), 64))),
        (S0 + 1, Operation(ExprOp.ADD, (Symbol("s0"), 1))),
        (S0 - 1, Operation(ExprOp.SUB, (Symbol("s0"), 1))),
        (-S0, Operation(ExprOp.NEG, (Symbol("s0"),))),
        (S0 * S1 * 8, Operation(ExprOp.MUL, (Symbol("s0"), Symbol("s1"), 8))),
        (fn.CeilDiv(S0, 1024), Operation(ExprOp.CEILDIV, (Symbol("s0"), 1024))),
        ((S0 + 15) // 16, Operation(ExprOp.CEILDIV, (Symbol("s0"), 16))),
        (S0 // 16, Operation(ExprOp.FLOORDIV, (Symbol("s0"), 16))),
    ],
)
def test_the_shape_of_common_sizes(expr: Any, expected: Expr) -> None:
    assert lower_sympy(expr) == expected


@pytest.mark.parametrize(
    ("expr", "name"),
    [
        (fn.OpaqueUnaryFn_cos(F0), "OpaqueUnaryFn_cos"),
        (sympy.gamma(S0), "gamma"),
        (sympy.nan, "NaN"),
        (sympy.S.ComplexInfinity, "ComplexInfinity"),
        (int_oo, "IntInfinity"),
        (sympy.Piecewise((S0, U0 > 0)), "Piecewise"),
        (S0 + sympy.gamma(S1), "gamma"),
    ],
)
def test_what_expressions_lack_is_named(expr: Any, name: str) -> None:
    with pytest.raises(DiagnosticError) as raised:
        lower_sympy(expr)
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.code is Code.UNSUPPORTED_FUNCTION
    assert name in diagnostic.message


@pytest.mark.parametrize("name", ["a b", "", "none", "é", "x\n", "a" * 300])
def test_a_symbol_must_be_an_identifier(name: str) -> None:
    with pytest.raises(DiagnosticError) as raised:
        lower_sympy(sympy.Symbol(name))
    assert raised.value.diagnostics[0].code is Code.UNSUPPORTED_SYMBOL_NAME
