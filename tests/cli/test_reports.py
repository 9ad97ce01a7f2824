"""What users are told when something is not as it must be."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch

from tests.cli.files import ADD, broken, invoke
from tests.forked_processes import ProcessServer
from wrapperir.diagnostics import Code
from wrapperir.emit import Artifact, Emitter, Loaded, Support
from wrapperir.ir import Program
from wrapperir.plugin import plugin_manager

KERNEL = """\
wrapperir 1

kernel_definition @double cpp(p: read f32*, q: write f32*) {
  entry = kernel
  source {
    | extern "C" void kernel(const float* p, float* q) {
    |   for (int i = 0; i < 4; i++) q[i] = 2 * p[i];
    | }
  }
}

program @main(%x: f32[s0, 4], %y: f32[s0], %n: i64) {
  symbol s0: int 1..64 = size(%x, 0)
  %q = allocate f32[4]
  kernel_call @double(%x, %q)
  free %x
  free %y
  return %q
}
"""

ASSERT = """\
wrapperir 1

program @main(%x: f32[s0]) {
  symbol s0: int 1..64 = size(%x, 0)
  assert_scalar s0 > 64 "too few"
  return %x
}
"""


def giving(value: object) -> Callable[..., object]:
    def give(*_: object) -> object:
        return value

    return give


GOOD = [torch.ones(1, 4), torch.ones(1), 3]


@pytest.mark.parametrize("options", [(), ("--emitter", "python")])
@pytest.mark.parametrize(
    ("inputs", "code"),
    [
        ([torch.ones(1, 4, dtype=torch.int64), *GOOD[1:]], Code.RUN_INPUT_MISMATCH),
        ([torch.ones(4), *GOOD[1:]], Code.RUN_INPUT_MISMATCH),
        ([torch.ones(1, 5), *GOOD[1:]], Code.RUN_INPUT_MISMATCH),
        ([torch.ones(2, 8)[:, ::2], torch.ones(2), 3], Code.RUN_INPUT_MISMATCH),
        ([torch.ones(1, 4), torch.ones(2), 3], Code.RUN_INPUT_MISMATCH),
        ([torch.ones(65, 4), torch.ones(65), 3], Code.RUN_SYMBOL_RANGE),
        ([1.5, *GOOD[1:]], Code.RUN_INPUT_MISMATCH),
        ([*GOOD[:2], torch.ones(())], Code.RUN_INPUT_MISMATCH),
        ([*GOOD[:2], 1.5], Code.RUN_INPUT_MISMATCH),
        ([torch.ones(1, 4, device="meta"), *GOOD[1:]], Code.RUN_INPUT_MISMATCH),
    ],
)
def test_run_checks_inputs_before_anything_is_executed(
    folder: Path,
    inputs: list[object],
    code: Code,
    options: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (folder / "kernel.wir").write_text(KERNEL)
    (folder / "x.pt").touch()
    # A tensor of the meta device is loaded as one of the CPU, so files are not read here.
    monkeypatch.setattr("wrapperir.cli.given.load_inputs", giving(inputs))
    result = invoke("run", "kernel.wir", "--inputs", "x.pt", *options)
    assert result.exit_code == 1, result.output
    assert code in result.stderr
    assert "kernel.wir:" in result.stderr
    assert "executes the code" not in result.stderr


def test_inputs_as_declared_run(folder: Path) -> None:
    (folder / "kernel.wir").write_text(KERNEL)
    torch.save(GOOD, folder / "x.pt")
    result = invoke("run", "kernel.wir", "--inputs", "x.pt", "--emitter", "python")
    assert result.stdout == "output 0: float32[4] min 2, max 2, mean 2\n"


def test_an_error_of_emitted_code_is_a_diagnostic(folder: Path) -> None:
    (folder / "assert.wir").write_text(ASSERT)
    result = invoke("run", "assert.wir", "--emitter", "python")
    assert result.exit_code == 1
    assert Code.EMITTED_CODE_FAILED in result.stderr
    assert "too few" in result.stderr
    assert "raised at program.py:" in result.stderr
    (folder / "shapes.wir").write_text(ADD.replace("%w: f32[4]", "%w: f32[5]"))
    result = invoke("run", "shapes.wir", "--emitter", "python")
    assert result.exit_code == 1
    assert "raised RuntimeError: The size of tensor a (4)" in result.stderr


class Faulty(Emitter):
    name = "faulty"
    support = Support()

    def __init__(self, made: object) -> None:
        self.made = made

    def emit(self, program: Program) -> Artifact:
        if isinstance(self.made, BaseException):
            raise self.made
        return self.made  # type: ignore[return-value]

    def load(self, artifact: Artifact, constants: Mapping[str, torch.Tensor]) -> Loaded:
        raise OverflowError("load")


@pytest.mark.parametrize(
    ("made", "command", "cause"),
    [
        (KeyError("lines"), "emit", "KeyError: 'lines'"),
        (None, "emit", "made a NoneType, not an Artifact"),
        (Artifact("faulty", {"a": "b"}, "a"), "run", "OverflowError: load"),
    ],
)
def test_a_fault_of_an_emitter_names_it(
    folder: Path,
    made: object,
    command: str,
    cause: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(type(plugin_manager()), "emitter", giving(Faulty(made)))
    result = invoke(command, "add.wir", "--emitter", "faulty")
    assert result.exit_code == 1
    assert f"{Code.EMITTER_FAILED}: emitter 'faulty' of {__name__}" in result.stderr
    assert cause in result.stderr


@pytest.mark.parametrize("seed", ["99999999999999999999999", "-1", str(2**63)])
def test_a_seed_out_of_range_is_a_usage_error(folder: Path, seed: str) -> None:
    assert invoke("run", "add.wir", "--seed", seed).exit_code == 2


def test_the_largest_seed_runs(folder: Path) -> None:
    assert invoke("run", "add.wir", "--seed", str(2**63 - 1)).exit_code == 0


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("verify add.wir", 0),
        ("verify bad.wir", 1),
        ("print add.wir", 3),
        ("emit bad.wir", 1),
    ],
)
def test_closed_streams(folder: Path, command: str, status: int) -> None:
    (folder / "bad.wir").write_text(broken())
    line = f"{sys.executable} -m wrapperir.cli {command}"
    done = subprocess.run(["sh", "-c", f"{line} >&-"], capture_output=True)
    assert done.returncode == status
    assert b"Traceback" not in done.stderr
    both = subprocess.run(["sh", "-c", f"{line} >&- 2>&-"])
    assert both.returncode == status


@pytest.mark.parametrize("body", ["return x", "print('no graph'); return 3"])
def test_nothing_to_compile(folder: Path, body: str) -> None:
    (folder / "plain.py").write_text(
        f"import torch\nEXAMPLE_INPUTS = torch.ones(2)\ndef f(x):\n    {body}\n"
    )
    result = invoke("compile", "plain.py:f", "--frontend", "inductor", "-o", "out")
    assert result.exit_code == 1
    assert Code.NOTHING_TO_COMPILE in result.stderr
    assert not (folder / "out").exists()


@pytest.mark.parametrize("frontend", ["export", "inductor"])
def test_what_cannot_be_traced_whole_is_named_with_its_place(
    folder: Path, frontend: str
) -> None:
    (folder / "branch.py").write_text(
        "import torch\nEXAMPLE_INPUTS = torch.ones(2)\n"
        "def f(x):\n    y = x * 2\n    return y if y.sum() > 0 else x\n"
    )
    result = invoke("compile", "branch.py:f", "--frontend", frontend, "-o", "out")
    assert result.exit_code == 1
    assert Code.TARGET_FAILED in result.stderr
    assert "data-dependent" in result.stderr
    assert "raised at branch.py:5, in f" in result.stderr
    assert not (folder / "out").exists()


def test_directories_without_one_program(folder: Path) -> None:
    (folder / "out").mkdir()
    foreign = invoke("run", "out")
    assert foreign.exit_code == 1
    assert f"{Code.NO_PROGRAM}: out is a directory that compile did not" in foreign.stderr
    (folder / "out/wrapperir.json").write_text("{}")
    assert "out holds no program" in invoke("verify", "out").stderr
    for name in ("0", "1"):
        (folder / "out" / name).mkdir()
        (folder / "out" / name / "program.wir").write_text(ADD)
    several = invoke("print", "out")
    assert several.exit_code == 1
    assert "give one of out/0, out/1" in several.stderr
    assert invoke("print", "out/1").exit_code == 0


@pytest.mark.parametrize(
    "args",
    [
        ("run", "bad.wir"),
        ("run", "absent.wir"),
        ("run", "add.wir", "--emitter", "absent"),
        ("compile", "absent.py:f", "-o", "out"),
        ("compile", "model.py", "-o", "out"),
        ("compile", "model.py:scale", "--pass", "absent", "-o", "out"),
        ("compile", "absent.pt2", "-o", "out"),
    ],
)
def test_what_executes_nothing_does_not_say_that_it_does(
    folder: Path, args: tuple[str, ...]
) -> None:
    (folder / "bad.wir").write_text(broken())
    result = invoke(*args)
    assert result.exit_code != 0
    assert "executes the code" not in result.stderr


def test_json_has_no_notices(folder: Path) -> None:
    good = invoke("run", "add.wir", "--format", "json")
    assert (good.exit_code, good.stderr) == (0, "")
    (folder / "assert.wir").write_text(ASSERT)
    for options in ((), ("--emitter", "python")):
        failed = invoke("run", "assert.wir", "--format", "json", *options)
        assert json.loads(failed.stderr)[0]["code"] in {
            Code.EMITTED_CODE_FAILED,
            Code.RUN_ASSERT_SCALAR,
        }
    compiled = invoke("compile", "model.py:broken", "-o", "out", "--format", "json")
    assert json.loads(compiled.stderr)[0]["code"] == Code.TARGET_FAILED


@pytest.mark.parametrize("command", ["print", "verify"])
def test_bytes_that_are_no_text_are_named(folder: Path, command: str) -> None:
    content = "wrapperir 1\n\n # é".encode() + b"\xff\n"
    result = invoke(command, "-", input=content)
    expected = "<stdin>:3:5: error WIR014: not UTF-8 text (byte 0xff at offset 18)"
    assert expected in result.output
    assert "\\udc" not in result.output
    result = invoke(command, "-", input=b"\x7fELF\x02\x01\x80\x00")
    assert "not UTF-8 text (byte 0x80 at offset 6)" in result.output


def test_a_file_of_values_is_refused_in_our_words(folder: Path) -> None:
    torch.save([Faulty(None)], folder / "object.pt")
    result = invoke("run", "add.wir", "--inputs", "object.pt")
    assert f"object.pt holds {__name__}.Faulty, which is neither" in result.stderr
    (folder / "bad.pt").write_bytes(b"not a file of tensors")
    result = invoke("run", "add.wir", "--inputs", "bad.pt")
    assert "bad.pt is not a file that torch.save or safetensors wrote" in result.stderr
    assert "weights_only" not in result.stderr


def test_torch_logs_nothing_about_a_bad_exported_file(
    folder: Path, process_server: ProcessServer
) -> None:
    (folder / "bad.pt2").write_text("nothing")
    arguments = ["compile", "bad.pt2", "-o", "out"]
    done = process_server.run("-m", "wrapperir.cli", *arguments)
    assert done.returncode == 1
    assert Code.TARGET_FAILED in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "args",
    [
        ("print", "add.wir", "-o", "add.wir/x.wir"),
        ("emit", "add.wir", "-o", "add.wir/x"),
        ("print", "add.wir", "-o", "absent/x.wir"),
        ("print", "add.wir", "-o", "."),
    ],
)
def test_an_output_that_cannot_be_written_is_named(
    folder: Path, args: tuple[str, ...]
) -> None:
    result = invoke(*args)
    assert result.exit_code == 3
    assert result.stderr.startswith(f"wrapperir: {args[-1]}: ")


def test_opt_writes_no_program_with_errors(folder: Path) -> None:
    invalid = invoke("opt", "--pass", "simplify_expressions", "-", input=broken())
    assert invalid.exit_code == 1
    assert invalid.stdout == ""
    assert "error WIR103" in invalid.stderr
    leaky = ADD.replace("  free %unused\n", "")
    assert invoke("verify", "-", input=leaky).exit_code == 1
    mended = invoke("opt", "--pass", "insert_frees", "-", input=leaky)
    assert mended.exit_code == 0
    assert invoke("verify", "-", input=mended.stdout).exit_code == 0


def test_one_kernel_is_singular(folder: Path) -> None:
    result = invoke("compile", "model.py:scale", "--frontend", "inductor", "-o", "out")
    assert ", 1 kernel, 0 constants" in result.stdout


def test_ctrl_c_has_its_own_status(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("wrapperir.interp.interpret", interrupt)
    result = invoke("run", "add.wir")
    assert result.exit_code == 130
    assert result.stderr.endswith("wrapperir: interrupted\n")
    monkeypatch.setattr(Faulty, "emit", interrupt)
    monkeypatch.setattr(type(plugin_manager()), "emitter", giving(Faulty(None)))
    assert invoke("emit", "add.wir").exit_code == 130
