"""A process that checks emitted Python on a driver that is made up."""

import json
import platform
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from tests.cpp_emitter.gpu_requests import driver_environment


class FakeProcess:
    """Runs checks by their names."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def check(self, name: str) -> None:
        """Run a check; fail as it does."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{name}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the process ended"
        problem = json.loads(line)
        assert not problem, problem


@contextmanager
def fake_process(module: str, run_cache: Path) -> Generator[FakeProcess]:
    """Start a module of this package with the driver."""
    if torch.version.cuda:
        pytest.skip("PyTorch with CUDA calls a real driver")
    if platform.machine() != "x86_64":
        pytest.skip("the made-up operators are of x86-64")
    with subprocess.Popen(
        [sys.executable, "-m", f"tests.python_emitter.{module}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=driver_environment(run_cache),
        cwd=Path(__file__).parents[2],
    ) as started:
        yield FakeProcess(started)
        assert started.stdin is not None
        started.stdin.close()
