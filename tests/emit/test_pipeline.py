from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import (
    Artifact,
    Emitter,
    Loaded,
    Support,
    compile_program,
    read_artifact,
)
from wrapperir.ir import CommentLine, Program, tensor
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.text import format_program, parse_program
from wrapperir.verify import verify

PLAIN = tensor("f32", (2,))


class Recorder(Emitter):
    """Keeps what it is given."""

    name = "recorder"

    def __init__(self, support: Support | None = None) -> None:
        self.support = support or Support()
        self.programs: list[Program] = []
        self.constants: list[str] = []

    def emit(self, program: Program) -> Artifact:
        self.programs.append(program)
        return Artifact(self.name, {"name.txt": program.name}, "name.txt")

    def load(self, artifact: Artifact, constants: Mapping[str, torch.Tensor]) -> Loaded:
        self.constants = sorted(constants)
        return tuple


def faulty() -> Program:
    builder = ProgramBuilder()
    x = builder.input(PLAIN, name="x")
    leaked = builder.allocate(PLAIN)
    builder.free(x, x)
    del leaked
    return builder.build()


def test_all_errors_of_the_verifier_are_raised_at_once() -> None:
    recorder = Recorder()
    with pytest.raises(DiagnosticError) as caught:
        compile_program(faulty(), emitter=recorder)
    assert len(caught.value.diagnostics) >= 2
    assert caught.value.diagnostics == tuple(
        d for d in verify(faulty()) if d.severity == "error"
    )
    assert recorder.programs == []


def unused() -> Program:
    builder = ProgramBuilder()
    x = builder.input(PLAIN, name="x")
    dead = builder.extern("aten.neg.default", x, type=PLAIN)
    builder.free(dead)
    return builder.build(builder.extern("aten.relu.default", x, type=PLAIN))


def test_passes_run_between_two_verifications() -> None:
    recorder = Recorder()
    compile_program(unused(), emitter=recorder, passes=["remove_dead_lines"])
    compile_program(unused(), emitter=recorder)
    shorter, whole = recorder.programs
    assert whole == unused()
    assert len(shorter.lines) < len(whole.lines)


def test_an_unknown_pass_is_a_diagnostic() -> None:
    with pytest.raises(DiagnosticError) as caught:
        compile_program(unused(), passes=["make_fast"])
    assert caught.value.diagnostics[0].code is Code.UNKNOWN_PASS


def test_what_the_emitter_lacks_is_found_before_it_emits() -> None:
    builder = ProgramBuilder()
    builder.comment("here")
    recorder = Recorder(Support(lines=frozenset()))
    with pytest.raises(DiagnosticError) as caught:
        compile_program(builder.build(), emitter=recorder)
    assert [d.code for d in caught.value.diagnostics] == [Code.UNSUPPORTED_LINE]
    assert recorder.programs == []
    assert CommentLine not in recorder.support.lines


def test_constants_reach_the_loader() -> None:
    builder = ProgramBuilder()
    weight = builder.constant(PLAIN, "w")
    program = builder.build(builder.extern("aten.neg.default", weight, type=PLAIN))
    recorder = Recorder()
    given = {"w": torch.zeros(2), "more": torch.zeros(1)}
    compile_program(program, emitter=recorder, constants=given)
    assert recorder.constants == ["more", "w"]


def test_the_program_and_what_is_emitted_are_dumped(tmp_path: Path) -> None:
    call = compile_program(unused(), dump_dir=tmp_path / "dump")
    text = (tmp_path / "dump" / "program.wir").read_text()
    assert text == format_program(unused())
    assert parse_program(text) == unused()
    artifact = read_artifact(tmp_path / "dump" / "python")
    assert artifact.entry == "program.py"
    (out,) = call([torch.tensor([-1.0, 2.0])])
    assert isinstance(out, torch.Tensor)
    assert out.tolist() == [0, 2]
    compile_program(unused(), dump_dir=tmp_path / "dump")  # again, over the older one


def test_an_unknown_emitter_is_a_diagnostic() -> None:
    with pytest.raises(DiagnosticError) as caught:
        compile_program(unused(), emitter="fortran")
    assert caught.value.diagnostics[0].code is Code.UNKNOWN_EMITTER
