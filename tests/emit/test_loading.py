"""What ``wrapperir.load`` loads, and what it refuses."""

import json
import shutil
from pathlib import Path

import pytest
import torch

import wrapperir
from tests.cli.files import invoke
from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError

MODEL = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(4.0))

    def forward(self, x):
        return x * self.weight, x.sum()


def example_inputs():
    return (torch.ones(2, 4),)
"""


def compiled(folder: Path, *options: str) -> Path:
    (folder / "model.py").write_text(MODEL)
    directory = folder / "what compile wrote"
    target = f"{folder / 'model.py'}:Model"
    done = invoke("compile", target, "-o", str(directory), *options)
    assert done.exit_code == 0, done.output
    return directory


@pytest.fixture(scope="module", params=["python", "cpp", "fx"])
def kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("kept"), "--emitter", request.param)


@pytest.fixture
def directory(kept: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(kept, tmp_path / kept.name))


def artifact_in(directory: Path) -> Path:
    (manifest,) = directory.glob("*/manifest.json")
    return manifest.parent


def assert_runs(path: Path) -> None:
    x = torch.randn(2, 4)
    y, total = wrapperir.load(path)(x)
    assert isinstance(y, torch.Tensor)
    assert isinstance(total, torch.Tensor)
    assert torch.equal(y, x * torch.arange(4.0))
    assert torch.equal(total, x.sum())


def refusal(path: Path) -> Diagnostic:
    with pytest.raises(DiagnosticError) as caught:
        wrapperir.load(path)
    (found,) = caught.value.diagnostics
    return found


def test_what_compile_wrote_is_loaded(kept: Path) -> None:
    assert_runs(kept)


def test_a_path_may_be_text(kept: Path) -> None:
    (y, _) = wrapperir.load(str(kept))(torch.ones(2, 4))
    assert isinstance(y, torch.Tensor)


def test_an_emitter_s_folder_stands_alone(kept: Path, tmp_path: Path) -> None:
    artifact = artifact_in(kept)
    copied = shutil.copytree(artifact, tmp_path / "elsewhere")
    assert_runs(Path(copied))


def test_what_cannot_be_written_is_loaded(directory: Path) -> None:
    for path in [*directory.rglob("*"), directory]:
        path.chmod(0o500 if path.is_dir() else 0o400)
    before = {path: path.stat().st_mtime_ns for path in directory.rglob("*")}
    assert_runs(directory)
    assert {path: path.stat().st_mtime_ns for path in directory.rglob("*")} == before
    for path in [directory, *directory.rglob("*")]:
        path.chmod(0o700)


def test_the_list_of_a_call_is_emptied(kept: Path) -> None:
    given: list[wrapperir.emit.Value] = [torch.ones(2, 4)]
    wrapperir.load(kept).call(given)
    assert given == []


def test_several_programs_are_named(directory: Path) -> None:
    """As a compiler may write that splits a function at what it cannot express."""
    manifest = directory / "wrapperir.json"
    facts = json.loads(manifest.read_text("utf-8"))
    (only,) = facts["programs"]
    artifact = artifact_in(directory)
    for folder in ("0", "1"):
        shutil.copytree(artifact, directory / folder / artifact.name)
    facts["programs"] = [{**only, "folder": folder} for folder in ("0", "1")]
    manifest.write_text(json.dumps(facts), encoding="utf-8")
    found = refusal(directory)
    assert found.code is Code.NO_PROGRAM
    assert "holds 2 programs" in found.message
    assert found.hint is not None
    assert str(directory / "0") in found.hint


@pytest.mark.parametrize("file", ["manifest.json", "constants.bin", "constants.json"])
def test_a_missing_file_is_refused(directory: Path, file: str) -> None:
    (artifact_in(directory) / file).unlink()
    assert refusal(directory).code is Code.INVALID_ARTIFACT


def test_every_changed_file_is_refused(directory: Path) -> None:
    artifact = artifact_in(directory)
    for path in sorted(artifact.rglob("*")):
        if path.is_file() and path.name != "manifest.json":
            content = path.read_bytes()
            path.write_bytes(content + b" ")
            found = refusal(directory)
            assert found.code is Code.INVALID_ARTIFACT
            assert path.name in found.message
            path.write_bytes(content)
    assert_runs(directory)


@pytest.mark.parametrize(
    "listed",
    [
        "",
        "[]",
        "{}",
        '{"programs": 1}',
        '{"programs": [1]}',
        '{"programs": []}',
        '{"programs": [{"folder": "../elsewhere"}]}',
        '{"programs": [{"folder": "/"}]}',
        '{"programs": [{"folder": 0}]}',
        '{"programs": [{"folder": "7"}]}',
        "[" * 100_000,
    ],
    ids=lambda text: text[:60],
)
def test_a_malformed_directory_is_refused(directory: Path, listed: str) -> None:
    (directory / "wrapperir.json").write_text(listed)
    assert refusal(directory).code is Code.INVALID_ARTIFACT


def test_a_path_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DiagnosticError, match=r"WIR710: .*nowhere does not exist"):
        wrapperir.load(tmp_path / "nowhere")


def test_what_is_no_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    for path in (tmp_path, tmp_path / "file", tmp_path / "nothing"):
        found = refusal(path)
        assert found.code is Code.INVALID_ARTIFACT
        assert str(path) in found.message


def test_an_emitter_that_is_not_installed_is_named(directory: Path) -> None:
    path = artifact_in(directory) / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "emitter": "nobody's"}))
    found = refusal(directory)
    assert found.code is Code.UNKNOWN_EMITTER
    assert "nobody's" in found.message


def test_run_takes_the_constants_that_compile_wrote(kept: Path) -> None:
    for options in ([], ["--emitter", "cpp"], ["--emitter", "python"], ["--emitter", "fx"]):
        done = invoke("run", str(kept), "--seed", "3", *options)
        assert done.exit_code == 0, done.output
        assert "the constants are random" not in done.output
