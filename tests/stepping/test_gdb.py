"""gdb stops at lines of emitted C++, of its kernels and of the program's text.

A page has a further run, which its tests compare.
"""

import doctest
import re
import sys
from pathlib import Path

import pytest

from tests.docs.examples import parse_commands
from tests.stepping.gdb import gdb, missing_gdb, shell_output

pytestmark = pytest.mark.sweep  # gdb takes seconds to read the symbols of PyTorch

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "step-through-it.md"
COMPILED = """\
import torch

def doubled(x):
    return torch.sin(torch.mm(x, x))

options = {"emitter": "cpp", "frontend": "lowering"}
options |= {"debug_info": "program", "dump_dir": "out"}
torch.compile(doubled, backend="wrapperir", options=options)(torch.eye(4))
"""


@pytest.fixture(scope="module", autouse=True)
def _needs_gdb() -> None:
    missing = missing_gdb()
    if missing is not None:
        pytest.skip(missing)


def test_emitted_code_and_a_kernel_are_stepped_through_as_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text()
    (block,) = re.findall(r"^```text\n(\$ gdb .*?)^```$", page, re.MULTILINE | re.DOTALL)
    (model,) = re.findall(
        r"^```python\n(import sys.*?)^```$", page, re.MULTILINE | re.DOTALL
    )
    (tmp_path / "scores.py").write_text(model)
    (command,) = parse_commands(block)
    shown = shell_output(command.line)
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    matches = doctest.OutputChecker().check_output(command.expected, shown, options)
    assert matches, shown
    (place,) = re.findall(r"^Located in (.*)$", shown, re.MULTILINE)
    assert place == str(tmp_path / "dumped" / "forward-0" / "cpp" / "program.cpp")
    assert "cpp_map_relu_add_0(c.p[mm]);" in Path(place).read_text()


def test_lines_of_the_program_are_stepped_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(COMPILED)
    first = ["break program.wir:1", "run"]  # of no code, so gdb takes the first with some
    commands = [*first, "forward-search kernel_call", "break $_", "continue"]
    commands += ["info source", "bt 1"]
    shown = gdb(
        sys.executable, "model.py", commands=["set breakpoint pending on", *commands]
    )
    file = tmp_path / "out" / "forward-0" / "cpp" / "program.wir"
    lines = file.read_text().split("\n")
    assert f"Located in {file}\n" in shown
    stops = re.findall(rf"{re.escape(str(file))}:(\d+)\n(\d+)\t(.*)\n", shown)
    assert [line.split()[0] for _, _, line in stops] == ["%mm", "kernel_call"]
    for number, same, line in stops:
        assert number == same
        assert lines[int(number) - 1] == line
    assert re.search(rf"^#0 .* at {re.escape(str(file))}:{stops[-1][0]}$", shown, re.M)


def test_a_compiled_directory_that_was_moved_is_named_to_gdb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (program,) = re.findall(
        r"^```wir\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    (tmp_path / "scale.wir").write_text(program)
    given = "--emitter cpp --debug-info program -o out scale.wir"
    assert "out: main:" in shell_output(f"python -m wrapperir.cli compile {given}")
    (tmp_path / "out").rename("moved")
    call = "import torch, wrapperir; wrapperir.load('moved')(torch.ones(4))"
    commands = ["set breakpoint pending on", "break program.wir:20"]
    commands += ["directory moved/cpp", "run", "info source"]
    shown = gdb(sys.executable, "-c", call, commands=commands)
    assert "\n20\t  kernel_call @scale(%b, %c)\n" in shown
    assert f"Located in {tmp_path}/moved/cpp/program.wir\n" in shown


PLACED = """\
import torch
from wrapperir.emit import compile_program
from wrapperir.passes import MEMORY_PASSES
from wrapperir.pipelines import run_passes
from wrapperir.text import parse_program

program = run_passes(parse_program(open("chain.wir").read()), MEMORY_PASSES)
run = compile_program(program, emitter="cpp", debug_info="program")
run([torch.arange(4.0)])
"""
CHAIN = """\
wrapperir 1

kernel_definition @scale cpp(x: read f32*, y: write f32*) {
  entry = scale
  source {
    | extern "C" void scale(const float* x, float* y) {
    |   for (int i = 0; i < 4; ++i) y[i] = 3 * x[i];
    | }
  }
}

program @main(%x: f32[4]) {
  %a = allocate f32[4]
  kernel_call @scale(%x, %a)
  %b = allocate f32[4]
  kernel_call @scale(%a, %b)
  %c = allocate f32[4]
  kernel_call @scale(%b, %c)
  %y = extern_kernel aten.cat.default([%c, %c]) : f32[8]
  return %y
}
"""


def test_data_of_values_in_pools_is_found_by_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chain.wir").write_text(CHAIN)
    (tmp_path / "placed.py").write_text(PLACED)
    commands = ["set breakpoint pending on", "break cpp_scale", "run"]
    commands += ["continue", "finish", "print *c.at.a@4", "print c.at.c", "print c.at.a"]
    commands += ["continue", "finish", "print *c.at.b@4", "print *c.at.c@4", "print c.at"]
    commands += ["print *c.at.a@4"]
    shown = gdb(sys.executable, "placed.py", commands=commands)
    assert "$1 = {0, 3, 6, 9}\n" in shown, shown
    assert "$2 = (float *) 0x0\n" in shown
    assert "$4 = {0, 9, 18, 27}\n" in shown
    assert "$5 = {0, 27, 54, 81}\n" in shown
    (reused,) = re.findall(r"^\$3 = \(float \*\) (.*)$", shown, re.MULTILINE)
    (pointers,) = re.findall(r"^\$6 = \{(.*)\}$", shown, re.MULTILINE)
    places = dict(part.split(" = ") for part in pointers.split(", "))
    # `c` lies where `a` lay, which has no data now.
    assert (places["a"], places["c"]) == ("0x0", reused)
    assert places["b"] not in ("0x0", reused)
    assert shown.rstrip().endswith("Cannot access memory at address 0x0")
