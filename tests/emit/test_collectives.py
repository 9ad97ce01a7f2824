"""Emitted collectives: two ranks do what the interpreter does."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import distributed

from wrapperir.emit.support import fit_program
from wrapperir.ir import ExternKernelLine
from wrapperir.text import parse_program
from wrapperir_python.emitter import PythonEmitter

pytestmark = pytest.mark.skipif(
    not (distributed.is_available() and distributed.is_gloo_available()),
    reason="needs torch.distributed with gloo",
)


KINDS = (
    "cpu",
    pytest.param(
        "cuda",
        marks=(
            pytest.mark.gpu,
            pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs"),
        ),
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_two_ranks_do_what_the_interpreter_does(kind: str) -> None:
    emitters = ("python", "cpp", "fx")
    command = [sys.executable, "-m", "tests.emit.collective_ranks", kind, *emitters]
    root = Path(__file__).parents[2]
    ran = subprocess.run(
        command, cwd=root, capture_output=True, text=True, timeout=300, check=False
    )
    assert (ran.returncode, ran.stdout) == (0, "same\n"), ran.stderr
    assert "is not replayed as a graph" not in ran.stderr


@pytest.mark.parametrize(
    "emitter",
    ["python", *(pytest.param(each, marks=pytest.mark.sweep) for each in ("cpp", "fx"))],
)
def test_a_killed_rank_is_an_error_of_the_other(emitter: str) -> None:
    command = [sys.executable, "-m", "tests.emit.killed_rank", emitter]
    root = Path(__file__).parents[2]
    ran = subprocess.run(
        command, cwd=root, capture_output=True, text=True, timeout=300, check=False
    )
    error, codes = ran.stdout.strip().splitlines()
    assert error.startswith("RuntimeError: ")
    assert re.search("Connection (closed|reset) by peer", error), error
    assert codes == "[0, -9]", ran.stderr


def test_emitters_get_operator_calls() -> None:
    program = parse_program(
        """wrapperir 1

program @main(%x: mutated f32[4]) {
  group "one" size 1

  %w = collective all_reduce(sum) "one" reads(%x) writes(%x)
  wait_collective %w reads(%x) writes(%x)
  free %w
  return %x
}
"""
    )
    fitted = fit_program(program, PythonEmitter.support)
    operators = [x.operator for x in fitted.lines if isinstance(x, ExternKernelLine)]
    names = ("all_reduce_", "wait_tensor")
    assert operators == [f"_c10d_functional.{name}.default" for name in names]
    assert len(fitted.lines) == 2
