"""``wrapperir package``: from a file of Python to a file that PyTorch loads."""

import shutil
import zipfile
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result
from torch._inductor import aoti_load_package

import wrapperir
from wrapperir.cli.main import main

MODEL = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(32.0).view(8, 4))

    def forward(self, x):
        return x @ self.weight

EXAMPLE_INPUTS = (torch.ones(2, 8),)
"""
X = torch.arange(16.0).view(2, 8)
EXPECTED = X @ torch.arange(32.0).view(8, 4)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def compiled(emitter: str) -> None:
    done = run("compile", "model.py:Model", "--emitter", emitter, "-o", "out")
    assert done.exit_code == 0, done.output


def test_a_compiled_model_becomes_a_file_that_is_loaded_everywhere(folder: Path) -> None:
    compiled("cpp")
    done = run("package", "out", "model.pt2")
    assert done.exit_code == 0, done.output
    assert done.output == f"model.pt2: {(folder / 'model.pt2').stat().st_size} bytes\n"
    (ours,) = wrapperir.load("model.pt2")(X)
    (theirs,) = aoti_load_package("model.pt2")(X)
    assert isinstance(ours, torch.Tensor)
    assert torch.equal(ours, EXPECTED)
    assert torch.equal(theirs, EXPECTED)


def test_other_emitters_have_no_packages(folder: Path) -> None:
    compiled("python")
    done = run("package", "out", "model.pt2")
    assert done.exit_code == 1
    assert "WIR705: the python emitter has no packages" in done.output
    assert "--emitter cpp" in done.output
    assert not (folder / "model.pt2").exists()


def test_what_cannot_be_packaged_is_named(folder: Path) -> None:
    done = run("package", "missing", "model.pt2")
    assert done.exit_code == 1
    assert "WIR710: missing" in done.output
    (folder / "out").mkdir()
    done = run("package", "out", "model.pt2")
    assert done.exit_code == 1
    assert "WIR710: out holds no compiled program" in done.output


@pytest.mark.usefixtures("folder")
def test_a_file_that_cannot_be_written_is_named() -> None:
    compiled("cpp")
    done = run("package", "out", "missing/model.pt2")
    assert done.exit_code == 3
    assert "missing/model.pt2: No such file or directory" in done.output


@pytest.mark.usefixtures("folder")
def test_a_package_is_not_written_over_a_directory() -> None:
    compiled("cpp")
    done = run("package", "out", ".")
    assert done.exit_code == 1
    assert "WIR710: . is a directory, and a package is a file" in done.output
    assert "hint: give the name of the file to write, such as model.pt2" in done.output


@pytest.mark.usefixtures("folder")
def test_what_is_not_built_yet_says_how() -> None:
    compiled("python")
    assert run("emit", "out", "--emitter", "cpp", "-o", "emitted").exit_code == 0
    done = run("package", "emitted", "model.pt2")
    assert done.exit_code == 1
    assert "WIR710: emitted has no program.so" in done.output
    assert "hint: wrapperir compile PROGRAM.wir --emitter cpp -o DIR" in done.output


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", ["model.pt2", "model.bin"])
def test_a_package_is_not_read_as_text(name: str) -> None:
    compiled("cpp")
    assert run("package", "out", name).exit_code == 0
    for command in (("run", name), ("print", name), ("compile", name, "-o", "again")):
        done = run(*command)
        assert done.exit_code == 1
        assert f"WIR908: {name} is a package that wrapperir package wrote" in done.output
        assert "hint: wrapperir.load of Python loads it" in done.output
    assert not Path("again").exists()


@pytest.mark.usefixtures("folder")
def test_other_archives_say_what_they_are() -> None:
    torch.save({"x": torch.ones(2)}, "weights.pt")
    done = run("compile", "weights.pt", "-o", "out")
    assert "WIR908: weights.pt is a file that torch.save wrote" in done.output
    module = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
    torch.export.save(module, "linear.pt2")
    shutil.copy("linear.pt2", "linear.zip")
    done = run("compile", "linear.zip", "-o", "out")
    assert "WIR908: linear.zip is an exported program" in done.output
    assert "if its name ends in .pt2" in done.output
    with zipfile.ZipFile("aoti.pt2", "w") as archive:
        archive.writestr("aoti/data/aotinductor/model/a.wrapper.so", b"")
    done = run("compile", "aoti.pt2", "-o", "out")
    assert "WIR908: aoti.pt2 is a package that AOTInductor compiled" in done.output
    Path("broken.wir").write_bytes(b"PK\3\4")
    done = run("verify", "broken.wir")
    assert "WIR908: broken.wir is an archive, not a program's text" in done.output
    assert run("compile", "linear.pt2", "--frontend", "export", "-o", "out").exit_code == 0


@pytest.mark.usefixtures("folder")
def test_a_cache_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/x")
    done = run("compile", "model.py:Model", "--emitter", "cpp", "-o", "out")
    assert done.exit_code == 1
    assert "WIR710: built files cannot be kept: /proc/x: " in done.output
    assert "hint: set XDG_CACHE_HOME to a directory of yours" in done.output
