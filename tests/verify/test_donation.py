"""Donated inputs: what a program may and must do with memory that is given to it."""

import pytest

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.interp import interpret
from wrapperir.ir import BufferRef, DType, Input, Program, TensorType
from wrapperir.testing.inputs import example_inputs
from wrapperir.text import parse_program
from wrapperir.verify import verify


def codes(inputs: str, lines: str) -> list[Code]:
    text = f"wrapperir 1\n\nprogram @main({inputs}) {{\n{lines}\n}}\n"
    return [diagnostic.code for diagnostic in verify(parse_program(text))]


@pytest.mark.parametrize(
    "lines",
    [
        "  free %x\n  return",
        "  return %x",
        "  extern_kernel aten.neg_.default(%x) writes(%x)\n  return %x",
        "  %a = reuse %x as f16[2, 8]\n  return %a",
        "  %v = reinterpret %x as f32[4; offset 4]\n  free %x\n  return %v",
    ],
)
def test_it_is_the_programs_own(lines: str) -> None:
    assert codes("%x: donated f32[8]", lines) == []


def test_its_sizes_and_strides_are_counted() -> None:
    type = TensorType(dtype=DType.F32, size=(), stride=(0,))
    given = Input(name="x", type=type, donated=True)
    (found,) = verify(Program(inputs=(given,), outputs=(BufferRef("x"),)))
    assert found.code is Code.RANK_MISMATCH


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ("  return", Code.LEAK),
        ("  free %x\n  free %x\n  return", Code.DOUBLE_FREE),
        ("  %a = reuse %x as f32[9]\n  return %a", Code.REUSE_TOO_SMALL),
        ("  %v = reinterpret %x as f32[9]\n  free %x\n  return %v", Code.OUT_OF_BOUNDS),
    ],
)
def test_it_has_the_rules_of_a_buffer(lines: str, code: Code) -> None:
    assert codes("%x: donated f32[8]", lines) == [code]
    text = f"wrapperir 1\n\nprogram @main(%x: donated f32[8]) {{\n{lines}\n}}\n"
    program = parse_program(text)
    with pytest.raises(DiagnosticError):
        interpret(program, example_inputs(program), {})


def test_gaps_between_its_elements_are_not_its_own() -> None:
    given = "%x: donated f32[4, 2; stride 4, 1]"
    view = "  %a = reuse %x as {}\n  return %a"
    assert codes(given, view.format("f32[4, 2; stride 4, 1]")) == []
    for other in ("f32[14]", "f32[4, 2]", "i32[4, 2; stride 4, 1]"):
        assert codes(given, view.format(other)) == [Code.REUSE_INCOMPATIBLE]


@pytest.mark.parametrize("given", ["mutated donated f32[8]", "donated i64"])
def test_what_cannot_be_donated(given: str) -> None:
    assert codes(f"%x: {given}", "  return") == [Code.INVALID_DONATION]
