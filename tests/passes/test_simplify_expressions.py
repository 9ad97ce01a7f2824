import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wrapperir.ir import (
    DType,
    EvaluationError,
    Expr,
    ExprOp,
    Operation,
    ScalarType,
    SizeOf,
    Symbol,
    SymbolKind,
    ValueOf,
    ceildiv,
    evaluate,
    minimum,
    tensor,
)
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.passes import simplify_expressions
from wrapperir.passes.simplify_expressions import fold_constants

S0, U0, F0 = Symbol("s0"), Symbol("u0"), Symbol("f0")

BINARY = [
    ExprOp.ADD,
    ExprOp.SUB,
    ExprOp.MUL,
    ExprOp.FLOORDIV,
    ExprOp.CEILDIV,
    ExprOp.MOD,
    ExprOp.MIN,
    ExprOp.MAX,
    ExprOp.EQ,
    ExprOp.LT,
    ExprOp.GE,
    ExprOp.AND,
    ExprOp.OR,
    ExprOp.TRUEDIV,
    ExprOp.SHL,
    ExprOp.SHR,
    ExprOp.BITAND,
    ExprOp.BITXOR,
    ExprOp.POW,
]


def operations(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    def apply(op: ExprOp, *args: Expr) -> Expr:
        return Operation(op, args)

    return st.one_of(
        st.builds(apply, st.sampled_from(BINARY), inner, inner),
        st.builds(apply, st.just(ExprOp.ADD), inner, inner, inner),
        st.builds(apply, st.sampled_from([ExprOp.NEG, ExprOp.NOT, ExprOp.ABS]), inner),
        st.builds(apply, st.sampled_from([ExprOp.TO_FLOAT, ExprOp.FLOOR]), inner),
        st.builds(apply, st.just(ExprOp.WHERE), inner, inner, inner),
    )


EXPRESSIONS = st.recursive(
    st.one_of(
        st.sampled_from([S0, U0, F0]),
        st.integers(-20, 20),
        st.sampled_from([2.0, 0.5]),
    ),
    operations,
    max_leaves=8,
)
VALUES = st.fixed_dictionaries(
    {
        "s0": st.integers(1, 100),
        "u0": st.integers(-100, 100),
        "f0": st.sampled_from([0.1, 0.2, 3.0, -7.25]),
    }
)


def simplified(expr: Expr) -> Expr:
    b = ProgramBuilder()
    x = b.input(tensor("f32", (S0,)), name="x")
    u = b.input(ScalarType(DType.I64), name="u")
    f = b.input(ScalarType(DType.F64), name="f")
    b.symbol("s0", SizeOf(x.name, 0), lower=1)
    b.symbol("u0", ValueOf(u.name))
    b.symbol("f0", ValueOf(f.name), kind=SymbolKind.FLOAT)
    (output,) = simplify_expressions(b.build(expr)).outputs
    assert isinstance(output, int | float | Symbol | Operation)
    return output


@given(EXPRESSIONS, VALUES)
def test_the_value_and_its_kind_stay(expr: Expr, values: dict[str, int | float]) -> None:
    try:
        expected = evaluate(expr, values)
    except EvaluationError:
        return
    value = evaluate(simplified(expr), values)
    assert type(value) is type(expected)
    assert value == expected or (math.isnan(value) and math.isnan(expected))


@pytest.mark.parametrize(
    "expr",
    [
        Operation(ExprOp.EQ, (S0, S0)),
        Operation(ExprOp.NE, (S0, S0)),
        Operation(ExprOp.WHERE, (S0, Operation(ExprOp.EQ, (S0, S0)), S0)),
        Operation(ExprOp.MUL, (1, Operation(ExprOp.GT, (S0, 1)))),
    ],
)
def test_a_condition_stays_a_bool_and_a_number_an_int(expr: Expr) -> None:
    expected = evaluate(expr, {"s0": 3})
    value = evaluate(simplified(expr), {"s0": 3})
    assert (type(value), value) == (type(expected), expected)


@given(EXPRESSIONS)
def test_simplifying_twice_changes_nothing_more(expr: Expr) -> None:
    once = simplified(expr)
    assert repr(simplified(once)) == repr(once)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (Operation(ExprOp.MUL, (2, 32)), 64),
        (S0 * 64 // 64, S0),
        ((S0 * 64 + 3) // 64, S0),
        ((S0 * 8 + S0 * 8), S0 * 16),
        (S0 * 6 % 3, 0),
        (ceildiv(S0 * 64, 32), S0 * 2),
        (Operation(ExprOp.FLOORDIV, (S0, S0)), 1),
        (S0 - S0 + 4, 4),
        (Operation(ExprOp.GE, (S0, 1)), 1),
        (minimum(S0, S0 + 1), S0),
        (U0 // U0, Operation(ExprOp.FLOORDIV, (U0, U0))),
        (Operation(ExprOp.FLOORDIV, (S0, 0)), Operation(ExprOp.FLOORDIV, (S0, 0))),
        (F0 * 3 - F0 * 3, F0 * 3 - F0 * 3),
    ],
)
def test_forms(expr: Expr, expected: Expr) -> None:
    assert simplified(expr) == expected


def test_numbers_stay_small() -> None:
    huge = Operation(ExprOp.POW, (S0 * 2, 10**9))
    assert simplified(huge) == huge
    assert fold_constants(Operation(ExprOp.POW, (10, 10**9))) == Operation(
        ExprOp.POW, (10, 10**9)
    )


def test_whole_and_other_numbers_are_told_apart() -> None:
    b = ProgramBuilder()
    x = b.input(tensor("f32", (S0,)), name="x")
    b.symbol("s0", SizeOf(x.name, 0), lower=1)
    program = simplify_expressions(b.build((S0 + 0.5) * 2.0, (S0 + 1) * 2 - 2, (S0 + 1.0)))
    assert repr(program.outputs[2]) == repr(S0 + 1.0)


def test_torch_is_not_imported() -> None:
    code = (
        "import sys\n"
        "from wrapperir.ir.builder import ProgramBuilder\n"
        "from wrapperir.ir.expr import Symbol\n"
        "from wrapperir.ir.arguments import SizeOf\n"
        "from wrapperir.ir.types import tensor\n"
        "from wrapperir.passes import PASSES\n"
        "from wrapperir.pipelines import run_passes\n"
        "assert not {'torch', 'sympy'} & set(sys.modules)\n"
        "b = ProgramBuilder()\n"
        "s0 = Symbol('s0')\n"
        "x = b.input(tensor('f32', (s0,)), name='x')\n"
        "b.symbol('s0', SizeOf('x', 0), lower=1)\n"
        "program = run_passes(b.build(s0 * 64 // 64), list(PASSES))\n"
        "assert program.outputs == (s0,), program.outputs\n"
        "assert 'sympy' in sys.modules\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
