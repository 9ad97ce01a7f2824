"""Compilers that are killed or interrupted while they build kernels."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forked_processes import ProcessServer
from wrapperir.diagnostics import DiagnosticError
from wrapperir.kernels.compiler import Compiler
from wrapperir.kernels.triton_compile import Workers

INTERRUPT = (KeyboardInterrupt, "^$")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="signals of Linux")


@pytest.fixture
def workers() -> Iterator[Workers]:
    made = Workers()
    yield made
    made.close()


def _no_jobs(folder: Path) -> Path:
    folder.mkdir()
    (folder / "jobs.json").write_text("[]")
    return folder


def _one_job(folder: Path, source: str) -> Path:
    folder.mkdir()
    (folder / "k.py").write_text(source)
    job = {"source": "k.py", "entry": "k", "file": "k.cubin"}
    (folder / "jobs.json").write_text(json.dumps([job]))
    return folder


def test_an_idle_worker_that_was_killed_is_replaced(
    workers: Workers, tmp_path: Path
) -> None:
    workers.compile(_no_jobs(tmp_path / "first"), "k")
    (worker,) = workers._idle
    worker.process.kill()
    os.waitid(os.P_PID, worker.process.pid, os.WEXITED | os.WNOWAIT)
    second = _no_jobs(tmp_path / "second")
    workers.compile(second, "k")
    assert (second / "results.json").read_text() == "[]"


def test_a_worker_that_is_killed_at_work_is_named(workers: Workers, tmp_path: Path) -> None:
    source = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"
    with pytest.raises(
        DiagnosticError, match=r"k: .* ended: it was killed by signal 9; was"
    ):
        workers.compile(_one_job(tmp_path / "killed", source), "k")
    after = _no_jobs(tmp_path / "after")
    workers.compile(after, "k")
    assert (after / "results.json").exists()


def test_an_interrupted_wait_ends_its_worker(workers: Workers, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    source = f"import pathlib, time\npathlib.Path({str(begun)!r}).touch()\ntime.sleep(60)\n"
    folder = _one_job(tmp_path / "slow", source)

    def interrupt() -> None:
        while not begun.exists():
            time.sleep(0.01)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        workers.compile(folder, "k")
    thread.join()
    assert not workers._idle
    after = _no_jobs(tmp_path / "after")
    workers.compile(after, "k")
    assert (after / "results.json").exists()


def test_ctrl_c_leaves_idle_workers_alone(
    process_server: ProcessServer, tmp_path: Path
) -> None:
    _no_jobs(tmp_path / "jobs")
    # In a session of its own, as in a terminal: all its processes are interrupted.
    code = f"""
import os, pathlib, signal, time
from wrapperir.kernels.triton_compile import WORKERS
folder = pathlib.Path({str(tmp_path / "jobs")!r})
os.setsid()
WORKERS.compile(folder, "k")
(worker,) = WORKERS._idle
try:
    os.killpg(0, signal.SIGINT)
    time.sleep(5)
except KeyboardInterrupt:
    time.sleep(0.2)
    WORKERS.compile(folder, "k")
    assert WORKERS._idle == [worker]
    print("compiled")
"""
    done = process_server.run("-c", code)
    assert done.stdout == "compiled\n", done.stderr


@pytest.mark.parametrize(
    ("script", "raised", "message"),
    [
        ("kill -INT $$", *INTERRUPT),
        ("exit 130", *INTERRUPT),
        ("echo 'Interrupt signal terminated program cc1plus' >&2; exit 1", *INTERRUPT),
        ("kill -KILL $$", DiagnosticError, "WIR709.* k.cpp .*killed by signal 9; was"),
        ("kill -SEGV $$", DiagnosticError, "WIR709.* k.cpp .*killed by signal 11$"),
    ],
)
def test_a_compiler_that_a_signal_ends(
    script: str, raised: type[BaseException], message: str, tmp_path: Path
) -> None:
    compiler = Compiler(("bash", "-c", script), "")
    with pytest.raises(raised, match=message):
        compiler.run([], tmp_path, "k.cpp")
