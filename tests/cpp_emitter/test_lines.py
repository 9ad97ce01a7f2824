"""One line in, its C++ out, for each line kind; and each is executed."""

import re

import pytest
import torch

from tests.cpp_emitter.line_cases import CASES, HEADER
from tests.cpp_emitter.running import assert_same
from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit import Value
from wrapperir.interp import interpret
from wrapperir.ir import Line, Program
from wrapperir.ir.blocks import walk_lines
from wrapperir.text import parse_program
from wrapperir.verify import verify
from wrapperir_cpp.emitter import CppEmitter

PINNED = "allocate, pinned"  # needs a GPU's driver


def body_of(program: Program) -> str:
    """Return what the emitter writes for the lines and outputs of a program."""
    text = CppEmitter().emit(program).files["program.cpp"]
    assert isinstance(text, str)
    found = re.search(
        r"\n  num::check_range\(c\.s0,[^\n]+\n(.*?)\}\n\nconstexpr", text, re.DOTALL
    )
    assert found is not None, text
    return "\n".join(line[2:] for line in found[1].splitlines())


@pytest.mark.parametrize("name", CASES)
def test_a_line_becomes_this_cpp(name: str) -> None:
    case = CASES[name]
    program = parse_program(case.text)
    assert verify(program) == ()
    assert body_of(program) == case.expected


def inputs(rows: int) -> list[Value]:
    x = torch.arange(rows * 8, dtype=torch.float32).reshape(rows, 8) - 9
    return [x, torch.full((8, 8), 2.0), 3, torch.tensor(True)]


@pytest.mark.parametrize("name", [name for name in CASES if name != PINNED])
def test_a_line_runs_as_it_is_interpreted(name: str) -> None:
    program = parse_program(CASES[name].text)
    constants = {"fc.weight": torch.eye(8)}
    emitter = CppEmitter()
    call = emitter.load(emitter.emit(program), constants)
    for rows in (2, 4, 4):
        ours, theirs = inputs(rows), inputs(rows)
        given = list(ours)
        outputs = call(given)
        assert given == []
        assert_same(outputs, interpret(program, theirs, constants))
        assert_same(ours, theirs)


def test_every_line_kind_has_a_case() -> None:
    covered: set[type[Line]] = set()
    for case in CASES.values():
        program = parse_program(case.text)
        covered |= {type(line) for line in program.definitions}
        covered |= {type(line) for line in walk_lines(program.lines)}
    assert covered == CppEmitter.support.lines


TRITON = HEADER.replace(
    "multi_kernel @either",
    """\
kernel_definition @double triton(p: read_write f32*) {
  grid = (1, 1, 1)
  entry = triton_
  source {
    | @triton.jit
    | def triton_(p): pass
  }
}

multi_kernel @either""",
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            TRITON + "  kernel_call @double(%x)\n  return\n}",
            "kernels in triton do not run on cpu",
        ),
        (
            TRITON.replace("triton(p", "opaque(p").replace("  grid = (1, 1, 1)\n", "")
            + "  kernel_call @double(%x)\n  return\n}",
            "kernels in opaque do not run on cpu",
        ),
        (
            HEADER + "  %a = allocate f32[8] {space = comm}\n  free %a\n  return\n}",
            "memory space 'comm' is unknown",
        ),
        (
            HEADER + "  %a = allocate f32[8] {layout = acme.tiled(16)}\n"
            "  free %a\n  return\n}",
            "vendor layout 'acme.tiled' is unknown",
        ),
        (
            HEADER + "  %a = allocate f32[8] {pinned, align = 128}\n  free %a\n  return\n}",
            "no alignment beyond 64 bytes",
        ),
        (
            HEADER + "  kernel_call @fill(%x, 8) @cuda:0\n  return\n}",
            "kernels in cpp do not run on cuda",
        ),
    ],
)
def test_what_cannot_be_expressed_is_refused(text: str, message: str) -> None:
    program = parse_program(text)
    with pytest.raises(DiagnosticError, match=message) as caught:
        CppEmitter().emit(program)
    assert {d.code.value for d in caught.value.diagnostics} == {"WIR705"}
