"""The Python file that is shown is the one that pdb stops in and steps through."""

import shutil
import traceback
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from tests.forked_processes import ProcessServer
from wrapperir import load
from wrapperir.emit import compile_program, write_artifact
from wrapperir.text import parse_program
from wrapperir_python.emitter import PythonEmitter

TEXT = """\
wrapperir 1

program @main(%x: f32[4]) {
  %a = extern_kernel aten.exp.default(%x) : f32[4]
  free %x
  %b = extern_kernel aten.neg.default(%a) : f32[4]
  free %a
  return %b
}
"""
COMPILED = """\
import torch

def products(x, y):
    return torch.mm(torch.mm(x, y), y)

given = (torch.eye(3), torch.eye(3))
call = torch.compile(products, backend="wrapperir", options={"dump_dir": "out"})
call(*given)
file, line = "out/forward-0/python/program.py", "mm_out(buf0, y, buf1)"
"""
LOADED = """\
import torch
import wrapperir

call, given = wrapperir.load("out"), (torch.ones(4),)
file, line = "out/program.py", "b = aten_neg_default(a)"
"""
DEBUGGED = """\
import io, pathlib, pdb, sys

lines = [each.strip() for each in pathlib.Path(file).read_text().split("\\n")]
number = lines.index(line) + 1
commands = io.StringIO(f"break {file}:{number}\\ncontinue\\nnext\\ncontinue\\n")
pdb.Pdb(stdin=commands, stdout=sys.stdout, readrc=False).runcall(call, *given)
"""


@pytest.mark.parametrize(
    ("made", "file", "steps"),
    [
        pytest.param(
            COMPILED,
            "out/forward-0/python/program.py",
            ["mm_out(buf0, y, buf1)", "del y"],
            id="torch.compile",
        ),
        pytest.param(
            LOADED, "out/program.py", ["b = aten_neg_default(a)", "del a"], id="load"
        ),
    ],
)
def test_a_breakpoint_in_the_shown_file_is_hit(
    made: str,
    file: str,
    steps: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    process_server: ProcessServer,
) -> None:
    monkeypatch.chdir(tmp_path)
    if made == LOADED:
        write_artifact(PythonEmitter().emit(parse_program(TEXT)), tmp_path / "out")
    done = process_server.run("-c", made + DEBUGGED)
    assert done.returncode == 0, done.stderr
    printed = done.stdout.replace("(Pdb) ", "").split("\n")
    stops = [
        (place.partition("(")[0], code)
        for place, code in pairwise(printed)
        if "program.py" in place
    ]
    shown = f"> {tmp_path / file}"
    assert [stop for stop in stops if stop[0] == shown] == [
        (shown, f"-> {step}") for step in steps
    ]
    assert "Breakpoint 1 at" in done.stdout


def raised_in(error: BaseException) -> traceback.FrameSummary:
    """Return the frame of the emitted function."""
    frames = traceback.extract_tb(error.__traceback__)
    (found,) = [frame for frame in frames if frame.filename.endswith("/program.py")]
    return found


def test_a_traceback_names_the_dumped_file(tmp_path: Path) -> None:
    call = compile_program(parse_program(TEXT), dump_dir=tmp_path)
    with pytest.raises(RuntimeError) as caught:
        call([torch.ones(5)])
    place = raised_in(caught.value)
    assert place.filename == str(tmp_path / "python" / "program.py")
    lines = (tmp_path / "python" / "program.py").read_text().split("\n")
    assert lines[(place.lineno or 0) - 1].strip() == place.line


def test_a_loaded_directory_that_is_gone_runs_and_shows_its_lines(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    artifact = PythonEmitter().emit(parse_program(TEXT))
    write_artifact(artifact, folder)
    call = load(folder)
    shutil.rmtree(folder)
    with pytest.raises(RuntimeError) as caught:
        call(torch.ones(5))
    place = raised_in(caught.value)
    assert place.filename == str(folder / "program.py")
    lines = str(artifact.files["program.py"]).split("\n")
    assert place.line
    assert lines[(place.lineno or 0) - 1].strip() == place.line
