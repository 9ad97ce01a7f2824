"""Bug reports of ``torch.compile``: what they hold, and that they repeat the failure."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from wrapperir.backend import cache_key, read_options
from wrapperir.emit import Artifact, Loaded, Value
from wrapperir.ir import ExternKernelLine, Program
from wrapperir.text import parse_program
from wrapperir_python.emitter import PythonEmitter

BOTH = pytest.mark.parametrize("frontend", ["inductor", "lowering"])


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WRAPPERIR_BUG_REPORT", raising=False)
    torch._dynamo.reset()


class Refusing(PythonEmitter):
    """Fails where it should emit code."""

    def emit(self, program: Program) -> Artifact:
        raise KeyError("size")


class Failing(PythonEmitter):
    """Emits programs that fail as they run."""

    def load(self, *args: Any) -> Loaded:
        def call(inputs: list[Value]) -> tuple[Value, ...]:
            raise OSError("no")

        return call


def product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.mm(x.sin(), w)


def inputs() -> list[torch.Tensor]:
    return [torch.full((4, 4), 12345.5), torch.full((4, 4), 12345.5)]


def failed(**options: Any) -> Exception:
    with torch.no_grad(), pytest.raises(Exception, match=r"WIR|no") as raised:
        torch.compile(product, backend="wrapperir", options=options)(*inputs())
    return raised.value


@BOTH
def test_a_failure_leaves_a_folder_without_tensors(frontend: str, tmp_path: Path) -> None:
    error = failed(frontend=frontend, emitter=Refusing(), bug_report=tmp_path)
    (folder,) = tmp_path.iterdir()
    assert f"{folder} has a report of this" in str(error)
    assert {path.name for path in folder.iterdir()} == {
        *("README.md", "program.wir", "repeat.py", "report.json", "traceback.txt")
    }
    facts = json.loads((folder / "report.json").read_text())
    assert [found["code"] for found in facts["error"]] == ["WIR711"]
    assert facts["inputs"][0]["size"] == ["4", "4"]
    assert facts["options"]["frontend"] == repr(frontend)
    assert facts["versions"]["torch"] == torch.__version__
    program = parse_program((folder / "program.wir").read_text())
    assert any(isinstance(line, ExternKernelLine) for line in program.lines)
    assert not any("12345.5" in path.read_text() for path in folder.iterdir())
    assert "The option 'emitter' is an object" in (folder / "repeat.py").read_text()


@pytest.mark.slow
@BOTH
def test_the_file_of_a_report_repeats_the_failure(frontend: str, tmp_path: Path) -> None:
    failed(frontend=frontend, passes=("no_such",), bug_report=tmp_path)
    assert not any(tmp_path.iterdir())  # the message says all
    failed(frontend=frontend, emitter="cpp", compile_graph=print, bug_report=tmp_path)
    (folder,) = tmp_path.iterdir()
    text = (folder / "repeat.py").read_text()
    assert 'backend="wrapperir"' in text
    done = subprocess.run(
        [sys.executable, "repeat.py"], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr  # compile_graph is an object
    again = text.replace("'emitter': 'cpp'", "'emitter': 'cpp', 'compile_graph': print")
    (folder / "repeat.py").write_text(again)
    done = subprocess.run(
        [sys.executable, "repeat.py"], cwd=folder, capture_output=True, text=True
    )
    assert "WIR705" in done.stderr


def test_a_failure_of_a_program_that_runs_is_reported(tmp_path: Path) -> None:
    options = {"frontend": "lowering", "emitter": Failing()}
    error = failed(**options, bug_report=tmp_path)
    (folder,) = tmp_path.iterdir()
    assert error.__notes__ == [f"wrapperir: {folder} has a report of this"]
    assert (folder / "program.wir").exists()


def test_tensors_are_there_if_the_user_asks_for_them(tmp_path: Path) -> None:
    options = {"frontend": "lowering", "bug_report": tmp_path, "bug_report_data": True}
    for number, emitter in enumerate((Refusing(), Failing())):
        failed(**options, emitter=emitter)
        values = torch.load(tmp_path / f"bug-{number}" / "inputs.pt")
        assert len(values) == 2
        torch._dynamo.reset()


def test_the_environment_names_the_folder_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = failed(frontend="lowering", emitter=Refusing())
    assert "options={'bug_report': 'DIR'} writes a folder" in str(error)
    torch._dynamo.reset()
    monkeypatch.setenv("WRAPPERIR_BUG_REPORT", str(tmp_path))
    failed(frontend="lowering", emitter=Refusing())
    assert (tmp_path / "bug-0" / "README.md").exists()


def test_a_folder_that_cannot_be_written_does_not_hide_the_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "reports"
    error = failed(frontend="lowering", emitter=Refusing(), bug_report=folder)
    assert "WIR711" in str(error)


def test_programs_are_not_kept_where_reports_are_asked_for(tmp_path: Path) -> None:
    assert cache_key(read_options({})) is not None
    assert cache_key(read_options({"bug_report": tmp_path})) is None


def test_a_fallback_is_reported_too(tmp_path: Path) -> None:
    options: dict[str, Any] = {"emitter": Refusing(), "fallback": "inductor"}
    options["bug_report"] = tmp_path
    compiled = torch.compile(product, backend="wrapperir", options=options)
    with torch.no_grad():
        torch.testing.assert_close(compiled(*inputs()), product(*inputs()))
    assert (tmp_path / "bug-0" / "program.wir").exists()
