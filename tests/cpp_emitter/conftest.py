"""A made-up GPU, which all tests of a process share."""

import platform
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
import torch

from tests.cpp_emitter.gpu_requests import FakeGpu, driver_environment


@pytest.fixture(scope="session")
def fake_environment(run_cache: Path) -> dict[str, str]:
    """Return the environment of processes with a driver that is made up."""
    if torch.version.cuda:
        pytest.skip("PyTorch with CUDA calls a real driver")
    if platform.machine() != "x86_64":
        pytest.skip("the made-up operators are of x86-64")
    return driver_environment(run_cache)


@pytest.fixture(scope="session")
def fake_gpu(fake_environment: dict[str, str]) -> Generator[FakeGpu]:
    """Return a process with a driver that is made up."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.cpp_emitter.fake_gpu"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=fake_environment,
        cwd=Path(__file__).parents[2],
    ) as process:
        yield FakeGpu(process)
        assert process.stdin is not None
        process.stdin.close()
