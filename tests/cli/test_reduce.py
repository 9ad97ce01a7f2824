"""``wrapperir reduce``: commands, codes and emitters as oracles, and stopped reductions."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.files import invoke
from tests.cli.wrong_code import call_another
from wrapperir.ir import FreeLine
from wrapperir.ir.blocks import walk_lines
from wrapperir.text import parse_program

CHAIN = """\
wrapperir 1

program @main(%x: f32[8], %y: f32[8]) {
  %a = extern_kernel aten.sin.default(%x) : f32[8]
  %b = extern_kernel aten.cos.default(%a) : f32[8]
  free %a
  %c = extern_kernel aten.mul.Tensor(%b, %y) : f32[8]
  free %b
  return %c
}
"""
ORACLE = """\
import pathlib, sys

sys.exit("aten.cos" not in pathlib.Path(sys.argv[1]).read_text())
"""
ONE_LINE = """\
wrapperir 1

program @main(%a: f32[1]) {
  %b = extern_kernel aten.cos.default(%a) : f32[1]
  return %b
}
"""


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    (folder / "chain.wir").write_text(CHAIN)
    (folder / "oracle.py").write_text(ORACLE)


COMMAND = ("--command", f"{sys.executable} oracle.py {{}}")


def test_a_command_decides(folder: Path) -> None:
    result = invoke("reduce", "chain.wir", *COMMAND, "-o", "small.wir")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == "small.wir: 1 line and 0 kernels of 5 lines and 0 kernels\n"
    assert (folder / "small.wir").read_text().replace("free", "return") == ONE_LINE
    assert not (folder / "small.wir.rejected").exists()


STOPPING = """\
import os, pathlib, signal, sys

text = pathlib.Path(sys.argv[1]).read_text()
count = pathlib.Path("count")
count.write_text(str(int(count.read_text()) + 1) if count.exists() else "1")
if count.read_text() == "9":
    os.kill(os.getppid(), signal.SIGINT)
sys.exit("aten.cos" not in text)
"""


def test_a_reduction_that_was_stopped_goes_on(folder: Path) -> None:
    (folder / "oracle.py").write_text(STOPPING)
    words = sys.executable, "-m", "wrapperir.cli", "reduce", "chain.wir", *COMMAND
    for status in (130, 0):
        done = subprocess.run([*words, "-o", "small.wir"], capture_output=True, text=True)
        assert done.returncode == status, done.stderr
        left = (folder / "small.wir").read_text()
        assert len(left) < len(CHAIN)
        assert (folder / "small.wir.rejected").exists() == (status == 130)
    assert left.replace("free", "return") == ONE_LINE
    assert done.stdout.endswith("of 5 lines and 0 kernels\n")


def test_a_reduction_of_something_else_begins_anew(folder: Path) -> None:
    (folder / "small.wir").write_text(ONE_LINE.replace("aten.cos", "aten.exp"))
    (folder / "small.wir.rejected").write_text("0123\n4567\n")
    result = invoke("reduce", "chain.wir", *COMMAND, "--jobs", "2", "-o", "small.wir")
    assert result.exit_code == 0, result.stderr
    assert (folder / "small.wir").read_text() == ONE_LINE


def test_a_code_is_kept(folder: Path) -> None:
    early = CHAIN.replace("  free %a\n", "").replace("  %b =", "  free %a\n  %b =")
    (folder / "early.wir").write_text(early)
    result = invoke("reduce", "early.wir", "--code", "WIR201", "-o", "small.wir")
    assert result.exit_code == 0, result.stderr
    small = parse_program((folder / "small.wir").read_text())
    assert len([*walk_lines(small.lines)]) <= 4
    assert any(isinstance(line, FreeLine) for line in small.lines)


def test_an_emitter_that_is_wrong_is_shown_by_the_line_it_gets_wrong(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call_another(monkeypatch, "cos", "tan")
    result = invoke("reduce", "chain.wir", "--differs", "python", "-o", "small.wir")
    assert result.exit_code == 0, result.stderr
    assert (folder / "small.wir").read_text() == ONE_LINE


LOOKED_UP = """\
wrapperir 1

program @main(%w: f32[4, 2], %i: i64[8]) {
  %a = extern_kernel aten.embedding.default(%w, %i) : f32[8, 2]
  free %w
  free %i
  %b = extern_kernel aten.cos.default(%a) : f32[8, 2]
  free %a
  %c = extern_kernel aten.sin.default(%b) : f32[8, 2]
  free %b
  return %c
}
"""


def test_indices_are_drawn_for_tables(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "table.wir").write_text(LOOKED_UP)
    call_another(monkeypatch, "cos", "tan")
    result = invoke("reduce", "table.wir", "--differs", "python", "-o", "small.wir")
    assert result.exit_code == 0, result.stderr
    small = (folder / "small.wir").read_text()
    assert "aten.cos" in small
    assert "aten.sin" not in small


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give one of --command, --code and --differs"),
        ((*COMMAND, "--code", "WIR201"), "give one of"),
        (("--command", "true"), "--command has no {}"),
        (("--code", "WIR9"), "is no code"),
        (("--code", "WIR201", "-o", "-"), "-o is a file"),
        (("--code", "WIR201", "--jobs", "2"), "--jobs is for --command"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: tuple[str, ...], message: str) -> None:
    output = () if "-o" in arguments else ("-o", "small.wir")
    result = invoke("reduce", "chain.wir", *arguments, *output)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_program_that_shows_nothing_is_an_error(folder: Path) -> None:
    result = invoke("reduce", "chain.wir", "--code", "WIR201", "-o", "small.wir")
    assert result.exit_code == 1
    assert "WIR913" in result.stderr
    assert not (folder / "small.wir").exists()
    assert not (folder / "small.wir.rejected").exists()
