"""Triton kernels that are compiled before they are asked for."""

import os
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from wrapperir.kernels import CompileFacts, Target, TritonJob
from wrapperir.kernels.triton_ahead import Ahead
from wrapperir.kernels.triton_compile import Workers, write_jobs

pytest.importorskip("triton")

SOURCE = """\
import triton
import triton.language as tl

@triton.jit
def add(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, at < n) + 1, at < n)
"""
FACTS = {
    "name": "add",
    "source": "add.py",
    "entry": "add",
    "signature": [["x", "*fp32"], ["y", "*fp32"], ["n", "i32"]],
    "values": {"BLOCK": 128},
    "aligned": [0, 1],
    "checked": [],
    "descriptors": [],
}
JOB = TritonJob("add", Target("sm_90"), True, "add.cubin", FACTS, {})


class Runs:
    """Jobs that end when the test says so."""

    def __init__(self) -> None:
        self.statuses: list[Future[int]] = []
        self.folders: list[Path] = []

    def __call__(self, directory: Path, task: CompileFacts, source: str) -> "Future[int]":
        assert directory.is_dir()
        self.folders.append(directory)
        self.statuses.append(Future())
        return self.statuses[-1]


def begin(ahead: Ahead, *sources: str) -> None:
    for source in sources:
        ahead.begin(JOB.task, source)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Workers]:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    made = Workers()
    yield made
    made.close()


def test_triton_finds_what_was_compiled_before(workers: Workers, tmp_path: Path) -> None:
    workers.ahead.begin(JOB.task, SOURCE)
    workers.ahead.wait()
    (kept,) = (tmp_path / "triton").rglob("*.cubin")
    written = kept.stat().st_mtime_ns
    folder = tmp_path / "jobs"
    write_jobs(folder, [JOB.task], {"add.py": SOURCE})
    workers.compile(folder, "add")
    assert (folder / "add.cubin").read_bytes() == kept.read_bytes()
    assert [*(tmp_path / "triton").rglob("*.cubin")] == [kept]
    assert kept.stat().st_mtime_ns == written


def test_a_kernel_that_does_not_compile_is_not_heard_of(workers: Workers) -> None:
    workers.ahead.begin(JOB.task, "no Python")
    workers.ahead.wait()
    assert workers.is_running


def test_only_so_many_are_compiled_at_once() -> None:
    runs = Runs()
    ahead = Ahead(runs, 2)
    begin(ahead, "a", "b", "c", "a")
    assert len(runs.statuses) == 2
    runs.statuses[1].set_result(0)
    assert len(runs.statuses) == 3
    assert not runs.folders[1].exists()
    for status in (runs.statuses[0], runs.statuses[2]):
        status.set_result(0)
    ahead.wait()
    begin(ahead, "c")
    assert len(runs.statuses) == 3


def test_the_others_are_dropped_if_the_processes_have_ended() -> None:
    runs = Runs()
    ahead = Ahead(runs, 1)
    begin(ahead, "a", "b")
    runs.statuses[0].set_exception(OSError())
    ahead.wait()
    assert len(runs.statuses) == 1


def test_a_forked_process_waits_for_its_own_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs()
    ahead = Ahead(runs, 1)
    begin(ahead, "a")
    monkeypatch.setattr(os, "getpid", lambda: -1)
    ahead.wait()
    begin(ahead, "a")
    assert len(runs.statuses) == 2
    runs.statuses[1].set_result(0)
    ahead.wait()
