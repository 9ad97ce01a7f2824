"""Compilers that are killed or interrupted while they build kernels."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.forked_processes import ProcessServer
from wrapperir.diagnostics import DiagnosticError
from wrapperir.kernels.compiler import Compiler
from wrapperir.kernels.triton_compile import Workers, imported_modules
from wrapperir.kernels.triton_jobs import split_evenly

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


def test_a_process_that_was_killed_while_it_waited_is_replaced(
    workers: Workers, tmp_path: Path
) -> None:
    workers.compile(_no_jobs(tmp_path / "first"), "k")
    assert workers._nursery is not None
    process = workers._nursery.process
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
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
    assert workers._nursery is not None
    while workers._nursery._waiting:  # until the process of the jobs has ended
        time.sleep(0.01)
    after = _no_jobs(tmp_path / "after")
    workers.compile(after, "k")
    assert (after / "results.json").exists()


def test_a_process_that_is_killed_with_its_jobs_is_named(
    workers: Workers, tmp_path: Path
) -> None:
    source = "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n"
    with pytest.raises(
        DiagnosticError, match=r"k: .* ended: it was killed by signal 9; was"
    ):
        workers.compile(_one_job(tmp_path / "killed", source), "k")
    after = _no_jobs(tmp_path / "after")
    workers.compile(after, "k")
    assert (after / "results.json").exists()


def test_jobs_of_several_directories_are_done_side_by_side(
    workers: Workers, tmp_path: Path
) -> None:
    places = [tmp_path / name for name in ("first", "second")]

    def waiting_for(other: Path) -> str:
        return (
            f"import pathlib, time\npathlib.Path(__file__).with_name('begun').touch()\n"
            f"while not pathlib.Path({str(other / 'begun')!r}).exists(): time.sleep(0.01)\n"
        )

    for place, other in zip(places, reversed(places), strict=True):
        _one_job(place, waiting_for(other))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda place: workers.compile(place, "k"), places))
    for place in places:
        (result,) = json.loads((place / "results.json").read_text())
        assert "defines no kernel" in result["error"]


def test_modules_are_imported_once_for_all_jobs(workers: Workers, tmp_path: Path) -> None:
    workers.start(["colorsys", "no.such.module"])
    source = "import sys\nassert 'colorsys' in sys.modules, 'not imported'\n"
    place = _one_job(tmp_path / "jobs", source)
    workers.compile(place, "k")
    (result,) = json.loads((place / "results.json").read_text())
    assert "defines no kernel" in result["error"]


def test_modules_that_sources_import_are_found() -> None:
    source = """
import triton
import triton.language as tl
import numpy
from torch._inductor.runtime import triton_helpers, triton_heuristics as h
from torchvision import ops
"""
    found = imported_modules([source])
    assert [name for name in found if not name.startswith("triton.")] == [
        "triton",
        "torch._inductor.runtime",
        "torch._inductor.runtime.triton_helpers",
        "torch._inductor.runtime.triton_heuristics",
    ]


@pytest.mark.parametrize("count", [0, 1, 3, 4, 9])
def test_items_are_split_evenly(count: int) -> None:
    parts = split_evenly(range(count), 4)
    assert [item for part in parts for item in part] == list(range(count))
    assert len(parts) == min(count, 4)
    assert max(map(len, parts), default=0) - min(map(len, parts), default=0) <= 1


@pytest.mark.slow
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
process = WORKERS._nursery.process
try:
    os.killpg(0, signal.SIGINT)
    time.sleep(5)
except KeyboardInterrupt:
    time.sleep(0.2)
    WORKERS.compile(folder, "k")
    assert WORKERS._nursery.process is process
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
