"""Numbers in graphs: expressions have the interpreter's value, conversions its faults."""

import math
from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import given
from torch.fx import GraphModule, Node

from tests.fx_emitter.running import FAULTS, built, refuse_both, run_both
from tests.python_emitter.running import assert_same
from tests.python_emitter.test_expressions import EXPRESSIONS, VALUES
from tests.python_emitter.test_numbers import BORDERS, COND, LOOP, SUBGRAPH
from wrapperir.emit import Value
from wrapperir.emit.number_kinds import NumberKinds
from wrapperir.ir.expr import (
    MAX_DEPTH,
    VARIADIC,
    EvaluationError,
    Expr,
    ExprOp,
    Number,
    Operation,
    Symbol,
    accepts_arity,
    evaluate,
)
from wrapperir.ir.line import SymbolDefinitionLine, SymbolKind, ValueOf
from wrapperir.ir.program import Input, Program
from wrapperir.ir.types import DType, ScalarType
from wrapperir_fx import fake_arithmetic, fake_numbers
from wrapperir_fx import nodes as graph_nodes
from wrapperir_fx.fake_arithmetic import FakeNumber
from wrapperir_fx.fake_values import FakeValues
from wrapperir_fx.nodes import GraphNodes
from wrapperir_fx.numbers import Numbers

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
How = Callable[[Numbers], Callable[[Expr], graph_nodes.Number]]


def graph_of(*exprs: Expr, how: How = lambda numbers: numbers.value) -> GraphModule:
    """Return a graph of expressions over ``VALUES``."""
    fakes = FakeValues(PROGRAM)
    nodes = GraphNodes()
    kinds = NumberKinds({name: KINDS[type(value)] for name, value in VALUES.items()})
    numbers = Numbers(nodes, fakes, kinds)
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
    compute = fake_arithmetic.apply

    def counted(op: ExprOp, args: Sequence[FakeNumber]) -> FakeNumber:
        for arg in args:
            seen.append(0 if isinstance(arg, int | float) else arg.node.expr.count_ops())
        return compute(op, args)

    with monkeypatch.context() as patch:
        patch.setattr(fake_numbers, "apply", counted)
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
    fakes = FakeValues(PROGRAM)
    sums = [a + b, a + b + a, a + b + a + 3]
    assert vals == [str(fakes.number(expr)) for expr in sums]


@pytest.mark.parametrize("line", [SUBGRAPH, LOOP, COND])
@pytest.mark.parametrize("start", [0, 7])
def test_whole_numbers_become_floats(line: str, start: int) -> None:
    line = line.format(dtype="f64", kind="float", result="2")
    (result,) = run_both(BORDERS.format(given="i64", kind="int", line=line), start)
    assert type(result) is float


@pytest.mark.parametrize("line", [SUBGRAPH, LOOP, COND])
@pytest.mark.parametrize("start", [0.0, 7.0])
def test_whole_floats_become_ints(line: str, start: float) -> None:
    line = line.format(dtype="i64", kind="int", result="2.0")
    (result,) = run_both(BORDERS.format(given="f64", kind="float", line=line), start)
    assert type(result) is int


def test_numbers_become_bools() -> None:
    line = SUBGRAPH.format(dtype="bool", kind="int", result="w + 4")
    (result,) = run_both(BORDERS.format(given="i64", kind="int", line=line), 3)
    assert result is True


@pytest.mark.parametrize("result", ["w + 0.5", "0.5"])
def test_a_result_that_is_not_whole_is_a_fault(result: str) -> None:
    line = SUBGRAPH.format(dtype="i64", kind="int", result=result)
    refuse_both(BORDERS.format(given="i64", kind="int", line=line), 3)


@pytest.mark.parametrize("number", [0.5, math.inf, math.nan])
def test_an_operand_that_is_not_whole_is_a_fault(number: float) -> None:
    line = SUBGRAPH.format(dtype="i64", kind="int", result="1")
    refuse_both(BORDERS.format(given="f64", kind="float", line=line), number)


@pytest.mark.parametrize(
    ("dtype", "given", "wanted"),
    [
        ("f64", 2, 2.0),
        ("f32", True, 1.0),
        ("f64", math.nan, math.nan),
        ("i64", True, 1),
        ("i32", 3, 3),
        ("bool", 2, True),
        ("bool", False, False),
    ],
)
def test_an_input_becomes_its_type(dtype: str, given: Value, wanted: Value) -> None:
    assert_same(
        run_both(f"program @main(%n: {dtype}) {{\n  return %n\n}}", given), (wanted,)
    )


@pytest.mark.parametrize("dtype", ["i64", "u8", "bool"])
def test_a_float_is_no_whole_input(dtype: str) -> None:
    refuse_both(f"program @main(%n: {dtype}) {{\n  return %n\n}}", 2.0)


def test_conditions_are_bools() -> None:
    outputs = run_both(
        """
        program @main(%x: bool, %n: i64) {
          symbol b: bool = value(%x)
          symbol n: int = value(%n)
          symbol many: bool = n
          %full = extern_kernel aten.full.default([2], n > 1) : bool[2]
          %flag = extern_kernel aten.full.default([n > 2, 2], many) : bool[1, 2]
          return %full, %flag, b, many, b + b, -b, n > 1, not n, n and 7, b or many, \
bitand(b, many), min(b, 2), where(n == 3, b, 1)
        }
        """,
        True,
        3,
    )
    assert [type(x) for x in outputs[2:]] == [
        *(bool, bool, int, int, bool, bool, bool, bool, int, bool, bool)
    ]


def test_what_is_not_taken_is_not_evaluated() -> None:
    text = """
    program @main(%n: i64) {
      symbol n: int = value(%n)
      return where(n != 0, 10 // n, 7), n != 0 and 10 // n, n == 0 or 10 // n
    }
    """
    assert run_both(text, 0) == (7, False, True)
    assert run_both(text, 3) == (3, True, True)


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


def test_a_nan_without_a_range_is_a_value() -> None:
    (output,) = run_both(
        """
        program @main(%x: f32[1]) {
          symbol_definition f: float = item(%x)
          %r = extern_kernel aten.mul.Scalar(%x, f) : f32[1]
          return %r
        }
        """,
        torch.tensor([math.nan]),
    )
    assert isinstance(output, torch.Tensor)
    assert output.isnan().all()


def test_a_nan_is_in_no_range() -> None:
    text = """
    program @main(%y: f64) {
      symbol f: float 0..5 = value(%y)
      return f
    }
    """
    assert refuse_both(text, math.nan) == "f = nan is not in 0..5"


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
