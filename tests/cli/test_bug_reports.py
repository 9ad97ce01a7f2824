"""Bug reports of the command line."""

import json
import shlex
from pathlib import Path

import pytest
import torch

from tests.cli.files import invoke
from wrapperir.emit import Artifact
from wrapperir.ir import Program
from wrapperir_python.emitter import PythonEmitter

OFFER = "--bug-report DIR writes a folder, without tensors, to report this with"


@pytest.fixture(autouse=True)
def no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WRAPPERIR_BUG_REPORT", raising=False)


@pytest.fixture
def failing_emitter(monkeypatch: pytest.MonkeyPatch) -> None:
    def emit(self: PythonEmitter, program: Program) -> Artifact:
        raise KeyError("size")

    monkeypatch.setattr(PythonEmitter, "emit", emit)


@pytest.mark.usefixtures("folder", "failing_emitter")
def test_an_error_that_may_be_ours_offers_a_report() -> None:
    for command in (("run", "add.wir", "--emitter", "python"), ("emit", "add.wir")):
        result = invoke(*command)
        assert result.exit_code == 1
        assert "WIR711" in result.stderr
        assert result.stderr.endswith(f"wrapperir: {OFFER}\n")


def test_an_error_of_the_users_does_not(folder: Path) -> None:
    (folder / "broken.wir").write_text("wrapperir 1\n")
    for command in (("opt", "broken.wir"), ("opt", "add.wir", "--pass", "no_such")):
        result = invoke(*command)
        assert result.exit_code == 1
        assert "--bug-report" not in result.stderr


@pytest.mark.usefixtures("failing_emitter")
def test_a_report_has_the_program_and_the_command(folder: Path) -> None:
    words = ("run", "add.wir", "--emitter", "python", "--pass", "memory", "--seed", "3")
    result = invoke(*words, "--bug-report", "reports")
    assert result.stderr.endswith("wrapperir: reports/bug-0 has a report of this\n")
    report = folder / "reports" / "bug-0"
    assert (report / "program.wir").read_text() == (folder / "add.wir").read_text()
    facts = json.loads((report / "report.json").read_text())
    command = "wrapperir run program.wir --seed 3 --emitter python --pass memory"
    assert shlex.join(facts["command"]) == command
    assert command in (report / "README.md").read_text()
    assert "KeyError" in (report / "traceback.txt").read_text()
    assert not [path for path in report.iterdir() if path.suffix == ".pt"]


@pytest.mark.usefixtures("failing_emitter")
def test_the_command_of_a_report_repeats_the_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    invoke("run", "add.wir", "--emitter", "python", "--bug-report", "reports")
    monkeypatch.chdir(folder / "reports" / "bug-0")
    command = json.loads(Path("report.json").read_text())["command"]
    assert "WIR711" in invoke(*command[1:]).stderr


@pytest.mark.usefixtures("failing_emitter")
def test_files_of_tensors_are_copied_if_the_user_asks(folder: Path) -> None:
    words = ("run", "add.wir", "--emitter", "python", "--inputs", "inputs.pt")
    for number, more in enumerate(((), ("--bug-report-data",))):
        invoke(*words, "--bug-report", "reports", *more)
        report = folder / "reports" / f"bug-{number}"
        facts = json.loads((report / "report.json").read_text())
        assert facts["inputs"][0]["size"] == ["3", "4"]
        assert (report / "inputs.pt").exists() == bool(more)
    (values,) = torch.load(report / "inputs.pt")
    assert values.equal(torch.ones(3, 4))


def test_a_model_is_reported_as_its_program(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WRAPPERIR_BUG_REPORT", "reports")

    def emit(self: PythonEmitter, program: Program) -> Artifact:
        raise KeyError("size")

    monkeypatch.setattr(PythonEmitter, "emit", emit)
    result = invoke("compile", "model.py:scale", "-o", "out", "--frontend", "lowering")
    assert result.exit_code == 1
    report = folder / "reports" / "bug-0"
    facts = json.loads((report / "report.json").read_text())
    assert facts["command"] == ["wrapperir", "compile", "program.wir", "--output", "out"]
    assert (report / "program.wir").read_text().startswith("wrapperir 1")


@pytest.mark.usefixtures("folder")
def test_an_error_of_another_kind_is_reported_and_shown(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("size")

    monkeypatch.setattr("wrapperir.emit.emit_program", fail)
    with pytest.raises(KeyError):
        invoke("run", "add.wir", "--emitter", "python", "--bug-report", "reports")
    facts = json.loads((folder / "reports" / "bug-0" / "report.json").read_text())
    assert facts["error"] == {"type": "KeyError", "message": "'size'"}
