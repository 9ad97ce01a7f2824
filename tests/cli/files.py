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


def write_files(folder: Path) -> None:
    """Write ``add.wir``, ``add.json``, ``model.py``, ``inputs.pt`` and ``weights.pt``."""
    import torch

    from wrapperir.text import format_json, parse_program

    (folder / "add.wir").write_text(ADD)
    (folder / "add.json").write_text(format_json(parse_program(ADD)))
    (folder / "model.py").write_text(MODEL)
    torch.save([torch.ones(3, 4)], folder / "inputs.pt")
    torch.save({"w": torch.arange(4.0)}, folder / "weights.pt")


def broken(text: str = ADD) -> str:
    """Return a program with an error that the verifier finds."""
    return text.replace("free %x\n", "free %missing\n")


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
