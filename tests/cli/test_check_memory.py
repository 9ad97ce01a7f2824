"""``--check-memory``: emitted code that checks itself, from the command line."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from tests.cli.files import invoke
from wrapperir.diagnostics import Code
from wrapperir.emit import Artifact, Emitter, Loaded, Support
from wrapperir.ir import Program
from wrapperir.plugin import plugin_manager

LYING = """\
wrapperir 1

program @main(%x: f32[8]) {
  %pool0 = allocate_pool pool[64]
  %buf0 = place f32[4] in %pool0 at 0
  extern_kernel aten.add.out(%x, %x, out = %buf0) writes(%buf0)
  free %pool0
  return %buf0
}
"""


def test_emitted_code_has_the_checks_only_where_they_are_asked_for(folder: Path) -> None:
    assert invoke("emit", "add.wir", "-o", "plain").exit_code == 0
    assert invoke("emit", "add.wir", "--check-memory", "-o", "checked").exit_code == 0
    assert not (folder / "plain" / "memory_check.py").exists()
    assert (folder / "checked" / "memory_check.py").exists()
    text = (folder / "checked" / "program.py").read_text()
    assert "memory.freed('unused', ('lines', 3))" in text


def test_a_right_program_runs(folder: Path) -> None:
    plain = invoke("run", "add.wir", "--emitter", "python")
    checked = invoke("run", "add.wir", "--emitter", "python", "--check-memory")
    assert checked.exit_code == 0
    assert checked.stdout == plain.stdout


def test_a_difference_is_shown_with_its_line(folder: Path) -> None:
    (folder / "lying.wir").write_text(LYING)
    result = invoke("run", "lying.wir", "--emitter", "python", "--check-memory")
    assert result.exit_code == 1
    wanted = "lying.wir:6:44: error WIR842: %buf0 was changed from ((4,), (1,), "
    assert wanted in result.stderr


def test_the_interpreter_needs_no_option(folder: Path) -> None:
    result = invoke("run", "add.wir", "--check-memory")
    assert result.exit_code == 2
    assert "give --emitter" in result.stderr


class Plain(Emitter):
    name = "plain"
    support = Support()

    def emit(self, program: Program) -> Artifact:
        return Artifact("plain", {"a": "b"}, "a")

    def load(self, artifact: Artifact, constants: Mapping[str, torch.Tensor]) -> Loaded:
        raise NotImplementedError


@pytest.mark.parametrize("command", ["emit", "run"])
def test_an_emitter_without_checks_says_so(
    folder: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(plugin_manager()), "emitter", lambda *_: Plain())
    result = invoke(command, "add.wir", "--emitter", "plain", "--check-memory")
    assert result.exit_code == 1
    assert f"{Code.UNSUPPORTED_FEATURE}: the plain emitter has no checks" in result.stderr


@pytest.mark.usefixtures("folder")
def test_the_cpp_emitter_names_the_one_with_checks() -> None:
    result = invoke("emit", "add.wir", "--emitter", "cpp", "--check-memory", "-o", "out")
    assert result.exit_code == 1
    assert "WIR705: the cpp emitter has no checks of memory" in result.stderr
    assert "hint: the python emitter has" in result.stderr
