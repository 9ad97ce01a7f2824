"""The processes that compile Triton kernels.

Compiling executes a kernel's source, so it happens in other processes.  Importing Triton
takes longer than compiling a kernel: one process does that, waits for jobs until this
process ends, and forks a process for each part of them.
"""

import atexit
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

from wrapperir.kernels.compiler import failed, killed_by
from wrapperir.kernels.triton_ahead import Ahead, CompileFacts

_SECONDS = 600
_SHOWN = 2000
_IMPORTED = re.compile(
    r"^[ \t]*(?:from|import)[ \t]+((?:torch|triton)\b[.\w]*)"
    r"(?:[ \t]+import[ \t]+([\w, \t]+))?",
    re.MULTILINE,
)
_WORKER = Path(__file__).with_name("triton_worker.py")
_COMPILER: tuple[str, ...] = (
    *("triton.compiler.compiler", "triton.compiler.code_generator"),
    "triton.backends.nvidia.compiler",
)


class _EndedError(Exception):
    """The process that forks others has ended."""


class _Nursery:
    """A process that has Triton imported, and forks the processes that compile."""

    def __init__(self) -> None:
        """Start it."""
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self.process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-P", str(_WORKER)],  # as a module it would import torch
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            start_new_session=True,  # Ctrl-C is for this process, and leaves that one
        )
        self.imported: set[str] = set()
        self._lock = threading.Lock()
        self._waiting: dict[str, Future[int]] = {}
        threading.Thread(target=self._read, daemon=True, name="triton-workers").start()

    def tell(self, command: str) -> None:
        """Send a command.

        Raises:
            _EndedError: the process has ended.
        """
        assert self.process.stdin is not None
        with self._lock:
            try:
                self.process.stdin.write(f"{command}\n")
                self.process.stdin.flush()
            except (OSError, ValueError):  # it is closed
                raise _EndedError from None

    def run(self, directory: Path) -> "Future[int]":
        """Return the exit status, to come, of a process that does a directory's jobs."""
        status: Future[int] = Future()
        self._waiting[str(directory)] = status
        try:
            self.tell(f"run {directory}")
        except _EndedError:
            self._waiting.pop(str(directory), None)
            raise
        return status

    def _read(self) -> None:
        """Take the answers."""
        assert self.process.stdout is not None
        with suppress(OSError, ValueError):
            for line in self.process.stdout:
                status, _, directory = line.rstrip("\n").partition(" ")
                future = self._waiting.pop(directory, None)
                if future is not None:
                    future.set_result(int(status))
        while self._waiting:
            _, future = self._waiting.popitem()
            future.set_exception(_EndedError())

    def close(self) -> str:
        """End it and what it forked; return what ended it, and its last output."""
        with suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        status = self.process.wait()
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()
        self.errors.seek(0)
        text = self.errors.read().decode(errors="replace")
        return _ending(status, text)


def _ending(status: int, output: str) -> str:
    """Return what killed a process, and the end of its output."""
    shown = "\n".join(output.strip().splitlines()[-3:])[-_SHOWN:]
    if status >= 0:
        return shown
    return f"it was {killed_by(-status)}" + (f"\n{shown}" if shown else "")


class Workers:
    """Processes that compile kernels, forked by one that is started when it is needed."""

    def __init__(self) -> None:
        """Start none."""
        self._lock = threading.Lock()
        self._nursery: _Nursery | None = None
        self._owner = os.getpid()
        self._expected: dict[str, None] = {}
        self.ahead = Ahead(self._begin, max(1, (os.cpu_count() or 1) - 1))
        """What is compiled before it is asked for."""

    @property
    def is_running(self) -> bool:
        """Whether the process that forks others was started here and has not ended."""
        nursery = self._nursery
        here = self._owner == os.getpid()
        return here and nursery is not None and nursery.process.poll() is None

    def expect(self, modules: Iterable[str]) -> None:
        """Have the process import modules as soon as it starts: sources to come do so."""
        self._expected.update(dict.fromkeys(modules))

    def start(self, modules: Sequence[str] = ()) -> None:
        """Start the process that forks others, if it does not run; do not wait for it.

        ``modules`` are imported there once: those that sources of kernels import, beside
        those that are expected.
        """
        with suppress(_EndedError):
            self._running((*modules, *self._expected))

    def compile(self, directory: Path, names: str, modules: Sequence[str] = ()) -> None:
        """Do the jobs in a directory; ``names`` are their kernels', for messages.

        What is compiled ahead comes first: it may be the same.

        Raises:
            DiagnosticError: WIR709, the process ended or took too long.
        """
        nursery: _Nursery | None = None
        self.ahead.wait()
        try:
            nursery = self._running(modules)
            status = nursery.run(directory).result(_SECONDS)
        except _EndedError:
            words = "" if nursery is None else nursery.close()
            raise failed(f"{names}: the compiler of kernels ended: {words}") from None
        except BaseException as error:
            if nursery is not None:
                with suppress(_EndedError):
                    nursery.tell(f"end {directory}")
            if isinstance(error, TimeoutError):
                late = f"{names}: not compiled after {_SECONDS} seconds"
                raise failed(late) from None
            raise
        if status:
            output = directory / "output"
            text = output.read_text(errors="replace") if output.exists() else ""
            words = _ending(status, text)
            raise failed(f"{names}: the compiler of kernels ended: {words}")

    def _begin(self, directory: Path, task: CompileFacts, source: str) -> "Future[int]":
        """Return the exit status, to come, of a process that does one job."""
        try:
            write_jobs(directory, [task], {task["source"]: source})
            return self._running(imported_modules([source])).run(directory)
        except (_EndedError, OSError) as error:
            status: Future[int] = Future()
            status.set_exception(error)
            return status

    def _running(self, modules: Sequence[str]) -> _Nursery:
        """Return the process that forks others, started if need be, with modules."""
        with self._lock:
            if self._owner != os.getpid():  # forked: the process belongs to the parent
                self._nursery, self._owner = None, os.getpid()
            if self._nursery is not None and self._nursery.process.poll() is not None:
                self._nursery.close()  # something killed it
                self._nursery = None
            if self._nursery is None:
                self._nursery = _Nursery()
            nursery = self._nursery
            new = [name for name in modules if name not in nursery.imported]
            if new:
                nursery.imported.update(new)
                nursery.tell(f"import {' '.join(new)}")
            return nursery

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            if self._owner == os.getpid() and self._nursery is not None:
                self._nursery.close()
                self._nursery = None


def imported_modules(sources: Iterable[str]) -> tuple[str, ...]:
    """Return the modules of Triton and PyTorch that sources of kernels may import."""
    found: dict[str, None] = dict.fromkeys(_COMPILER)
    for source in sources:
        for module, names in _IMPORTED.findall(source):
            found[module] = None
            for name in names.split(","):  # a name may be that of a module
                words = name.split()
                if words:
                    found[f"{module}.{words[0]}"] = None
    return tuple(found)


def write_jobs(
    directory: Path, tasks: Sequence[CompileFacts], sources: Mapping[str, str]
) -> None:
    """Write jobs for a worker into a directory, with their ``sources`` by path."""
    for path in {str(task["source"]) for task in tasks}:
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(sources[path], encoding="utf-8")
    for task in tasks:
        (directory / task["file"]).parent.mkdir(parents=True, exist_ok=True)
    (directory / "jobs.json").write_text(json.dumps(tasks), encoding="utf-8")


def start_compiler() -> None:
    """Start the process that compiles kernels, and do not wait for it."""
    WORKERS.start(_COMPILER)


WORKERS = Workers()
atexit.register(WORKERS.close)
