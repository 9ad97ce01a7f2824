"""``wrapperir compile`` of programs, from their text to a package, and for a device."""

from pathlib import Path

import pytest
import torch
from attrs import evolve

import wrapperir
from tests.cli.files import ADD, broken, invoke, run_process
from tests.emit.partition.partial_emitter import HOSTED, HostedEmitter
from wrapperir_python.emitter import PythonEmitter

X = torch.arange(12.0).view(3, 4)
EXPECTED = X + torch.arange(4.0)


def run_loaded(path: str) -> torch.Tensor:
    (y,) = wrapperir.load(path)(X)
    assert isinstance(y, torch.Tensor)
    return y


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("program", ["add.wir", "add.json", "-"])
def test_a_program_becomes_a_library_and_a_package(program: str) -> None:
    arguments = [program, "--emitter", "cpp", "--constants", "weights.pt", "-o", "out"]
    done = invoke("compile", *arguments, input=ADD if program == "-" else None)
    assert done.exit_code == 0, done.output
    assert "out: main: 4 lines, 0 kernels, 1 constant" in done.stdout
    assert torch.equal(run_loaded("out"), EXPECTED)
    assert invoke("package", "out", "add.pt2").exit_code == 0
    assert torch.equal(run_loaded("add.pt2"), EXPECTED)


@pytest.mark.parametrize("given", ["out", "out/program.wir", "out/program.json"])
def test_constants_are_found_beside_what_compile_wrote(folder: Path, given: str) -> None:
    first = invoke("compile", "add.wir", "--constants", "weights.pt", "-o", "out")
    assert first.exit_code == 0, first.output
    done = invoke("compile", given, "--pass", "remove_dead_lines", "-o", "again")
    assert done.exit_code == 0, done.output
    assert "%unused" not in (folder / "again" / "program.wir").read_text()
    assert torch.equal(run_loaded("again"), EXPECTED)


def test_constants_of_other_programs_are_not_taken(folder: Path) -> None:
    first = invoke("compile", "add.wir", "--constants", "weights.pt", "-o", "out")
    assert first.exit_code == 0, first.output
    (folder / "out" / "add.wir").write_text(ADD)
    done = invoke("compile", "out/add.wir", "-o", "again")
    assert done.exit_code == 1
    assert "add.wir:5:26: error WIR707: no tensor was given for constant" in done.stderr
    assert not (folder / "again").exists()


def test_errors_are_shown_in_the_program(folder: Path) -> None:
    (folder / "bad.wir").write_text(broken())
    done = invoke("compile", "bad.wir", "--constants", "weights.pt", "-o", "out")
    assert done.exit_code == 1
    assert "bad.wir:9:8: error WIR103: nothing defines %missing" in done.stderr


@pytest.mark.usefixtures("folder")
def test_constants_are_for_programs() -> None:
    done = invoke("compile", "model.py:Model", "--constants", "weights.pt", "-o", "out")
    assert done.exit_code == 2
    assert "--constants is for a program" in done.stderr


@pytest.mark.slow
def test_without_a_compiler_inductor_s_error_is_explained(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")  # Inductor reads it once a process
    arguments = ["model.py:scale", "--frontend", "inductor", "-o", "out"]
    done = run_process("compile", *arguments, folder=folder)
    assert done.returncode == 1
    assert b"error WIR709: there is no C++ compiler" in done.stderr
    assert b"hint: install one, such as g++, or set CXX to it" in done.stderr


def test_a_model_for_a_device_without_kernels_is_refused_with_the_cause(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = frozenset({HOSTED})
    support = evolve(PythonEmitter.support, devices=device, hosted=device)
    monkeypatch.setattr(
        "wrapperir.emit.pipeline.find_emitter", lambda name: HostedEmitter(support=support)
    )
    result = invoke("compile", "model.py:scale", "--frontend", "export", "-o", "out")
    assert result.exit_code == 1
    assert "WIR704: the hosted emitter is given no program for acme" in result.stderr
    assert "no renderer writes kernels for acme" in result.stderr
