"""The process that forks others, which compile Triton kernels."""

import subprocess
import sys
from collections.abc import Sequence

import pytest

from wrapperir.kernels import triton_worker
from wrapperir.kernels.triton_compile import Workers, imported_modules

pytest.importorskip("triton")


def test_forked_processes_need_not_digest_triton_again() -> None:
    code = f"""
import runpy, sys
worker = runpy.run_path({triton_worker.__file__!r})
worker["import_modules"]({imported_modules([])!r})
from triton.runtime import cache
print(cache.triton_key.cache_info().currsize, "torch" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1", "False"]


def test_expected_modules_are_imported_at_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[Sequence[str]] = []
    workers = Workers()

    def running(modules: Sequence[str]) -> None:
        told.append(tuple(modules))

    monkeypatch.setattr(workers, "_running", running)
    workers.expect(["triton.tools"])
    workers.start(["triton.language"])
    assert told == [("triton.language", "triton.tools")]


def test_a_process_that_ends_just_before_the_wait_is_seen() -> None:
    code = f"""
import os, runpy, select, signal, sys, types
worker = runpy.run_path({triton_worker.__file__!r})
lines = worker["_lines"](lambda: sys.exit(3))
def wait(*files):
    os.kill(os.getpid(), signal.SIGCHLD)
    return select.select(*files)
lines.gi_frame.f_globals["select"] = types.SimpleNamespace(select=wait)
next(lines)
"""
    command = [sys.executable, "-P", "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.wait(60) == 3
