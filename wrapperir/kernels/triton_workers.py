"""Processes that compile Triton kernels: a kernel's source is executed for that.

Starting one takes longer than compiling a kernel, so each waits for more until this process
ends.
"""

import atexit
import os
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO

from attrs import frozen

from wrapperir.kernels.compiler import failed

_SECONDS = 600
_SHOWN = 2000


@frozen(eq=False)
class _Worker:
    process: "subprocess.Popen[str]"
    errors: IO[bytes]


class Workers:
    """Those that wait for work; more are started where all are busy."""

    def __init__(self) -> None:
        """Start with none."""
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._owner = os.getpid()

    def compile(self, directory: Path, names: str) -> None:
        """Have the jobs of a directory done; ``names`` are those of their kernels.

        Raises:
            DiagnosticError: WIR709, the process ended or took too long.
        """
        worker = self._take()
        late = threading.Event()

        def end() -> None:
            late.set()
            worker.process.kill()

        timer = threading.Timer(_SECONDS, end)
        timer.start()
        try:
            answer = _ask(worker.process, directory)
        finally:
            timer.cancel()
        if answer:
            with self._lock:
                self._idle.append(worker)
            return
        words = _end(worker)
        if late.is_set():
            raise failed(f"{names}: not compiled after {_SECONDS} seconds")
        raise failed(f"{names}: the compiler of kernels ended: {words}")

    def _take(self) -> _Worker:
        with self._lock:
            if self._owner != os.getpid():  # this is a copy of the process that began them
                self._idle, self._owner = [], os.getpid()
            if self._idle:
                return self._idle.pop()
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "wrapperir.kernels.triton_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        return _Worker(process, errors)

    def close(self) -> None:
        """End those that wait."""
        with self._lock:
            if self._owner != os.getpid():
                return
            for worker in self._idle:
                worker.process.kill()  # it waits: nothing is lost
                _end(worker)
            self._idle.clear()


def _ask(process: "subprocess.Popen[str]", directory: Path) -> str:
    """Return the answer; nothing where the process has ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(f"{directory}\n")
        process.stdin.flush()
    except BrokenPipeError:
        return ""
    return process.stdout.readline()


def _end(worker: _Worker) -> str:
    """Wait for the end of a process that has no more to do; return its last words."""
    for pipe in (worker.process.stdin, worker.process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()
    worker.process.wait()
    with worker.errors:
        worker.errors.seek(0)
        text = worker.errors.read().decode(errors="replace")
    return "\n".join(text.strip().splitlines()[-3:])[-_SHOWN:]


WORKERS = Workers()
atexit.register(WORKERS.close)
