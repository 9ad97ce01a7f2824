"""Compiles Triton kernels ahead of time, with or without a GPU.

Compiling executes a kernel's source, so it happens in worker processes.  Starting one takes
longer than compiling a kernel: each waits for further jobs until this process ends.
"""

import atexit
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, TypeAlias

from attrs import evolve, frozen

from wrapperir.kernels.compiler import failed, killed_by
from wrapperir.kernels.cpp_build import side_by_side
from wrapperir.kernels.gpu_targets import Target

_JOBS_OF_A_PROCESS = 6
_SECONDS = 600
_SHOWN = 2000


CompileFacts: TypeAlias = Mapping[str, Any]
"""How a kernel is compiled.

It has a ``name`` for messages, the path of its ``source``, its ``entry``, the
``signature`` of the arguments that a launch passes, the ``values`` of constants and
options, and positions in the signature: ``aligned`` arguments are multiples of 16,
``checked`` ones are where the aligned variant is launched, and ``descriptors`` are tensor
descriptors.
"""


@frozen
class TritonJob:
    """One compilation of a kernel for a target, for aligned addresses or any."""

    symbol: str
    target: Target
    is_aligned: bool
    file: str
    facts: CompileFacts
    result: CompileFacts

    @property
    def task(self) -> CompileFacts:
        """The job as the worker reads it."""
        aligned = list(self.facts["aligned"])
        if self.is_aligned:
            aligned += self.facts["checked"]
        keys = ("source", "entry", "signature", "values")
        return {
            **{key: self.facts[key] for key in keys},
            "aligned": aligned,
            "backend": self.target.backend,
            "architecture": self.target.architecture,
            "lanes": self.target.lanes,
            "suffix": self.target.suffix,
            "file": self.file,
        }


def compile_triton(
    kernels: Mapping[str, CompileFacts],
    sources: Mapping[str, str],
    targets: Sequence[Target],
    folder: str,
) -> tuple[list[TritonJob], dict[str, bytes]]:
    """Return the compilations of kernels by symbol, and the files that they made.

    A kernel with ``checked`` arguments has two variants for each target.  If it does not
    compile for one of several targets, that target lacks it, and the result says why.
    ``folder`` is the folder of the files, a path that ends with ``/``.

    Raises:
        DiagnosticError: WIR709, a kernel compiles for no target.
    """
    jobs: list[TritonJob] = []
    for symbol, facts in kernels.items():
        for target in targets:
            for is_aligned in (True, False) if facts["checked"] else (False,):
                # The variant for any address is rarely launched.
                variant = ".any" if facts["checked"] and not is_aligned else ""
                file = f"{folder}{symbol}{variant}.{target.name}.{target.suffix}"
                jobs.append(TritonJob(symbol, target, is_aligned, file, facts, {}))
    # A kernel's jobs stay together: its source is then executed once.
    count = max(1, min(os.cpu_count() or 1, len(jobs) // _JOBS_OF_A_PROCESS))
    size = -(-len(jobs) // count)
    parts = [jobs[i : i + size] for i in range(0, len(jobs), size)]
    done: list[TritonJob] = []
    built: dict[str, bytes] = {}
    for part, contents in side_by_side(lambda part: _run(part, sources), parts):
        done += part
        built.update(contents)
    for symbol, facts in kernels.items():
        of_kernel = [job for job in done if job.symbol == symbol]
        without = {job.target: job for job in of_kernel if "error" in job.result}
        if without and len(without) == len({job.target for job in of_kernel}):
            first = next(iter(without.values()))
            name, error = first.target.name, first.result["error"]
            raise failed(f"{facts['name']} does not compile for {name}: {error}")
    return done, built


def _run(
    jobs: Sequence[TritonJob], sources: Mapping[str, str]
) -> tuple[list[TritonJob], dict[str, bytes]]:
    """Return the jobs with their results, and the files that they made."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for path in {job.facts["source"] for job in jobs}:
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            (directory / path).write_text(sources[path], encoding="utf-8")
        for job in jobs:
            (directory / job.file).parent.mkdir(parents=True, exist_ok=True)
        tasks = [job.task for job in jobs]
        (directory / "jobs.json").write_text(json.dumps(tasks), encoding="utf-8")
        names = ", ".join(dict.fromkeys(job.facts["name"] for job in jobs))
        WORKERS.compile(directory, names)
        results = json.loads((directory / "results.json").read_text(encoding="utf-8"))
        done = [
            evolve(job, result=result) for job, result in zip(jobs, results, strict=True)
        ]
        made = {
            job.file: (directory / job.file).read_bytes()
            for job in done
            if "error" not in job.result
        }
    return done, made


@frozen(eq=False)
class _Worker:
    process: "subprocess.Popen[str]"
    errors: IO[bytes]


class Workers:
    """Idle worker processes; another is started when all are busy."""

    def __init__(self) -> None:
        """Start with none."""
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._owner = os.getpid()

    def compile(self, directory: Path, names: str) -> None:
        """Do the jobs in a directory; ``names`` are their kernels', for messages.

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
        except BaseException:  # interrupted, it may answer later
            worker.process.kill()
            _end(worker)
            raise
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
            if self._owner != os.getpid():  # forked: the workers belong to the parent
                self._idle, self._owner = [], os.getpid()
            while self._idle:
                worker = self._idle.pop()
                if worker.process.poll() is None:
                    return worker
                _end(worker)  # something killed it
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "wrapperir.kernels.triton_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,  # Ctrl-C is for this process, and leaves idle workers
        )
        return _Worker(process, errors)

    def close(self) -> None:
        """End the idle workers."""
        with self._lock:
            if self._owner != os.getpid():
                return
            for worker in self._idle:
                worker.process.kill()
                _end(worker)
            self._idle.clear()


def _ask(process: "subprocess.Popen[str]", directory: Path) -> str:
    """Return the answer; empty if the process has ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(f"{directory}\n")
        process.stdin.flush()
    except BrokenPipeError:
        return ""
    return process.stdout.readline()


def _end(worker: _Worker) -> str:
    """Wait for a process to end; return what killed it, and the end of its error output."""
    for pipe in (worker.process.stdin, worker.process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()
    status = worker.process.wait()
    with worker.errors:
        worker.errors.seek(0)
        text = worker.errors.read().decode(errors="replace")
    shown = "\n".join(text.strip().splitlines()[-3:])[-_SHOWN:]
    if status >= 0:
        return shown
    return f"it was {killed_by(-status)}" + (f"\n{shown}" if shown else "")


WORKERS = Workers()
atexit.register(WORKERS.close)
