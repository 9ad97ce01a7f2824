"""Training of a tensor-parallel model, whose graphs are given and return meshes."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    "emitter",
    ["python", *(pytest.param(each, marks=pytest.mark.sweep) for each in ("cpp", "fx"))],
)
def test_two_ranks_train(emitter: str) -> None:
    command = [sys.executable, "-m", "tests.backend.distributed_training", emitter]
    root = Path(__file__).parents[2]
    done = subprocess.run(
        command, cwd=root, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.endswith("trained\n"), done.stderr[-4000:]
