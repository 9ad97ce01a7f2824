"""What is emitted has no error of memory, no undefined behaviour, and leaks nothing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.cpp_emitter import sanitized_runs
from tests.cpp_emitter.running import parsed
from tests.cpp_emitter.test_leaks import EVERYTHING
from wrapperir_cpp.emitter import CppEmitter

ROOT = Path(__file__).parents[2]
TORCH = Path(torch.__file__).parent / "lib"
# Unoptimized, no error is optimized away, and compiling takes less time.
FLAGS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-g1", "-O0")


def sanitizer(name: str) -> str:
    """Return the path of a library that programs need to have loaded first."""
    command = ["c++", f"-print-file-name={name}"]
    return subprocess.run(
        command, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture(scope="module")
def compiler(run_cache: Path) -> str:
    """Return a compiler that adds the sanitizers; each process of a run has the same."""
    if shutil.which("c++") is None or not Path(sanitizer("libasan.so")).is_absolute():
        pytest.skip("the compiler has no sanitizers")
    script = run_cache.with_name("sanitizing-c++")
    written = script.with_suffix(f".{os.getpid()}")
    written.write_text(f'#!/bin/sh\nexec c++ "$@" {" ".join(FLAGS)}\n')
    written.chmod(0o700)
    written.replace(script)
    return str(script)


@pytest.mark.slow
@pytest.mark.parametrize("nth", [2, pytest.param(1, marks=pytest.mark.sweep)])
def test_programs_run_with_sanitizers(compiler: str, nth: int) -> None:
    preloaded = " ".join(sanitizer(name) for name in ("libasan.so", "libubsan.so"))
    # Python itself leaves memory behind when it ends; few frames of allocations are kept.
    asan = "detect_leaks=0:malloc_context_size=4:quarantine_size_mb=32"
    options = {"ASAN_OPTIONS": asan, "UBSAN_OPTIONS": "print_stacktrace=1"}
    done = subprocess.run(
        [sys.executable, "-m", sanitized_runs.__name__, compiler, str(nth)],
        cwd=ROOT,
        env={**os.environ, **options, "LD_PRELOAD": preloaded},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{done.stdout[-300:]}\n{done.stderr[-6000:]}"
    assert done.stdout.count("generated\n") >= sanitized_runs.GENERATED // nth


def built(folder: Path, harness: str, compiler: str) -> Path:
    """Return a C program that is linked with the library of ``EVERYTHING``."""
    emitter = CppEmitter()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CXX", compiler)
        artifact = emitter.build(emitter.emit(parsed(EVERYTHING)), {})
    for name in ("program.so", "runtime/wrapperir.h"):
        content = artifact.files[name]
        path = folder / Path(name).name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    source, program = folder / "harness.c", folder / "harness"
    source.write_text(harness)
    command = ["gcc", *FLAGS, f"-I{folder}", str(source), "-o", str(program)]
    command += [str(folder / "program.so"), f"-L{TORCH}", "-ltorch_cpu", "-lc10"]
    command += [f"-Wl,-rpath,{TORCH}", f"-Wl,-rpath,{folder}"]
    subprocess.run(command, check=True)
    return program


HARNESS = Path(__file__).with_name("calls_harness.c").read_text()


def run(program: Path) -> subprocess.CompletedProcess[str]:
    options = {"ASAN_OPTIONS": "detect_leaks=1"}
    environment = {**os.environ, **options}
    return subprocess.run([program], env=environment, capture_output=True, text=True)


def test_calls_without_python_leak_nothing(compiler: str, tmp_path: Path) -> None:
    done = run(built(tmp_path, HARNESS, compiler))
    assert done.returncode == 0, done.stderr[-6000:]


@pytest.mark.parametrize(
    "forgotten",
    ["wrapperir_close(program);", "aoti_torch_delete_tensor_object(outputs[i].as.tensor);"],
)
def test_a_leak_would_be_found(compiler: str, tmp_path: Path, forgotten: str) -> None:
    assert HARNESS.count(forgotten) == 1
    done = run(built(tmp_path, HARNESS.replace(forgotten, ";"), compiler))
    assert done.returncode != 0
    assert "LeakSanitizer" in done.stderr
