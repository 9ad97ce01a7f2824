"""No program in memory makes the verifier raise, hang or cost more than its length."""

import itertools
import sys
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.draws import draws
from wrapperir.diagnostics import Code, Diagnostic
from wrapperir.ir import (
    Access,
    AllocateLine,
    AssertScalarLine,
    BufferParameter,
    BufferRef,
    CommentLine,
    DType,
    Expr,
    ExprOp,
    ExternKernelLine,
    FreeLine,
    Input,
    KernelDefinitionLine,
    Language,
    OpaqueType,
    Operation,
    Program,
    ReinterpretLine,
    Symbol,
    SymbolDefinitionLine,
    TupleType,
    ValueType,
    tensor,
)
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.testing.arbitrary import programs as arbitrary_programs
from wrapperir.testing.programs import programs
from wrapperir.verify import verify

JUNK: list[object] = [
    None,
    True,
    -1,
    1 << 70,
    1.5,
    float("nan"),
    "",
    "not a name",
    "\ud800",
    b"bytes",
    [],
    ["x"],
    {},
    (),
    (None,),
    ("x", 3),
    object(),
    int,
    Symbol("s9"),
    BufferRef("x"),
    FreeLine(buffer="x"),
    tensor("f32", (2,)),
]


def replaced(value: Any, field: str, junk: object) -> object:
    """Return the value with a field that may hold anything."""
    return attrs.evolve(value, **{field: junk})


def spoil(value: object, draw: Callable[[int], int]) -> object:
    """Return the value with one thing in it, at any depth, replaced by junk."""
    if draw(4) == 0:
        return JUNK[draw(len(JUNK))]
    if isinstance(value, tuple) and value:
        index = draw(len(value))
        return (*value[:index], spoil(value[index], draw), *value[index + 1 :])
    kind: Any = type(value)
    if attrs.has(kind) and attrs.fields(kind):
        names = [a.name for a in attrs.fields(kind)]
        name = names[draw(len(names))]
        return replaced(value, name, spoil(getattr(value, name), draw))
    return JUNK[draw(len(JUNK))]


@settings(
    max_examples=draws(120, fuzz=300),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(programs(), st.data())
def test_nothing_in_memory_makes_it_raise(program: Program, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        spoilt = spoil(program, lambda n: data.draw(st.integers(0, n - 1)))
        if isinstance(spoilt, Program):
            program = spoilt
    for diagnostic in verify(program):
        assert isinstance(diagnostic, Diagnostic)


@pytest.mark.parametrize("field", [a.name for a in attrs.fields(Program)])
@pytest.mark.parametrize("junk", JUNK, ids=lambda junk: type(junk).__name__)
def test_no_field_of_a_program_makes_it_raise(field: str, junk: object) -> None:
    program = replaced(Program(), field, junk)
    assert isinstance(program, Program)
    assert isinstance(verify(program), tuple)


@pytest.mark.parametrize(
    "line",
    [
        None,
        "free %x",
        Input(name="x", type=tensor("f32", ())),
        FreeLine(buffer=[]),  # type: ignore[arg-type]
        AllocateLine(result={}, type=tensor("f32", ())),  # type: ignore[arg-type]
        AllocateLine(result="a", type=OpaqueType()),  # type: ignore[arg-type]
        CommentLine(text=3),  # type: ignore[arg-type]
        CommentLine(text="", provenance="x"),  # type: ignore[arg-type]
        SymbolDefinitionLine(symbol="u0", source=None),  # type: ignore[arg-type]
        AssertScalarLine(condition="x"),  # type: ignore[arg-type]
        AssertScalarLine(condition=Operation("add", (1, 2))),  # type: ignore[arg-type]
    ],
    ids=repr,
)
def test_malformed_lines_are_reported_once(line: object) -> None:
    program = Program(lines=(line,))  # type: ignore[arg-type]
    assert [d.code for d in verify(program)] == [Code.MALFORMED]


def test_a_malformed_part_is_reported_with_its_place() -> None:
    bad = AllocateLine(result="a", type="f32[8]", workspace=3)  # type: ignore[arg-type]
    found = verify(Program(lines=(CommentLine(text=""), bad)))
    assert [(d.path, d.message) for d in found] == [
        (("lines", 1), "malformed allocate: type is str, not TensorType"),
        (("lines", 1), "malformed allocate: workspace is int, not ZeroMode or None"),
    ]


def test_results_of_a_malformed_line_may_be_used() -> None:
    bad = AllocateLine(result="a", type=tensor("f32", ()), workspace=3)  # type: ignore[arg-type]
    program = Program(lines=(bad, FreeLine(buffer="a")))
    assert [d.code for d in verify(program)] == [Code.MALFORMED]


def test_shared_parts_of_an_expression_cost_once() -> None:
    size: Expr = Symbol("s0")
    for op in [ExprOp.ADD, ExprOp.MAX, ExprOp.MUL] * 30:
        size = Operation(op, (size, size))
    b = ProgramBuilder()
    b.input(tensor("i64", ()), name="x")
    b.define_symbol("s0", 3)
    buffer = b.allocate(tensor("f32", (size,)))
    view = b.reinterpret(buffer, tensor("f32", (size,)))
    b.assert_size_stride(view, (size,), (1,)).free(view, buffer)
    assert verify(b.build()) == ()


def test_views_with_shared_parts_are_compared_in_linear_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An overlap of views is looked for without a walk over each path of an expression."""
    comparisons = itertools.count()
    compare = Operation.__eq__

    def counted(self: Operation, other: object) -> bool:
        if next(comparisons) > 10_000:
            # A traceback would print the expression, path by path.
            pytest.fail("equal parts are compared again and again", pytrace=False)
        return compare(self, other)

    def shared() -> Expr:
        part: Expr = Symbol("s0")
        for _ in range(60):
            part = Operation(ExprOp.MAX, (part, part))
        return part

    b = ProgramBuilder()
    b.input(tensor("i64", ()), name="x")
    b.define_symbol("s0", 3)
    buffer = b.allocate(tensor("f32", (64,)))
    views = [
        b.reinterpret(
            buffer, tensor("f32", (shared(),), stride=(shared(),), offset=shared())
        )
        for _ in range(2)
    ]
    writes = BufferParameter("p", DType.F32, Access.WRITE)
    kernel = KernelDefinitionLine(
        name="k",
        language=Language.TRITON,
        parameters=(writes, evolve(writes, name="q")),
        grid=(1,),
        entry="k",
        source="",
    )
    b.call(b.kernel(kernel), *views).free(*views, buffer)
    program = b.build()
    monkeypatch.setattr(Operation, "__eq__", counted)
    codes = [diagnostic.code for diagnostic in verify(program)]
    assert codes == []


def test_deep_data_is_refused() -> None:
    condition: Expr = 1
    argument: object = 1
    type: ValueType = OpaqueType()
    for _ in range(100_000):
        condition = Operation(ExprOp.NOT, (condition,))
        argument = (argument,)
        type = TupleType((type,))
    lines = (
        AssertScalarLine(condition=condition),
        ExternKernelLine(operator="aten.f.default", arguments=(argument,)),  # type: ignore[arg-type]
        ExternKernelLine(operator="aten.g.default", result="r", type=type),
    )
    for line in lines:
        (diagnostic,) = verify(Program(lines=(line,)))
        assert diagnostic.code in (Code.EXPRESSION_DEPTH, Code.MALFORMED)


def test_an_expression_that_is_a_part_of_itself_is_refused() -> None:
    cyclic = Operation(ExprOp.NOT, (1,))
    object.__setattr__(cyclic, "args", (Operation(ExprOp.NEG, (cyclic,)),))
    program = Program(lines=(AssertScalarLine(condition=cyclic),))
    assert [d.code for d in verify(program)] == [Code.EXPRESSION_DEPTH]


def test_a_fault_of_the_verifier_is_not_reported_as_one_of_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(state: object, name: str) -> None:
        raise AttributeError("a fault of ours")

    monkeypatch.setattr("wrapperir.verify.lifetimes.use", fail)
    with pytest.raises(AttributeError, match="a fault of ours"):
        verify(Program(lines=(FreeLine(buffer="x"),)))


def calls_of(program: Program) -> int:
    """Count the Python calls that verifying takes: a clock that does not jitter."""
    count = 0

    def profile(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        verify(program)
    finally:
        sys.setprofile(None)
    return count


def _valid(n: int) -> Program:
    b = ProgramBuilder()
    x = b.input(tensor("f32", (Symbol("s0"), 8)))
    b.symbol("s0", 4)
    for _ in range(n):
        y = b.extern("aten.relu.default", x, type=tensor("f32", (Symbol("s0"), 8)))
        view = b.reinterpret(y, tensor("f32", (Symbol("s0") * 8,)))
        b.free(y, view)
    return b.build()


def _undefined(n: int) -> Program:
    return Program(lines=tuple(FreeLine(buffer=f"missing{i}") for i in range(n)))


def _undefined_symbols(n: int) -> Program:
    conditions = (Symbol(f"missing{i}") for i in range(n))
    return Program(lines=tuple(AssertScalarLine(condition=c) for c in conditions))


def _leaking(n: int) -> Program:
    type = tensor("f32", (2,))
    return Program(lines=tuple(AllocateLine(result=f"a{i}", type=type) for i in range(n)))


def _backwards(n: int) -> Program:
    type = tensor("f32", (2,))
    views = [
        ReinterpretLine(result=f"v{i}", source=f"v{i + 1}", type=type) for i in range(n)
    ]
    return Program(lines=tuple(views))


def _one_wide_call(n: int) -> Program:
    b = ProgramBuilder()
    x = b.input(tensor("f32", (2,)), mutated=True)
    arguments = [BufferRef(x.name)] * n
    b.extern_out("aten.f.default", tuple(arguments), writes=[x] * n)
    return b.build()


@pytest.mark.parametrize(
    "make",
    [_valid, _undefined, _undefined_symbols, _leaking, _backwards, _one_wide_call],
)
def test_cost_grows_with_length(make: Callable[[int], Program]) -> None:
    small, large = calls_of(make(200)), calls_of(make(1600))
    assert large <= 8.5 * small


@settings(
    max_examples=draws(80, fuzz=200), deadline=None, suppress_health_check=list(HealthCheck)
)
@given(arbitrary_programs)
def test_arbitrary_programs_are_verified(program: Program) -> None:
    diagnostics = verify(program)
    assert Code.MALFORMED not in {d.code for d in diagnostics}
