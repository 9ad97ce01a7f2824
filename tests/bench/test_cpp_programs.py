"""The sweep of generated programs finds where an emitter differs."""

from collections import Counter

import pytest
from attrs import evolve

from bench.sweep import cpp_programs
from bench.sweep.cpp_programs import find_fault, format_table
from wrapperir import format_program, parse_program
from wrapperir.emit import Artifact
from wrapperir.ir import ExternKernelLine, Program
from wrapperir_cpp.emitter import CppEmitter

PROGRAM = parse_program("""\
wrapperir 1

program @main(%x: f32[4]) {
  %a = extern_kernel aten.neg.default(%x) : f32[4]
  return %a
}
""")


class WrongEmitter(CppEmitter):
    """Emits another operator."""

    def emit(self, program: Program) -> Artifact:
        """Return the artifact of another program."""
        (line,) = program.lines
        assert isinstance(line, ExternKernelLine)
        other = evolve(line, operator="aten.abs.default")
        return super().emit(evolve(program, lines=(other,)))


class FailingEmitter(CppEmitter):
    """Emits nothing."""

    def emit(self, program: Program) -> Artifact:
        """Fail."""
        raise RecursionError("too deep")


def test_what_emitters_agree_on_is_no_fault() -> None:
    assert find_fault(PROGRAM, Counter()) is None


@pytest.mark.parametrize(
    ("emitter", "message"),
    [(WrongEmitter, "other values"), (FailingEmitter, "RecursionError: too deep")],
)
def test_what_is_wrong_is_found(
    emitter: type[CppEmitter], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpp_programs, "CppEmitter", emitter)
    found = find_fault(PROGRAM, Counter())
    assert found is not None
    assert message in found
    assert found.endswith(format_program(PROGRAM))


def test_the_table_adds_batches_up() -> None:
    page = format_table(
        [
            {"name": "0", "programs": 200, "faults": 0, "free": 7, "fault": None},
            {"name": "1", "programs": 100, "free": 2, "comment": 1, "fault": None},
        ]
    )
    assert "300 generated programs of 10 lines" in page
    assert "0 faults" in page
    assert "| `free` | 9 |" in page
