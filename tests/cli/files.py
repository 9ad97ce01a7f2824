"""Files that the command-line tests work on, and ways to run the command."""

import os
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner, Result

from wrapperir.cli.main import main

ADD = """\
wrapperir 1

program @main(%x: f32[s0, 4]) {
  symbol s0: int 1..64 = size(%x, 0)
  constant %w: f32[4] = "w"

  %unused = allocate f32[2 * 32]
  %y = extern_kernel aten.add.Tensor(%x, %w) : f32[s0, 4]
  free %x
  free %unused
  return %y
}
"""

FREED = ADD.replace("  free %x\n", "").replace("  %y =", "  free %x\n  %y =")

SUMS = """\
wrapperir 1

kernel_definition @by_columns cpp(x: read f32*, y: write f32*, rows: i64) {
  entry = by_columns
  source {
    | #include <cstdint>
    | extern "C" void by_columns(const float* x, float* y, int64_t rows) {
    |   for (int64_t i = 0; i < rows; ++i) y[i] = 0;
    |   for (int64_t j = 0; j < 64; ++j)
    |     for (int64_t i = 0; i < rows; ++i) y[i] += x[i * 64 + j];
    | }
  }
}

kernel_definition @by_rows cpp(x: read f32*, y: write f32*, rows: i64) {
  entry = by_rows
  source {
    | #include <cstdint>
    | extern "C" void by_rows(const float* x, float* y, int64_t rows) {
    |   for (int64_t i = 0; i < rows; ++i) {
    |     float sum = 0;
    |     for (int64_t j = 0; j < 64; ++j) sum += x[i * 64 + j];
    |     y[i] = sum;
    |   }
    | }
  }
}

multi_kernel @row_sums(x: read f32*, y: write f32*, rows: i64) {
  choice @by_columns(0, 1, 2)
  choice @by_rows(0, 1, 2)
  select benchmark
}

program @main(%x: f32[s0, 64]) {
  symbol s0: int 1..64 = size(%x, 0)

  %y = allocate f32[s0]
  kernel_call @row_sums(%x, %y, s0)
  free %x
  return %y
}
"""
"""A program with a multi-kernel, which tuning chooses in."""

MODEL = """\
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, x, *, shift=None):
        y = torch.relu(self.linear(x))
        return y if shift is None else y + shift


def scale(x):
    return x * 2 + 1


def broken(x):
    raise ValueError("no such thing")


def example_inputs():
    return (torch.ones(2, 8),)
"""


MLP = """\
wrapperir 1

kernel_definition @cpp_fused_0 cpp(x: read f32*, y: write f32*) {
  entry = twice
  source {
    | extern "C" void twice(const float* x, float* y) {
    |   for (int i = 0; i < 4; ++i) y[i] = 2 * x[i];
    | }
  }
}

program @main(%x: f32[4]) {
  %buf7 = allocate f32[4] from(mul)
  kernel_call @cpp_fused_0(%x, %buf7) from(mul)
  free %x
  return %buf7
}

origins {
  place 0: "model.py" 12 "forward"
  mul: "aten.mul.Tensor" in "layers.0.mlp" at 0
}
"""


TRACE = """\
{"traceEvents": [
  {"ph": "X", "cat": "kernel", "name": "cpp_fused_0",
   "ts": 1.5, "dur": 2.25, "pid": 0, "tid": 7}
]}
"""


def write_files(folder: Path) -> None:
    """Write what examples work on.

    These are ``add.wir``, ``add.json``, ``sums.wir``, ``mlp.wir``, ``trace.json``,
    ``model.py``, ``inputs.pt`` and ``weights.pt``.
    """
    import torch

    from wrapperir.text import format_json, parse_program

    (folder / "add.wir").write_text(ADD)
    (folder / "add.json").write_text(format_json(parse_program(ADD)))
    (folder / "freed.wir").write_text(FREED)
    (folder / "sums.wir").write_text(SUMS)
    (folder / "mlp.wir").write_text(MLP)
    (folder / "trace.json").write_text(TRACE)
    (folder / "model.py").write_text(MODEL)
    torch.save([torch.ones(3, 4)], folder / "inputs.pt")
    torch.save({"w": torch.arange(4.0)}, folder / "weights.pt")


def broken(text: str = ADD) -> str:
    """Return a program with an error that the verifier finds."""
    return text.replace("free %x\n", "free %missing\n")


LINES = """\
wrapperir 1

program @main(%x: f32[8], %y: f32[8]) {
  %a = extern_kernel aten.sin.default(%x) : f32[8] from(sin)
  %b = extern_kernel aten.cos.default(%a) : f32[8] from(cos)
  free %a
  %c = extern_kernel aten.mul.Tensor(%b, %y) : f32[8]
  free %b
  return %c
}

origins {
  place 0: "model.py" 3
  place 1: "model.py" 4
  sin: at 0
  cos: at 1
}
"""
"""A program with origins."""


def invoke(*args: str, input: str | bytes | None = None) -> Result:
    """Run the command in this process."""
    result = CliRunner().invoke(main, args, input=input)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def run_process(
    *args: str, folder: Path, stdin: str | bytes = ""
) -> subprocess.CompletedProcess[bytes]:
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "wrapperir.cli", *args],
        cwd=folder,
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        capture_output=True,
        timeout=120,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
