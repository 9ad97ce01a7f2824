"""Captures programs as if there were a GPU."""

import functools
import json
import platform
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import torch
from filelock import FileLock

from tests.frontend_inductor.captured import Capture, CaptureFailedError
from wrapperir.ir import Program
from wrapperir.text import parse_program

HERE = Path(__file__).parent


Answers = Callable[[str], dict[str, Any]]


@pytest.fixture(scope="session")
def captured(answers: Answers) -> Capture:
    """Return what captures a case."""

    @functools.cache
    def capture(name: str) -> list[Program]:
        return [parse_program(text) for text in answers(name)["programs"]]

    return capture


@pytest.fixture(scope="session")
def compiled_early(answers: Answers) -> Callable[[str], list[dict[str, Any]]]:
    """Return what gives the kernels that a case's capture begins to compile."""
    return lambda name: answers(name)["early"]


@pytest.fixture(scope="session")
def answers(run_cache: Path) -> Generator[Answers]:
    """Return what captures a case, in a process with a GPU that is made up.

    The processes of a run capture a case once.
    """
    if torch.cuda.is_available():
        pytest.skip("a real GPU is there")
    if platform.system() != "Linux":
        pytest.skip("the libraries of PyTorch are named as on Linux")
    folder = run_cache / "captured"
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:

        @functools.cache
        def process() -> subprocess.Popen[str]:
            return stack.enter_context(_started(_library(run_cache)))

        @functools.cache
        def answer_of(name: str) -> dict[str, Any]:
            kept = folder / f"{quote(name, safe='')}.json"
            with FileLock(f"{kept}.lock"):
                if not kept.exists():
                    kept.write_text(_answer(process(), name))
            answer: dict[str, Any] = json.loads(kept.read_text())
            if "error" in answer:
                raise CaptureFailedError(answer["error"])
            return answer

        yield answer_of


def _library(folder: Path) -> Path:
    """Return the library of the made-up GPU, which the first process of a run builds."""
    library = folder / "made_up_gpu.so"
    torch_folder = Path(torch.__file__).parent
    command = ["g++", "-std=c++20", "-shared", "-fPIC", f"-I{torch_folder / 'include'}"]
    source = HERE / "made_up_gpu.cpp"
    libraries = [f"-L{torch_folder / 'lib'}", "-lc10", "-ltorch_cpu"]
    with FileLock(f"{library}.lock"):
        if not library.exists():
            command += [str(source), "-o", str(library), *libraries]
            subprocess.run(command, check=True)
    return library


@contextmanager
def _started(library: Path) -> Generator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.frontend_inductor.made_up_gpu", str(library)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=HERE.parents[1],
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def _answer(process: subprocess.Popen[str], name: str) -> str:
    """Return the programs of a case, or why it was not captured, as JSON."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{name}\n")
    process.stdin.flush()
    line = process.stdout.readline()
    assert line, "the process ended"
    return line
