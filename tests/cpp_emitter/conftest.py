"""A made-up GPU, which all tests of a process share."""

import os
import platform
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
import torch

from tests.cpp_emitter.gpu_requests import FakeGpu, format_operators
from wrapperir.kernels import find_compiler

SOURCE = Path(__file__).with_name("fake_cuda.cpp")


@pytest.fixture(scope="session")
def fake_gpu(tmp_path_factory: pytest.TempPathFactory) -> Generator[FakeGpu]:
    """Return a process with a driver that is made up."""
    if torch.cuda.is_available():
        pytest.skip("a real driver is there")
    if platform.machine() != "x86_64":
        pytest.skip("the made-up operators are of x86-64")
    folder = tmp_path_factory.mktemp("driver")
    library = folder / "libcuda.so.1"
    flags = ["-std=c++17", "-O1", "-fPIC", "-shared", "-Wl,-soname,libcuda.so.1"]
    operators = folder / "operators.cpp"
    operators.write_text(format_operators())
    sources = [str(SOURCE), str(operators)]
    find_compiler().run(
        [*flags, *sources, "-o", str(library), "-ldl"], folder, "the driver"
    )
    environment = {
        **os.environ,
        "LD_PRELOAD": str(library),
        "TRITON_LIBCUDA_PATH": str(folder),
    }
    with subprocess.Popen(
        [sys.executable, "-m", "tests.cpp_emitter.fake_gpu"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=SOURCE.parents[2],
    ) as process:
        yield FakeGpu(process)
        assert process.stdin is not None
        process.stdin.close()
