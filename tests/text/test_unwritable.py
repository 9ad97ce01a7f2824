"""A program in memory that no text can spell is refused with a code and a path."""

from collections.abc import Callable

import attrs
import pytest

from wrapperir.diagnostics import Code, DiagnosticError, LinePath
from wrapperir.ir import (
    CPU,
    AllocateLine,
    AllocatePoolLine,
    AssertScalarLine,
    Block,
    BodyLine,
    BufferRef,
    CommentLine,
    ConditionalLine,
    ConstantInput,
    Device,
    DType,
    EventType,
    Expr,
    ExprOp,
    ExternKernelLine,
    FreeLine,
    Input,
    KernelCallLine,
    KernelDefinitionLine,
    Line,
    OpaqueType,
    Operation,
    PlaceLine,
    PoolType,
    Program,
    Provenance,
    RecordEventLine,
    ReinterpretLine,
    ScalarType,
    SubgraphCallLine,
    Symbol,
    TorchEnum,
    TupleType,
    ValueType,
    WaitEventLine,
    tensor,
)
from wrapperir.text import (
    format_expr,
    format_json,
    format_line,
    format_program,
    format_type,
)

from .samples import KERNEL


def nested(depth: int) -> Expr:
    expr: Expr = Symbol("s")
    for _ in range(depth):
        expr = Operation(ExprOp.NEG, (expr,))
    return expr


def tuple_type(depth: int) -> ValueType:
    type: ValueType = OpaqueType()
    for _ in range(depth):
        type = TupleType((type,))
    return type


def blocks(depth: int) -> BodyLine:
    line: BodyLine = FreeLine(buffer="a")
    for _ in range(depth):
        line = SubgraphCallLine(
            results=(), name="b", operands=(), body=Block(lines=(line,))
        )
    return line


def allocate(**changes: object) -> BodyLine:
    return AllocateLine(result="a", type=attrs.evolve(tensor("f32", (4,)), **changes))  # type: ignore[arg-type]


def condition(expr: Expr) -> BodyLine:
    return AssertScalarLine(condition=expr)


LINES: dict[str, tuple[BodyLine, Code]] = {
    "quote": (FreeLine(buffer='a"b'), Code.BAD_NAME),
    "newline": (FreeLine(buffer="a\nfree %b"), Code.BAD_NAME),
    "empty name": (FreeLine(buffer=""), Code.BAD_NAME),
    "long name": (FreeLine(buffer="a" * 256), Code.BAD_NAME),
    "non-ASCII": (FreeLine(buffer="é"), Code.BAD_NAME),
    "trailing newline": (FreeLine(buffer="a\n"), Code.BAD_NAME),
    "operator": (ExternKernelLine(operator="mm"), Code.BAD_NAME),
    "operator with call": (ExternKernelLine(operator="a.b()"), Code.BAD_NAME),
    "keyword": (
        ExternKernelLine(operator="a.b", keywords=(("a b", 1),)),
        Code.BAD_NAME,
    ),
    "torch enum": (
        ExternKernelLine(operator="a.b", arguments=(TorchEnum("min", "x"),)),
        Code.BAD_NAME,
    ),
    "device": (
        KernelCallLine(kernel="k", arguments=(), device=Device("c:d")),
        Code.BAD_NAME,
    ),
    "device index": (
        KernelCallLine(kernel="k", arguments=(), device=Device("cuda", -1)),
        Code.BAD_NUMBER,
    ),
    "space": (allocate(space="a b"), Code.BAD_NAME),
    "scalar's allocation": (
        AllocateLine(result="a", type=ScalarType(DType.F32)),  # type: ignore[arg-type]
        Code.UNWRITABLE_VALUE,
    ),
    "pool's view": (
        ReinterpretLine(result="a", source="b", type=PoolType(size=4)),  # type: ignore[arg-type]
        Code.UNWRITABLE_VALUE,
    ),
    "pool's type": (
        AllocatePoolLine(result="a", type=tensor("f32", (4,))),  # type: ignore[arg-type]
        Code.UNWRITABLE_VALUE,
    ),
    "placed type": (
        PlaceLine(result="a", type=EventType(CPU), pool="p", offset=0),  # type: ignore[arg-type]
        Code.UNWRITABLE_VALUE,
    ),
    "offset": (
        PlaceLine(result="a", type=PoolType(size=4), pool="p", offset="0"),  # type: ignore[arg-type]
        Code.UNWRITABLE_VALUE,
    ),
    "pool's name": (
        PlaceLine(result="a", type=PoolType(size=4), pool="a b", offset=0),
        Code.BAD_NAME,
    ),
    "pool's space": (
        AllocatePoolLine(result="a", type=PoolType(size=4, space="a b")),
        Code.BAD_NAME,
    ),
    "pool's size": (
        AllocatePoolLine(result="a", type=PoolType(size=nested(101))),
        Code.TOO_DEEP,
    ),
    "event's device": (RecordEventLine(result="a", device=Device("")), Code.BAD_NAME),
    "event's stream": (WaitEventLine(event="a", stream=10**300), Code.BAD_NUMBER),
    "reserved symbol": (condition(Symbol("true")), Code.BAD_NAME),
    "symbol": (condition(Symbol("1")), Code.BAD_NAME),
    "arity": (condition(Operation(ExprOp.ADD, (1,))), Code.BAD_ARITY),
    "huge integer": (condition(10**300), Code.BAD_NUMBER),
    "negative huge integer": (condition(-(10**5000)), Code.BAD_NUMBER),
    "expression depth": (condition(nested(101)), Code.TOO_DEEP),
    "hopeless depth": (condition(nested(50_000)), Code.TOO_DEEP),
    "rank": (allocate(size=(1,) * 65, stride=(1,) * 65), Code.TOO_DEEP),
    "block depth": (blocks(65), Code.TOO_DEEP),
    "surrogate": (CommentLine(text="\ud800"), Code.BAD_STRING),
    "origin": (
        FreeLine(buffer="a", provenance=Provenance(origins=("a b",))),
        Code.BAD_NAME,
    ),
    "pass": (
        FreeLine(buffer="a", provenance=Provenance(passes=("a.b",))),
        Code.BAD_NAME,
    ),
    "wrong argument": (
        ExternKernelLine(operator="a.b", arguments=({},)),  # type: ignore[arg-type]
        Code.UNWRITABLE_VALUE,
    ),
    "wrong type": (AllocateLine(result="a", type="f32[4]"), Code.UNWRITABLE_VALUE),  # type: ignore[arg-type]
    "wrong name": (FreeLine(buffer=None), Code.UNWRITABLE_VALUE),  # type: ignore[arg-type]
    "wrong expression": (condition("s0"), Code.UNWRITABLE_VALUE),  # type: ignore[arg-type]
}


def refused(write: Callable[[], str]) -> tuple[Code, LinePath | None]:
    with pytest.raises(DiagnosticError) as caught:
        write()
    (diagnostic,) = caught.value.diagnostics
    return diagnostic.code, diagnostic.path


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("write", [format_program, format_json])
def test_line_is_refused(name: str, write: Callable[[Program], str]) -> None:
    line, code = LINES[name]
    program = Program(lines=(CommentLine(text="first"), line))
    found, path = refused(lambda: write(program))
    assert found is code
    assert path is not None
    assert path[:2] == ("lines", 1)
    assert refused(lambda: format_line(line))[0] is code


def test_path_leads_into_blocks() -> None:
    bad = Block(lines=(CommentLine(text=""), FreeLine(buffer="a b")))
    line = ConditionalLine(
        results=(), predicate=BufferRef("p"), operands=(), on_true=Block(), on_false=bad
    )
    program = Program(lines=(line,))
    _, path = refused(lambda: format_program(program))
    assert path == ("lines", 0, "on_false", "lines", 1)
    _, path = refused(lambda: format_json(program))
    assert path == ("lines", 0, "on_false", "lines", 1, "buffer")


F32 = tensor("f32", (4,))
PROGRAMS: dict[str, tuple[Program, LinePath]] = {
    "input": (Program(inputs=(Input(name="a b", type=F32),)), ("inputs", 0)),
    "constant": (
        Program(constants=(ConstantInput(name="a b", type=F32, key="k"),)),
        ("constants", 0),
    ),
    "definition": (
        Program(definitions=(KERNEL, attrs.evolve(KERNEL, entry="a b"))),
        ("definitions", 1),
    ),
    "source": (
        Program(definitions=(attrs.evolve(KERNEL, source="\ud800"),)),
        ("definitions", 0),
    ),
    "output": (Program(outputs=(BufferRef("a b"),)), ("outputs",)),
    "constant's type": (
        Program(constants=(ConstantInput(name="a", type=OpaqueType(), key="k"),)),  # type: ignore[arg-type]
        ("constants", 0),
    ),
    "tuple type": (
        Program(inputs=(Input(name="a", type=tuple_type(33)),)),
        ("inputs", 0),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("write", [format_program, format_json])
def test_program_is_refused(name: str, write: Callable[[Program], str]) -> None:
    program, path = PROGRAMS[name]
    _, found = refused(lambda: write(program))
    assert found is not None
    assert found[: len(path)] == path


def test_parts_are_refused() -> None:
    assert refused(lambda: format_expr(Symbol("a b"))) == (Code.BAD_NAME, None)
    assert refused(lambda: format_type(tuple_type(33))) == (Code.TOO_DEEP, None)


def test_kernel_source_needs_no_more_than_utf8() -> None:
    line = attrs.evolve(KERNEL, source="\x00\x0c\x1c\x85\u2028\U0001f600\r")
    assert isinstance(line, KernelDefinitionLine)
    assert isinstance(line, Line)
    assert "\u2028" in format_line(line)
