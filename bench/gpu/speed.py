"""Speed and memory on a GPU, beside eager PyTorch and Inductor.

Workloads are measured in groups.  First each contender of a group compiles in two new
processes, with empty caches and with the caches that it left; several do so at once.  Then
all contenders of a workload compile in one process, with copies of these caches, and take
turns.  One process is timed at a time, while nothing else runs.  A contender that ends this
process loses its figures; the others take turns again without it.

The page ``docs/results/gpu-speed.md`` is written after every figure, from all figures that
are there.

    python -m bench.gpu.speed [--workload NAME ...] [--resume] [--rounds N]
                              [--no-build] [--no-calls]
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import click
import torch
from attrs import define, field, frozen

from bench.bytecode import with_bytecode
from bench.gpu.contenders import CONTENDERS
from bench.gpu.figures import TABLES, Figures
from bench.gpu.models import WORKLOADS, Workload
from bench.gpu.page import SECTIONS, page_text
from bench.machine import describe_gpu_machine, measured_commit
from bench.results import ROOT, Record, ResultFile

PAGE = ROOT / "docs" / "results" / "gpu-speed.md"
LIMIT = 120
"""Seconds that a process may take for one contender, about three times the slowest seen."""
GROUP = 4
"""Workloads that are built before they are timed, one after the other."""
MEMORY_OF_A_PROCESS = 10 * 2**30
CORES_OF_A_PROCESS = 2


@frozen(kw_only=True)
class Run:
    """Where records of a run go, and how many processes run at once.

    ``environment`` is that of each process, but for its caches.
    """

    results: ResultFile
    folder: Path
    environment: Mapping[str, str]
    rounds: int
    jobs: int
    begun: float = field(factory=time.monotonic)
    adding: threading.Lock = field(factory=threading.Lock)

    @property
    def seconds(self) -> float:
        """The seconds since the run began."""
        return time.monotonic() - self.begun

    def add(self, record: Record, progress: str) -> None:
        """Keep a record, write the page, and say what was done."""
        with self.adding:
            self.results.add(record)
            PAGE.write_text(page_text(Figures(self.results.read())))
        self.say(progress)

    def say(self, progress: str) -> None:
        """Print what was done, and when."""
        click.echo(f"[{self.seconds:4.0f} s] {progress}")

    def caches(self, name: str) -> dict[str, str]:
        """Return the environment of a process with caches of that name."""
        folder = self.folder / name
        return {
            **self.environment,
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
            "TRITON_CACHE_DIR": str(folder / "triton"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "TORCHINDUCTOR_COMPILE_THREADS": str(CORES_OF_A_PROCESS),
            "PYTHONUNBUFFERED": "1",
        }

    def start(
        self, module: str, *arguments: str, caches: str, output: int = subprocess.PIPE
    ) -> "subprocess.Popen[str]":
        """Start a module of this package; its standard error goes to a file."""
        with self.log(f"{module.removeprefix('bench.')}-{caches}").open("a") as errors:
            return subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                cwd=ROOT,
                env=self.caches(caches),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=errors,
                text=True,
            )

    def log(self, name: str) -> Path:
        """Return a file beside the results, for what a process prints."""
        logs = self.results.path.parent / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        return logs / f"{name}.txt"


def _ended(process: "subprocess.Popen[str]") -> str:
    """Return why a process gave no figures; its log says more."""
    code = process.wait()
    if code == -signal.SIGKILL:
        return "the process was killed: it took too long, or too much memory"
    return f"the process ended with {code} before it had figures"


def _killed_late(
    process: "subprocess.Popen[str]", seconds: float = LIMIT
) -> threading.Timer:
    timer = threading.Timer(seconds, process.kill)
    timer.daemon = True
    timer.start()
    return timer


def _first_calls(run: Run, workload: str, contender: str) -> Mapping[str, float | str]:
    process = run.start(
        *("bench.gpu.first_calls", workload, contender), caches=f"{workload}-{contender}"
    )
    timer = _killed_late(process)
    output, _ = process.communicate()
    timer.cancel()
    lines = output.strip().splitlines()
    if process.returncode or not lines:
        return {"skipped": _ended(process)}
    found: dict[str, float | str] = json.loads(lines[-1])
    return found


def _build(run: Run, workload: str, contender: str) -> tuple[Record, str]:
    """Return the record of a contender's compilation and memory, and words about it."""
    name, compiles = f"{workload}/{contender}/build", contender != "eager"
    cold = warm = _first_calls(run, workload, contender)
    if compiles and "skipped" not in cold:
        warm = _first_calls(run, workload, contender)
    if "skipped" in warm:
        reason = str(warm["skipped"])
        return {"name": name, "skipped": reason}, f"{name}: skipped: {reason}"
    # What an allocator holds differs by tens of percents between equal processes.
    record: dict[str, str | float] = {
        "name": name,
        "allocated": min(float(each["allocated"]) for each in (cold, warm)),
        "reserved": min(float(each["reserved"]) for each in (cold, warm)),
    }
    words = ", ".join(
        f"{key} {value:.1f}" for key, value in record.items() if key != "name"
    )
    return record, f"{name}: {words}"


def measure_builds(run: Run, workloads: Sequence[Workload], done: Figures) -> None:
    """Record compile time and memory of contenders, several at once.

    Contenders are left out that have these figures, or a reason why not.
    """
    with ThreadPoolExecutor(run.jobs) as pool, contextlib.ExitStack() as stack:
        stack.callback(pool.shutdown, cancel_futures=True)  # where the run is stopped
        futures = [
            pool.submit(_build, run, workload.name, contender.name)
            for workload in workloads
            for contender in CONTENDERS
            if contender.captures is None
            and not done.settled(workload.name, contender.name, "build")
        ]
        for future in as_completed(futures):
            run.add(*future.result())


@define
class Turns:
    """A process in which contenders of a workload take turns, and what it has said.

    ``contender`` is the one that compiles or has its turn.  ``figures`` are the latest by
    contender, ``dropped`` the contenders that have none.  ``reason`` says why the process
    ends before it ``is_done``.
    """

    workload: Workload
    process: "subprocess.Popen[str]"
    contender: str = ""
    figures: dict[str, Mapping[str, object]] = field(factory=dict)
    dropped: set[str] = field(factory=set)
    reason: str = ""
    is_done: bool = False

    def drop(self, run: Run, contender: str, reason: object) -> None:
        """Record why a contender has no figures."""
        self.figures.pop(contender, None)
        self.dropped.add(contender)
        line = {"contender": contender, "skipped": reason}
        run.add(*_calls_record(self.workload.name, line))


def _lines(process: "subprocess.Popen[str]") -> Iterator[Mapping[str, object]]:
    """Yield what a process says; it is killed if the next line takes too long."""
    assert process.stdout is not None
    while True:
        timer = _killed_late(process)
        line = process.stdout.readline()
        timer.cancel()
        if not line.endswith("\n"):  # the end, or the process was killed while it wrote
            return
        yield json.loads(line)


def _start_turns(run: Run, workload: Workload) -> Turns:
    """Start the turns of a workload without contenders that cannot run."""
    for contender in CONTENDERS:
        caches = run.folder / f"{workload.name}-{contender.name}"
        if caches.exists():
            target = run.folder / workload.name
            shutil.copytree(caches, target, symlinks=True, dirs_exist_ok=True)
    figures = Figures(run.results.read())
    without = [c.name for c in CONTENDERS if figures.refused(workload.name, c.name)]
    if without:
        run.say(f"{workload.name}: contenders take turns without {', '.join(without)}")
    arguments = "bench.gpu.turns", workload.name, str(run.rounds), *without
    return Turns(workload, run.start(*arguments, caches=workload.name))


def _listen(run: Run, turns: Turns) -> bool:
    """Hear a process until it is ready to be timed or ends; return whether it is ready."""
    for line in _lines(turns.process):
        turns.contender = str(line.get("begun", ""))
        if "ready" in line:
            return True
        if "compiled" in line:
            name, seconds = f"{turns.workload.name}/{line['compiled']}", line["seconds"]
            run.say(f"{name}: compiled in {seconds:.1f} s")
        elif "contender" in line and "skipped" in line:
            turns.drop(run, str(line["contender"]), line["skipped"])
        elif "contender" in line:
            turns.figures[str(line["contender"])] = line
        elif "skipped" in line:
            turns.reason = str(line["skipped"])
        elif "done" in line:
            turns.is_done = True
    return False


def _let_go(run: Run, turns: Turns) -> None:
    """Time the contenders of a process that is ready."""
    assert turns.process.stdin is not None
    run.add(*_skipped(turns.workload, None))
    with contextlib.suppress(BrokenPipeError):  # it has ended while others were timed
        turns.process.stdin.write("go\n")
        turns.process.stdin.close()
    _listen(run, turns)


def _is_cut_short(run: Run, turns: Turns) -> bool:
    """Record what a process has found when it ends; return whether a contender ended it."""
    timer = _killed_late(turns.process, LIMIT / 5)
    ended = _ended(turns.process)
    timer.cancel()
    failed, reason = not turns.is_done, turns.reason or ended
    if failed and turns.contender:
        turns.drop(run, turns.contender, reason)
    elif failed and not turns.dropped:
        run.add(*_skipped(turns.workload, reason))
    for line in turns.figures.values():
        run.add(*_calls_record(turns.workload.name, line))
    return failed and bool(turns.dropped)


def measure_calls(run: Run, workloads: Sequence[Workload]) -> None:
    """Record the times of all contenders, one workload after the other.

    All workloads compile at once.  Where a contender ended the process, the others take
    turns in a new one.
    """
    while workloads:
        with contextlib.ExitStack() as stack:
            started = []
            for workload in workloads:
                started.append(_start_turns(run, workload))
                stack.callback(started[-1].process.kill)
            with ThreadPoolExecutor(len(started)) as pool:
                ready = list(pool.map(lambda turns: _listen(run, turns), started))
            workloads = []
            for turns, is_ready in zip(started, ready, strict=True):
                if is_ready:
                    _let_go(run, turns)
                if _is_cut_short(run, turns):
                    workloads.append(turns.workload)


def _skipped(workload: Workload, reason: object) -> tuple[Record, str]:
    """Return the record of why a workload has no figures; ``None`` if it has."""
    record = {
        "name": f"{workload.name}/skipped",
        "skipped": None if reason is None else str(reason),
    }
    words = f"skipped: {reason}" if reason else "contenders take turns"
    return record, f"{workload.name}: {words}"


def _calls_record(workload: str, line: Mapping[str, object]) -> tuple[Record, str]:
    name = f"{workload}/{line['contender']}/calls"
    record: dict[str, str | float] = {"name": name}
    for key, value in line.items():
        if key != "contender":
            assert isinstance(value, str | int | float)
            record[key] = value
    if "skipped" in record:
        return record, f"{name}: skipped: {record['skipped']}"
    return record, f"{name}: " + ", ".join(
        f"{kind} {record[kind]:.1f} µs" for kind in TABLES["calls"] if kind in record
    )


def measure_sections(run: Run, modules: Sequence[str]) -> None:
    """Record the output of benches that are sections of the page."""
    for module in modules:
        printed = run.log(module)
        # A file: child processes that live on would keep a pipe open.
        with printed.open("w") as file:
            process = run.start(f"bench.{module}", caches="sections", output=file.fileno())
            timer = _killed_late(process)
            process.wait()
            timer.cancel()
        text = printed.read_text().strip()
        record = {"name": module, "text": text}
        if process.returncode:
            record["skipped"] = _ended(process)
        run.add(record, f"{module}\n{text}")


def _jobs() -> int:
    """Return how many processes may compile at once, by cores and by the GPU's memory."""
    memory = torch.cuda.get_device_properties(0).total_memory
    by_cores = (os.cpu_count() or 1) // CORES_OF_A_PROCESS
    return max(1, min(by_cores, memory // MEMORY_OF_A_PROCESS))


@click.command()
@click.option(
    "--workload",
    "names",
    multiple=True,
    type=click.Choice([workload.name for workload in WORKLOADS]),
    help="Measure these; figures of other workloads stay.",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Measure what has neither figures nor a reason why not; a workload as a whole.",
)
@click.option("--rounds", default=15, show_default=True, help="Turns of each contender.")
@click.option(
    "--build/--no-build", default=True, show_default=True, help="Peaks of memory."
)
@click.option("--calls/--no-calls", default=True, show_default=True, help="Times of calls.")
def main(
    names: tuple[str, ...], resume: bool, rounds: int, build: bool, calls: bool
) -> None:
    """Measure, and write the page."""
    machine = describe_gpu_machine("bench-gpu")
    results = ResultFile.of("gpu-speed")
    chosen = [each for each in WORKLOADS if not names or each.name in names]
    done = kept_figures(results, machine, names, resume=resume, build=build, calls=calls)
    commits = done.commits(measured_commit())
    with tempfile.TemporaryDirectory() as folder:
        run = Run(
            results=results,
            folder=Path(folder),
            environment=with_bytecode(Path(folder) / "bytecode"),
            rounds=rounds,
            jobs=_jobs(),
        )
        facts = {"machine": machine, "commits": commits}
        for name, text in facts.items():
            run.add({"name": name, "text": text}, f"{name}: {text}")
        able = [workload for workload in chosen if not _unable(run, workload)]
        size = min(GROUP, run.jobs) if build else run.jobs
        for start in range(0, len(able), size):
            group = able[start : start + size]
            if build:
                measure_builds(run, group, done)
            if calls:
                measure_calls(run, [each for each in group if not done.timed(each.name)])
        if calls and not names:
            measure_sections(run, [m for m in SECTIONS if not done.complete(m)])
    click.echo(page_text(Figures(results.read())))
    click.echo(f"page: {PAGE.relative_to(ROOT)}")


def kept_figures(
    results: ResultFile,
    machine: str,
    names: Sequence[str],
    *,
    resume: bool,
    build: bool,
    calls: bool,
) -> Figures:
    """Return the figures of earlier runs that stay, and forget the others.

    All stay that are not measured again, but for those of another machine.
    """
    figures = Figures(results.read())
    known = figures.text("machine") == machine
    if known and resume:
        return figures

    def is_kept(name: str) -> bool:
        if names and name.partition("/")[0] not in names:
            return True
        return not (build if name.endswith("/build") else calls)

    kept = {n: record for n, record in figures.records.items() if known and is_kept(n)}
    results.clear()
    for record in kept.values():
        results.add(record)
    return Figures(kept)


def _unable(run: Run, workload: Workload) -> bool:
    """Return whether packages that a workload needs are missing, and record them."""
    missing = workload.missing()
    if missing:
        reason = f"not installed: {', '.join(missing)}"
        run.add(*_skipped(workload, reason))
    return bool(missing)


if __name__ == "__main__":
    main()
