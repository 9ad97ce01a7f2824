"""Expressions in C++ have the value that the IR's own evaluation gives, or fail as it."""

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cpp_emitter.expression_library import Library, formatter_of
from tests.draws import draws
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

INT, FLOAT, BOOL = SymbolKind.INT, SymbolKind.FLOAT, SymbolKind.BOOL
SYMBOLS = {"a": INT, "b": INT, "c": INT, "f": FLOAT, "g": FLOAT, "yes": BOOL, "no": BOOL}
LEAST, MOST = -(2**63), 2**63 - 1
INTS = (0, 1, -1, 2, 3, -3, 7, 63, 64, 1000, 2**31, 2**53, 2**53 + 1, -(2**53) - 1)
EDGES = (2**62, MOST, MOST - 1, LEAST, LEAST + 1, 3037000500)
FLOATS = (0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.0, 3.0, 7.25, 1e10, 2.0**53, 9.3e18)
SPECIAL = (math.inf, -math.inf, math.nan, 5e-324, 1.7e308, -(2.0**63), 2.0**63, 1e-3)
ints = st.sampled_from(INTS) | st.sampled_from(EDGES) | st.integers(LEAST, MOST)
small = st.integers(-9, 70)
floats = st.sampled_from(FLOATS) | st.sampled_from(SPECIAL) | st.floats()
leaves: st.SearchStrategy[Expr] = st.one_of(
    st.sampled_from(tuple(map(Symbol, SYMBOLS))),
    st.sampled_from(tuple(map(Symbol, SYMBOLS))),
    *(small, small, ints, floats, st.booleans(), st.just(2**64)),
)
environments = st.fixed_dictionaries(
    {
        name: {INT: small | ints, FLOAT: floats, BOOL: st.booleans()}[kind]
        for name, kind in SYMBOLS.items()
    }
)


def operation(op: ExprOp, children: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    count = next(n for n in (2, 1, 3) if accepts_arity(op, n))
    most = 4 if op in VARIADIC else count
    args = st.lists(children, min_size=count, max_size=most)
    return args.map(lambda given: Operation(op, tuple(given)))


def operations(children: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.sampled_from(ExprOp).flatmap(lambda op: operation(op, children))


nested = st.recursive(leaves, operations, max_leaves=12)
flat = st.sampled_from(ExprOp).flatmap(lambda op: operation(op, leaves))
Sample = tuple[Expr, list[dict[str, Number]]]


def drawn(count: int) -> list[Sample]:
    """Return drawn expressions, each with what its symbols are."""
    samples: list[Sample] = []

    @settings(max_examples=count, suppress_health_check=[HealthCheck.too_slow])
    @given(flat | nested, st.lists(environments, min_size=12, max_size=12))
    def collect(expr: Expr, values: list[dict[str, Number]]) -> None:
        samples.append((expr, values))

    collect()
    return samples


class WideError(Exception):
    """An int on the way does not fit 64 bits."""


def is_wide(expr: Expr, values: dict[str, Number]) -> bool:
    """Say whether the evaluation, step by step, meets an int beyond 64 bits."""
    try:
        step(expr, values)
    except WideError:
        return True
    except EvaluationError:
        return False
    return False


def step(expr: Expr, values: dict[str, Number]) -> Number:
    if isinstance(expr, Operation):
        args: tuple[Expr, ...] = expr.args
        if expr.op is ExprOp.WHERE:
            return step(args[1] if step(args[0], values) else args[2], values)
        if expr.op in (ExprOp.AND, ExprOp.OR):
            for arg in args:
                if bool(step(arg, values)) is (expr.op is ExprOp.OR):
                    return expr.op is ExprOp.OR
            return expr.op is ExprOp.AND
        known = [step(arg, values) for arg in args]
        chains = expr.op in (ExprOp.ADD, ExprOp.MUL)
        for count in range(2, len(known)) if chains else ():
            narrow(evaluate(Operation(expr.op, tuple(known[:count])), {}))
        if expr.op in BITS:
            known = [narrow(truncated(number)) for number in known]
        return narrow(evaluate(Operation(expr.op, tuple(known)), {}))
    return narrow(evaluate(expr, values))


BITS = (ExprOp.SHL, ExprOp.SHR, ExprOp.BITAND, ExprOp.BITOR, ExprOp.BITXOR)


def truncated(number: Number) -> Number:
    try:
        return int(number)
    except (ValueError, OverflowError):
        raise EvaluationError from None


def narrow(number: Number) -> Number:
    if isinstance(number, int) and not LEAST <= number <= MOST:
        raise WideError
    return number


def same(left: Number, right: Number) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, float) and isinstance(right, float):
        signs = math.copysign(1, left) == math.copysign(1, right)
        return (left != left and right != right) or (left == right and signs)
    return left == right


def evaluated(expr: Expr, values: dict[str, Number]) -> Number | None:
    """Return the value of an expression where it has one of 64 bits."""
    try:
        value = evaluate(expr, values)
    except EvaluationError:
        return None
    if isinstance(value, int) and not LEAST <= value <= MOST:
        return None
    return value


def wanted(value: Number | None, form: str) -> Number | None:
    if value is None:
        return None
    match form:
        case "any":
            return value
        case "float":
            return float(value)
        case "int":
            whole = isinstance(value, int) or value.is_integer()
            return int(value) if whole and LEAST <= value <= MOST else None
        case _:
            return bool(value)


def check(library: Library, samples: Sequence[Sample]) -> int:
    """Hold each sample against its evaluation; return how many had a value."""
    with_value = 0
    for index, (expr, environments) in enumerate(samples):
        for values in environments:
            value = evaluated(expr, values)
            for form in ("any", "int", "float", "bool", "condition"):
                expected = wanted(value, form)
                found = library.run(index, form, values)
                with_value += expected is not None
                shown = (expr, form, values, expected, found)
                if found is None:
                    assert expected is None or is_wide(expr, values), shown
                    assert library.message.startswith("program.cpp:"), shown
                else:
                    assert expected is not None, shown
                    assert same(found, expected), shown
    return with_value


def test_c_plus_plus_has_the_value_of_the_expression(tmp_path: Path) -> None:
    samples = drawn(draws(120, fuzz=600))
    library = Library(tmp_path, SYMBOLS, [expr for expr, _ in samples])
    assert check(library, samples) > 2500


PAIRS: list[Expr] = [
    Operation(op, (left, right)[: 2 if accepts_arity(op, 2) else 1])
    for op in ExprOp
    for left, right in (
        *((Symbol("a"), Symbol("b")), (Symbol("f"), Symbol("g"))),
        *((Symbol("a"), Symbol("f")), (Symbol("f"), Symbol("a"))),
        (Operation(ExprOp.WHERE, (Symbol("yes"), Symbol("a"), Symbol("f"))), Symbol("b")),
    )
    if accepts_arity(op, 1) or accepts_arity(op, 2)
]


@pytest.mark.slow
def test_every_operation_at_the_edges(tmp_path: Path) -> None:
    library = Library(tmp_path, SYMBOLS, PAIRS)
    ints, floats = (*INTS, *EDGES), (*FLOATS, *SPECIAL)
    samples: list[Sample] = []
    for expr in PAIRS:
        environments: list[dict[str, Number]] = [
            {"a": a, "b": b, "c": 0, "f": f, "g": g, "yes": index % 2 == 0, "no": False}
            for index, (a, f) in enumerate(zip(ints, floats, strict=True))
            for b, g in zip(ints, floats, strict=True)
        ]
        samples.append((expr, environments))
    assert check(library, samples) > 50_000


A, B, F, YES = (Symbol(name) for name in ("a", "b", "f", "yes"))
LESS = Operation(ExprOp.LT, (A, 2))
SUM = Operation(ExprOp.ADD, (F, A))
LESS_F = Operation(ExprOp.ADD, (Operation(ExprOp.NEG, (F,)), F))


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (A * (B + 1) // 2, "num::floordiv(num::mul(c.a, num::add(c.b, 1)), 2)"),
        (
            Operation(ExprOp.MUL, (F, Operation(ExprOp.ADD, (F, A)))),
            "c.f * (c.f + double(c.a))",
        ),
        (Operation(ExprOp.SUB, (F, Operation(ExprOp.SUB, (F, F)))), "c.f - (c.f - c.f)"),
        (Operation(ExprOp.SUB, (Operation(ExprOp.SUB, (F, F)), F)), "c.f - c.f - c.f"),
        (Operation(ExprOp.NEG, (Operation(ExprOp.NEG, (F,)),)), "-(-c.f)"),
        (
            Operation(
                ExprOp.MUL, (Operation(ExprOp.ADD, (Operation(ExprOp.NEG, (F,)), F)), F)
            ),
            "(-c.f + c.f) * c.f",
        ),
        (Operation(ExprOp.AND, (LESS, YES)), "(c.a < 2) && c.yes"),
        (Operation(ExprOp.EQ, (F, 2)), "c.f == 0x1.0000000000000p+1"),
        (Operation(ExprOp.WHERE, (A, B, 2)), "(c.a ? c.b : int64_t(2))"),
        (Operation(ExprOp.WHERE, (1, B, 2)), "c.b"),
        (Operation(ExprOp.CEILDIV, (1000, 64)), "16"),
    ],
)
def test_text(expr: Expr, text: str) -> None:
    formatter = formatter_of(SYMBOLS)
    kind = formatter.kind(expr)
    assert kind is not None
    assert formatter.format_number(expr, kind) == text


def test_a_constant_without_a_value_fails_when_it_is_needed(tmp_path: Path) -> None:
    division = Operation(ExprOp.FLOORDIV, (1, 0))
    guarded = Operation(ExprOp.WHERE, (A, division, 3))
    library = Library(tmp_path, SYMBOLS, [guarded, division])
    values: dict[str, Number] = dict.fromkeys(SYMBOLS, 0)
    assert library.run(0, "int", values) == 3
    assert library.run(0, "int", {**values, "a": 1}) is None
    assert "floordiv(1, 0)" in library.message
    assert library.run(1, "any", values) is None


def test_zero_less_an_int_is_not_minus_zero(tmp_path: Path) -> None:
    """GCC takes the negative where it sees that the operand was an int."""
    difference = Operation(ExprOp.SUB, (0.0, A))
    library = Library(tmp_path, SYMBOLS, [difference])
    values: dict[str, Number] = dict.fromkeys(SYMBOLS, 0)
    check(library, [(difference, [values, {**values, "a": 1}, {**values, "a": -1}])])


def test_a_message_names_operation_and_operands(tmp_path: Path) -> None:
    library = Library(tmp_path, SYMBOLS, [A * 2, A % B, Operation(ExprOp.SQRT, (F,))])
    values: dict[str, Number] = dict.fromkeys(SYMBOLS, 0)
    values.update(a=2**62, f=-1.5)
    assert library.run(0, "any", values) is None
    assert "mul(4611686018427387904, 2) does not fit 64 bits" in library.message
    assert library.run(1, "any", values) is None
    assert "mod(4611686018427387904, 0) has no value" in library.message
    assert library.run(2, "any", values) is None
    assert "sqrt(-1.5" in library.message


@pytest.mark.slow
def test_the_deepest_expressions_compile(tmp_path: Path) -> None:
    exprs: list[Expr] = []
    for op in ExprOp:
        expr: Expr = A
        for _ in range(MAX_DEPTH):
            if accepts_arity(op, 1):
                expr = Operation(op, (expr,))
            elif accepts_arity(op, 2):
                expr = Operation(op, (expr, 3) if op is ExprOp.POW else (1.5, expr))
            else:
                expr = Operation(op, (expr, 1, 2))
        exprs.append(expr)
    library = Library(tmp_path, SYMBOLS, exprs, level=0)
    values: dict[str, Number] = {**dict.fromkeys(SYMBOLS, 0), "a": 1}
    check(library, [(expr, [values]) for expr in exprs])
