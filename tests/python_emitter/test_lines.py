"""One line in, one string out, for each line kind; and each is executed."""

import re

import pytest
import torch

from tests.python_emitter.line_cases import CASES, Case
from tests.python_emitter.running import assert_same
from wrapperir.interp import interpret
from wrapperir.ir import Line, Program
from wrapperir.ir.blocks import walk_lines
from wrapperir.text import parse_program
from wrapperir.verify import verify
from wrapperir_python.emitter import PythonEmitter

RANDOM = "a reserved word"  # its case draws random numbers


def body_of(program: Program) -> str:
    """Return what the emitter writes for the lines of a program."""
    text = PythonEmitter(trusts_inputs=True).emit(program).files["program.py"]
    assert isinstance(text, str)
    text = text.removesuffix("\n\ncall.choices = kernel_choices.choices\n")
    found = re.search(
        r"\n    if not \(s0 >= 2 and [^\n]+\n(.*)    return \(.*\)\n\Z", text, re.DOTALL
    )
    assert found is not None, text
    return "\n".join(line[4:] for line in found[1].splitlines())


@pytest.mark.parametrize("name", CASES)
def test_a_line_becomes_this_python(name: str) -> None:
    case = CASES[name]
    program = parse_program(case.text)
    assert verify(program) == ()
    assert body_of(program) == case.expected


def inputs(rows: int) -> list[torch.Tensor | int]:
    x = torch.arange(rows * 8, dtype=torch.float32).reshape(rows, 8) - 9
    return [x, torch.full((8, 8), 2.0), 5, torch.tensor(True)]


@pytest.mark.parametrize("name", CASES)
def test_a_line_runs_as_it_is_interpreted(name: str) -> None:
    program = parse_program(CASES[name].text)
    constants = {"fc.weight": torch.eye(8)}
    emitter = PythonEmitter()
    call = emitter.load(emitter.emit(program), constants)
    for rows in (2, 4, 4):
        ours, theirs = inputs(rows), inputs(rows)
        args = list(ours)
        outputs = call(args)  # type: ignore[arg-type]
        assert args == []
        wanted = interpret(program, theirs, constants)
        if RANDOM not in name:
            assert_same(outputs, wanted)
            assert_same(ours, theirs)


def test_every_line_kind_has_a_case() -> None:
    covered: set[type[Line]] = set()
    for case in CASES.values():
        program = parse_program(case.text)
        covered |= {type(line) for line in program.definitions}
        covered |= {type(line) for line in walk_lines(program.lines)}
    assert covered == PythonEmitter.support.lines


def test_a_symbol_out_of_its_range_is_a_fault() -> None:
    program = parse_program(Case("%r = allocate u8[1] workspace(zero_on_call)", "").text)
    emitter = PythonEmitter()
    call = emitter.load(emitter.emit(program), {"fc.weight": torch.eye(8)})
    with pytest.raises(RuntimeError, match=r"s0 >= 2 and s0 <= 100 but received 1"):
        call(inputs(1))  # type: ignore[arg-type]
