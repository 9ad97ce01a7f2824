"""Parts of programs in memory that are not what their fields declare are found."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from wrapperir.ir import (
    AllocateLine,
    AnyLine,
    AssertScalarLine,
    Block,
    BufferRef,
    CommentLine,
    ConditionalLine,
    DType,
    Expr,
    ExprOp,
    ExternKernelLine,
    FreeLine,
    Input,
    KernelCallLine,
    Line,
    Operation,
    Program,
    SubgraphCallLine,
    Symbol,
    TensorType,
    tensor,
)
from wrapperir.ir.well_formed import MAX_STEPS, MalformedPart, malformed_parts

F32 = tensor("f32", (2,))


def build(kind: Callable[..., Any], **fields: object) -> Any:
    """Return an object whose fields may hold anything."""
    return kind(**fields)


def parts_of(*lines: object) -> list[MalformedPart]:
    return malformed_parts(build(Program, lines=lines))


class Text(str):
    """A string of a subclass."""


class Whole(int):
    """An integer of a subclass."""


class OtherType(TensorType):
    """A type of a subclass."""


@pytest.mark.parametrize(
    "line",
    [
        FreeLine(buffer=Text("x")),
        AllocateLine(result="a", type=tensor("f32", (Whole(2),))),
        AllocateLine(result="a", type=tensor("f32", (Symbol("s0"), True))),
        AssertScalarLine(condition=float("nan")),
        CommentLine(text=DType.F32),
        AllocateLine(result="a", type=OtherType(dtype=DType.F32, size=(), stride=())),
        ExternKernelLine(operator="a.b.c", arguments=((), (1, ("x", None, DType.F32)))),
        ExternKernelLine(operator="a.b.c", keywords=(("k", (BufferRef("x"),)),)),
    ],
    ids=repr,
)
def test_subclasses_of_plain_types_and_truth_values_in_expressions_hold(
    line: AnyLine,
) -> None:
    assert parts_of(line) == []


@pytest.mark.parametrize(
    ("line", "field", "found", "expected"),
    [
        (build(FreeLine, buffer=[]), "buffer", "list", "str"),
        (
            Line(),
            "lines[0]",
            "Line",
            "AllocateLine or ",
        ),
        (
            AllocateLine(result="a", type=build(OtherType, dtype=3, size=(), stride=())),
            "type.dtype",
            "int",
            "DType",
        ),
        (F32, "lines[0]", "TensorType", "AllocateLine or "),
        (build(AllocateLine, result="a", type="f32"), "type", "str", "TensorType"),
        (
            build(
                AllocateLine,
                result="a",
                type=attrs.evolve(F32, dtype="f32"),  # type: ignore[arg-type]
            ),
            "type.dtype",
            "str",
            "DType",
        ),
        (
            build(KernelCallLine, kernel="k", arguments=(BufferRef("a"), "b")),
            "arguments[1]",
            "str",
            "BufferRef or int or float or Symbol or Operation",
        ),
        (
            build(KernelCallLine, kernel="k", arguments=(), stream=True),
            "stream",
            "bool",
            "int",
        ),
        (
            build(ExternKernelLine, operator="o", keywords=(("k",),)),
            "keywords[0][1]",
            "nothing",
            "BufferRef or ",
        ),
        (
            build(ExternKernelLine, operator="o", keywords=(("k", 1, 2),)),
            "keywords[0][2]",
            "int",
            "nothing",
        ),
        (
            build(AssertScalarLine, condition=Operation("add", (1, 2))),  # type: ignore[arg-type]
            "condition.op",
            "str",
            "ExprOp",
        ),
        (
            AssertScalarLine(condition=-(10**5000)),
            "condition",
            "a longer one",
            "an integer of at most 4000 digits",
        ),
        (object.__new__(FreeLine), "buffer", "nothing", "str"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_parts_are_found_where_they_are(
    line: object, field: str, found: str, expected: str
) -> None:
    part = parts_of(line)[-1]
    assert (part.field, part.found) == (field, found)
    assert part.expected.startswith(expected)
    assert part.path == (("lines", 0) if part.owner is type(line) else ())


def test_every_malformed_part_is_found_at_its_line() -> None:
    body = build(Block, lines=(FreeLine(buffer="x"), build(FreeLine, buffer=3)))
    lines = (
        build(AllocateLine, result=1, type=2),
        SubgraphCallLine(results=(), name="b", operands=(), body=body),
    )
    item = build(Input, name="x", type=None)
    found = malformed_parts(Program(inputs=(item,), lines=lines))
    assert {(part.path, part.field) for part in found} == {
        (("inputs", 0), "type"),
        (("lines", 0), "result"),
        (("lines", 0), "type"),
        (("lines", 1, "body", "lines", 1), "buffer"),
    }


def test_what_is_no_program_is_malformed() -> None:
    (part,) = malformed_parts(build(lambda: 3))
    assert (part.path, part.found, part.expected) == ((), "int", "Program")


def test_a_part_is_checked_for_each_type_that_it_has_to_be_of() -> None:
    shared: Any = ("x",)  # an argument, and not a size
    type = TensorType(dtype=DType.F32, size=shared, stride=(1,))
    call = ExternKernelLine(operator="o", arguments=(shared, shared))
    assert [part.field for part in parts_of(call, AllocateLine(result="a", type=type))] == [
        "type.size[0]"
    ]


def test_shared_and_cyclic_parts_cost_once() -> None:
    shared: Any = ()
    for _ in range(200):
        shared = (shared, shared)
    assert parts_of(ExternKernelLine(operator="o", arguments=(shared,))) == []
    block = Block()
    for _ in range(60):
        line = ConditionalLine(
            results=(), predicate=1, operands=(), on_true=block, on_false=block
        )
        block = Block(lines=(line,))
    assert parts_of(*block.lines) == []
    cyclic = Operation(ExprOp.NOT, (1,))
    object.__setattr__(cyclic, "args", (cyclic,))
    assert parts_of(AssertScalarLine(condition=cyclic)) == []


def test_deep_parts_are_malformed() -> None:
    condition: Expr = 1
    for _ in range(100_000):
        condition = Operation(ExprOp.NOT, (condition,))
    (part,) = parts_of(AssertScalarLine(condition=condition))
    assert part.expected == f"nested at most {MAX_STEPS} deep"


def test_only_so_many_parts_are_returned() -> None:
    assert len(parts_of(*[None] * 1000)) == 100
