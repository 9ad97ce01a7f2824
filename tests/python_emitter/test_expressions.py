"""Expressions in Python have the value that the IR's own evaluation gives."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wrapperir.emit import Namespace, NameTable
from wrapperir.emit.number_kinds import NumberKinds
from wrapperir.emit.python.expressions import PythonExpressions
from wrapperir.ir import (
    MAX_DEPTH,
    VARIADIC,
    EvaluationError,
    Expr,
    ExprOp,
    Number,
    Operation,
    Symbol,
    SymbolKind,
    accepts_arity,
    evaluate,
)

VALUES: dict[str, Number] = {
    **{"a": 7, "b": -3, "c": 0, "class": 2, "f": 1.5},
    **{"yes": True, "no": False},
}
NUMBERS: tuple[Expr, ...] = (0, 1, 2, 5, -1, -4, 0.5, -2.0)
LEAVES: st.SearchStrategy[Expr] = st.sampled_from((*map(Symbol, VALUES), *NUMBERS))


def operations(children: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    def of(op: ExprOp) -> st.SearchStrategy[Expr]:
        count = next(n for n in (2, 1, 3) if accepts_arity(op, n))
        most = 4 if op in VARIADIC else count
        args = st.lists(children, min_size=count, max_size=most)
        return args.map(lambda given: Operation(op, tuple(given)))

    return st.sampled_from(ExprOp).flatmap(of)


EXPRESSIONS: st.SearchStrategy[Expr] = st.recursive(LEAVES, operations, max_leaves=12)


def formatter() -> PythonExpressions:
    names = Namespace(NameTable({"class"}))
    kinds = {"f": SymbolKind.FLOAT, "yes": SymbolKind.BOOL, "no": SymbolKind.BOOL}
    return PythonExpressions(names, lambda name: None, NumberKinds(kinds))


def whole(value: Number) -> int:
    assert value == int(value)
    return int(value)


SCOPE = {"math": math, "ceildiv": lambda a, b: -(-a // b), "whole": whole}
NAMES = {("class_" if name == "class" else name): value for name, value in VALUES.items()}


def run(text: str) -> Number:
    result = eval(text, dict(SCOPE), dict(NAMES))  # noqa: S307 - what is under test
    assert isinstance(result, int | float)
    return result


@given(EXPRESSIONS)
def test_python_has_the_value_of_the_expression(expr: Expr) -> None:
    try:
        wanted = evaluate(expr, VALUES)
    except EvaluationError:
        return  # no value: nothing to agree on
    result = run(formatter().format_value(expr))
    assert result == wanted or (result != result and wanted != wanted)
    assert type(result) is type(wanted)
    assert bool(run(formatter().format_condition(expr))) == bool(wanted)


@given(EXPRESSIONS)
def test_an_index_is_an_int(expr: Expr) -> None:
    try:
        wanted = evaluate(expr, VALUES)
    except EvaluationError:
        return
    if wanted == wanted and abs(wanted) != math.inf and wanted == int(wanted):
        result = run(formatter().format_index(expr))
        assert type(result) is int
        assert result == wanted


LESS = Operation(ExprOp.LT, (Symbol("a"), 2))


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (Symbol("a") * (Symbol("b") + 1) // 2, "a * (b + 1) // 2"),
        (Operation(ExprOp.SUB, (Symbol("a"), Symbol("b") - 1)), "a - (b - 1)"),
        (Operation(ExprOp.NEG, (Symbol("a") * 2,)), "-(a * 2)"),
        (Operation(ExprOp.POW, (-2, Operation(ExprOp.NEG, (Symbol("a"),)))), "(-2) ** -a"),
        (
            Operation(ExprOp.EQ, (LESS, Operation(ExprOp.NOT, (1,)))),
            "(a < 2) == (not 1)",
        ),
        (Operation(ExprOp.WHERE, (Symbol("a"), Symbol("b"), 2)), "b if a else 2"),
        (Symbol("class"), "class_"),
        (Operation(ExprOp.AND, (LESS, Symbol("yes"))), "a < 2 and yes"),
        (Operation(ExprOp.OR, (LESS, Symbol("a"))), "bool(a < 2 or a)"),
    ],
)
def test_text(expr: Expr, text: str) -> None:
    assert formatter().format_value(expr) == text


@pytest.mark.parametrize("op", ExprOp)
def test_the_deepest_expression_compiles(op: ExprOp) -> None:
    expr: Expr = Symbol("a")
    for _ in range(MAX_DEPTH):
        if accepts_arity(op, 1):
            expr = Operation(op, (expr,))
        elif accepts_arity(op, 2):
            expr = Operation(op, (1.5, expr))
            expr = Operation(op, (expr.args[1], 3)) if op is ExprOp.POW else expr
        else:
            expr = Operation(op, (expr, 1, 2))
    for text in (formatter().format_value(expr), formatter().format_index(expr)):
        compile(f"f[{text}, ({text},)]", "deep", "eval")
