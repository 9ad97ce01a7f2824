"""Reading, checking, changing and emitting a program executes nothing in it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.files import ADD, run_process
from wrapperir.text import format_json, parse_program

COMMANDS = {
    "print": ["print"],
    "verify": ["verify"],
    "opt": ["opt", "--pass", "simplify_expressions", "--pass", "remove_dead_lines"],
    "emit": ["emit"],
}

WATCHED = """
import json, sys

seen = []

def watch(event, args):
    if event == "import":
        return
    if event == "compile":
        source = args[0]
        if isinstance(source, bytes):
            source = source.decode(errors="replace")
        # ast.parse, whose file is <unknown>, makes no code that could be executed.
        if source is not None and "pwned" in str(source) and args[1] != "<unknown>":
            seen.append([event, str(source)[:80]])
    elif event == "exec":
        code = args[0]
        if "pwned" in repr((code.co_names, code.co_consts)):
            seen.append([event, code.co_filename])
    elif event == "open":
        if isinstance(args[1], str) and set(args[1]) & set("wax+"):
            seen.append([event, str(args[0]), args[1]])
    elif event.split(".")[0] in ("subprocess", "socket", "pickle", "ctypes", "shutil"):
        if event not in ALLOWED:
            seen.append([event, repr(args)[:80]])
    elif event in ("os.system", "os.exec", "os.posix_spawn", "os.fork", "os.remove"):
        seen.append([event, repr(args)[:80]])

ALLOWED = json.loads(sys.argv[1])
sys.addaudithook(watch)
from wrapperir.cli.main import main

statuses = []
for file in json.loads(sys.argv[2]):
    try:
        main([*sys.argv[3:], file])
    except SystemExit as ending:
        statuses.append(ending.code)
print("AUDIT", json.dumps([statuses, seen, sorted(m for m in ("torch", "triton", "sympy",
      "hypothesis", "rich") if m in sys.modules)]), file=sys.stderr)
"""

KERNEL = """\
wrapperir 1

kernel_definition @k triton(p: read f32*, n: i32, XBLOCK: constexpr) {
  grid = (ceildiv(n, XBLOCK), 1, 1)
  config XBLOCK = 64, num_warps = 4
  entry = k
  metadata "acme.code" = "__import__('os').system('touch pwned')"
  source {
    | open("pwned", "w")
    | import os; os.system("touch pwned")
    | @triton.jit
    | def k(p, n, XBLOCK: tl.constexpr):
    |     pass
  }
}

program @main(%x: f32[8]) {
  constant %w: f32[8] = "'); open('pwned', 'w'); ('"

  kernel_call @k(%x, 8) from(mm)
  comment "\\nopen('pwned', 'w')\\n\\"\\"\\"\\nopen('pwned', 'w')"
  assert_not_nan %x "\\"); open('pwned', 'w'); (\\""
  extern_kernel aten._print.default("'open('pwned')'")
  free %x
  return %w
}

origins {
  place 0: "x\\n open('pwned', 'w')" 3 "open('pwned', 'w')"
  mm: "open('pwned', 'w')" in "\\nopen('pwned', 'w')" at 0
}
"""

HOSTILE = {
    "kernel": KERNEL,
    "operator": ADD.replace("aten.add.Tensor", "os.system.pwned"),
    "pickle": "\x80\x04cos\nsystem\n(S'touch pwned'\ntR.",
    "python": "__import__('os').system('touch pwned')\n",
    "deep": "wrapperir 1\n\nprogram @main() {\n  return " + "(" * 5000 + "\n}\n",
    "huge": ADD.replace("2 * 32", "10 ** 10 ** 10 ** 10"),
    "json": '{"wrapperir": 1, "name": "__import__(\'os\').system(\'touch pwned\')"}',
}


def audit(
    folder: Path, command: list[str], files: dict[str, str], *targets: str
) -> tuple[list[int], list[object], set[str]]:
    """Run a command on each file; return statuses, what was seen, and what is imported."""
    for name, text in files.items():
        (folder / name).write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, "[]", json.dumps([*files, *targets]), *command],
        cwd=folder,
        capture_output=True,
        timeout=120,
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    (line,) = [x for x in done.stderr.decode().splitlines() if x.startswith("AUDIT ")]
    statuses, seen, imported = json.loads(line.removeprefix("AUDIT "))
    return statuses, seen, set(imported)


def test_the_watch_sees_what_compile_executes(tmp_path: Path) -> None:
    (tmp_path / "control.py").write_text("pwned = open('pwned', 'w')\n")
    _, seen, _ = audit(tmp_path, ["compile", "-o", "out"], {}, "control.py:f")
    assert ["open", "pwned", "w"] in seen


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_of_a_file_is_executed(tmp_path: Path, command: str) -> None:
    statuses, seen, _ = audit(tmp_path, COMMANDS[command], HOSTILE)
    # 2: a usage error
    assert set(statuses) <= ({0, 1, 2} if command == "emit" else {0, 1})
    assert seen == []
    assert {path.name for path in tmp_path.iterdir()} == set(HOSTILE)


@pytest.mark.parametrize("command", COMMANDS)
def test_torch_is_not_imported(tmp_path: Path, command: str) -> None:
    files = {"add.wir": ADD, "add.json": format_json(parse_program(ADD))}
    statuses, _, imported = audit(tmp_path, COMMANDS[command], files)
    assert statuses == [0, 0]
    assert imported <= ({"sympy"} if command == "opt" else set[str]())


def test_standard_input_and_output_in_a_real_process(tmp_path: Path) -> None:
    done = run_process("print", "-", folder=tmp_path, stdin=ADD)
    assert done.returncode == 0
    assert done.stdout.decode() == ADD
    assert done.stderr == b""
