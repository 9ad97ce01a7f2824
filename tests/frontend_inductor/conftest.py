"""Captures programs as if there were a GPU."""

import functools
import json
import platform
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
import torch
from filelock import FileLock

from tests.frontend_inductor.captured import Capture, CaptureFailedError
from wrapperir.ir import Program
from wrapperir.text import parse_program

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def captured(run_cache: Path) -> Generator[Capture]:
    """Return what captures a case, in a process with a GPU that is made up."""
    if torch.cuda.is_available():
        pytest.skip("a real GPU is there")
    if platform.system() != "Linux":
        pytest.skip("the libraries of PyTorch are named as on Linux")
    run_cache.mkdir(exist_ok=True)
    library = run_cache / "made_up_gpu.so"
    torch_folder = Path(torch.__file__).parent
    command = ["g++", "-std=c++20", "-shared", "-fPIC", f"-I{torch_folder / 'include'}"]
    source = HERE / "made_up_gpu.cpp"
    libraries = [f"-L{torch_folder / 'lib'}", "-lc10", "-ltorch_cpu"]
    with FileLock(f"{library}.lock"):  # the first process of a run builds it
        if not library.exists():
            command += [str(source), "-o", str(library), *libraries]
            subprocess.run(command, check=True)
    with subprocess.Popen(
        [sys.executable, "-m", "tests.frontend_inductor.made_up_gpu", str(library)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=HERE.parents[1],
    ) as process:

        @functools.cache
        def capture(name: str) -> list[Program]:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{name}\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            if "error" in answer:
                raise CaptureFailedError(answer["error"])
            return [parse_program(text) for text in answer["programs"]]

        yield capture
        assert process.stdin is not None
        process.stdin.close()
