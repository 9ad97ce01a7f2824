"""Numbers in graphs: expressions have the interpreter's value, conversions its faults."""

import math
from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import given
from torch.fx import GraphModule, Node

from tests.fx_emitter.running import FAULTS, built, run_both
from tests.python_emitter.test_expressions import EXPRESSIONS, VALUES
from wrapperir.emit.context import ProgramFacts
from wrapperir.emit.number_kinds import NumberKinds
from wrapperir.ir import (
    MAX_DEPTH,
    VARIADIC,
    DType,
    EvaluationError,
    Expr,
    ExprOp,
    Input,
    Number,
    Operation,
    OriginTable,
    Program,
    ScalarType,
    Symbol,
    SymbolDefinitionLine,
    SymbolKind,
    ValueOf,
    accepts_arity,
    evaluate,
)
from wrapperir_fx import nodes as graph_nodes
from wrapperir_fx import symbolic_arithmetic, symbolic_numbers
from wrapperir_fx.fake_values import FakeValues
from wrapperir_fx.nodes import GraphNodes
from wrapperir_fx.number_nodes import NumberNodes
from wrapperir_fx.symbolic_arithmetic import SymbolicNumber

DTYPES = {int: DType.I64, float: DType.F64, bool: DType.BOOL}
KINDS = {int: SymbolKind.INT, float: SymbolKind.FLOAT, bool: SymbolKind.BOOL}
PROGRAM = Program(
    inputs=tuple(
        Input(name=name, type=ScalarType(DTYPES[type(value)]))
        for name, value in VALUES.items()
    ),
    symbols=tuple(
        SymbolDefinitionLine(symbol=name, kind=KINDS[type(value)], source=ValueOf(name))
        for name, value in VALUES.items()
    ),
)
How = Callable[[NumberNodes], Callable[[Expr], graph_nodes.GraphNumber]]


def graph_of(*exprs: Expr, how: How = lambda numbers: numbers.value) -> GraphModule:
    """Return a graph of expressions over ``VALUES``."""
    fakes = FakeValues(ProgramFacts(PROGRAM))
    nodes = GraphNodes(OriginTable(PROGRAM))
    kinds = NumberKinds({name: KINDS[type(value)] for name, value in VALUES.items()})
    numbers = NumberNodes(nodes, fakes, kinds)
    for name in VALUES:
        numbers.symbols[name] = nodes.placeholder(name, fakes.number(Symbol(name)))
    nodes.output(tuple(how(numbers)(expr) for expr in exprs))
    module = GraphModule({}, nodes.graph)
    module.graph.lint()
    return module


def run(expr: Expr, how: How = lambda numbers: numbers.value) -> Number:
    (result,) = graph_of(expr, how=how)(*VALUES.values())
    assert isinstance(result, int | float)
    return result


def assert_equal(result: Number, wanted: Number) -> None:
    assert type(result) is type(wanted)
    assert repr(result) == repr(wanted)  # so -0.0 is not 0.0


@given(EXPRESSIONS)
def test_a_graph_has_the_value_of_the_expression(expr: Expr) -> None:
    try:
        wanted = evaluate(expr, VALUES)
    except EvaluationError as error:
        if "power too large" not in str(error):  # an emitter may have a value there
            with pytest.raises(FAULTS):
                run(expr)
        return
    assert_equal(run(expr), wanted)
    assert_equal(run(expr, lambda numbers: numbers.condition), bool(wanted))


@given(EXPRESSIONS)
def test_conversions_are_those_of_the_interpreter(expr: Expr) -> None:
    try:
        wanted = evaluate(expr, VALUES)
        assert_equal(
            run(expr, lambda n: lambda e: n.of_kind(e, SymbolKind.FLOAT)), float(wanted)
        )
    except (EvaluationError, OverflowError):
        return
    if math.isfinite(wanted) and wanted == int(wanted):
        assert_equal(run(expr, lambda numbers: numbers.index), int(wanted))
    else:
        with pytest.raises(FAULTS):
            run(expr, lambda numbers: numbers.index)


@pytest.mark.parametrize("base", [-1, -2, -0.5])
def test_the_sign_of_a_literal_is_part_of_the_base(base: float) -> None:
    for exponent in (0, 1, 2):
        assert_equal(run(Operation(ExprOp.POW, (base, exponent))), base**exponent)


@given(EXPRESSIONS, EXPRESSIONS)
def test_one_graph_computes_several(left: Expr, right: Expr) -> None:
    try:
        wanted = [evaluate(expr, VALUES) for expr in (left, right, left)]
    except EvaluationError:
        return
    for result, value in zip(
        graph_of(left, right, left)(*VALUES.values()), wanted, strict=True
    ):
        assert_equal(result, value)


def test_an_operation_is_computed_once() -> None:
    a, b = Symbol("a"), Symbol("b")
    graph = graph_of(a * b + 1, (a * b) // 2, a * b + 1).graph
    targets = [node.name for node in graph.nodes if node.op == "call_function"]
    assert targets == ["mul", "add", "floordiv"]


def test_numbers_that_are_equal_but_no_number_alike_are_told_apart() -> None:
    a = Symbol("a")
    exprs = [Operation(ExprOp.MUL, (a, by)) for by in (0, 0.0, -0.0, False)]
    results = graph_of(*exprs)(*VALUES.values())
    assert [repr(result) for result in results] == ["0", "0.0", "-0.0", "0"]


def test_what_a_tracer_follows_is_used_where_all_are_ints() -> None:
    n, f, yes = Symbol("a"), Symbol("f"), Symbol("yes")

    def target(op: ExprOp, *args: Expr) -> str:
        for node in graph_of(Operation(op, args)).graph.nodes:
            if node.op == "call_function":
                assert isinstance(node, Node)
                return getattr(node.target, "__name__", "")
        raise AssertionError

    assert target(ExprOp.MIN, n, 3) == "sym_min"
    assert target(ExprOp.MIN, f, 3) == "min"
    assert target(ExprOp.BITAND, n, 3) == "and_"
    assert target(ExprOp.BITAND, yes, 3) == "bit_and"
    assert target(ExprOp.POW, n, 2) == "pow"
    assert target(ExprOp.POW, n, n) == "power"
    assert target(ExprOp.WHERE, yes, n, f) == "choose"
    assert target(ExprOp.WHERE, yes, n // n, f) == "evaluate"


@pytest.mark.parametrize("op", ExprOp)
def test_the_deepest_expression_runs(op: ExprOp) -> None:
    expr: Expr = Symbol("no")
    for _ in range(MAX_DEPTH):
        count = next(n for n in (1, 2, 3) if accepts_arity(op, n))
        expr = Operation(op, (expr, 1, 2)[:count])
    try:
        wanted = evaluate(expr, VALUES)
    except EvaluationError:
        with pytest.raises(FAULTS):
            run(expr)
        return
    assert_equal(run(expr), wanted)


def operands_seen(monkeypatch: pytest.MonkeyPatch, expr: Expr) -> list[int]:
    """Return how many symbols and operators there are in each number that is met."""
    seen: list[int] = []
    compute = symbolic_arithmetic.apply

    def counted(op: ExprOp, args: Sequence[SymbolicNumber]) -> SymbolicNumber:
        for arg in args:
            seen.append(0 if isinstance(arg, int | float) else arg.node.expr.count_ops())
        return compute(op, args)

    with monkeypatch.context() as patch:
        patch.setattr(symbolic_numbers, "apply", counted)
        graph_of(expr)
    return seen


@pytest.mark.parametrize("op", sorted(VARIADIC))
def test_a_wide_expression_takes_time_that_grows_with_it(
    op: ExprOp, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("a", "b", "yes", "f")
    terms = [Symbol(names[index % 4]) * (index + 2) for index in range(400)]
    seen = operands_seen(monkeypatch, Operation(op, tuple(terms)))
    assert len(seen) <= 4 * len(terms)  # two for each term and each step
    assert max(seen) <= 150


def test_a_deep_number_takes_time_that_grows_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expr: Expr = Symbol("a")
    for index in range(MAX_DEPTH // 2):
        expr = (expr * 3 + 1) // (index + 2)
    seen = operands_seen(monkeypatch, expr)
    assert len(seen) <= 2 * 3 * MAX_DEPTH // 2
    assert max(seen) <= 150


def test_steps_of_an_expression_have_the_number_of_the_expression_so_far() -> None:
    a, b = Symbol("a"), Symbol("b")
    graph = graph_of(Operation(ExprOp.ADD, (a, b, a, 3))).graph
    vals = [str(node.meta["val"]) for node in graph.nodes if node.op == "call_function"]
    fakes = FakeValues(ProgramFacts(PROGRAM))
    sums = [a + b, a + b + a, a + b + a + 3]
    assert vals == [str(fakes.number(expr)) for expr in sums]


def test_symbols_have_names_that_python_reserves() -> None:
    text = """
    program @main(%class: i64, %expression: i64) {
      symbol class: int = value(%class)
      symbol expression: int 0..9 = value(%expression)
      symbol self: int = where(class != 0, expression // class, 7)
      return self, class + expression
    }
    """
    assert run_both(text, 0, 3) == (7, 3)
    assert run_both(text, 2, 5) == (2, 7)


def test_complex_numbers_keep_their_signs_and_infinities() -> None:
    numbers = ["complex(1.5, -2.0)", "complex(-0.0, -0.0)", "complex(0.0, -1.0)"]
    numbers.append("complex(inf, nan)")
    lines = "\n".join(
        f"%r{i} = extern_kernel aten.full.default([1], {number}) : c64[1]"
        for i, number in enumerate(numbers)
    )
    results = ", ".join(f"%r{i}" for i in range(len(numbers)))
    outputs = run_both(f"program @main() {{\n{lines}\nreturn {results}\n}}")
    parts = [
        torch.view_as_real(x).flatten().tolist()
        for x in outputs
        if isinstance(x, torch.Tensor)
    ]
    assert repr(parts) == "[[1.5, -2.0], [-0.0, -0.0], [0.0, -1.0], [inf, nan]]"


def test_an_int_that_nothing_uses_must_be_whole_after_dead_code_is_gone() -> None:
    module = built(
        """
        program @main(%y: f64) {
          symbol n: int = value(%y)
          return 1
        }
        """
    )
    module.graph.eliminate_dead_code()
    module.recompile()
    assert module(2.0) == (1,)
    with pytest.raises(ValueError, match=r"2\.5 is not a whole number"):
        module(2.5)
