"""Runs many generated programs through both emitters, beside the interpreter.

Programs have control flow, views, mutation, dynamic sizes, pools, streams, operators and
C++ kernels.  The C++ emitter's library and the Python emitter's module must return the same
bits as the interpreter.  Results are collected in ``out/sweep-cpp``; an interrupted sweep
resumes.  Each fault is printed with the program and the seed that draws it.
"""

import os
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
from attrs import frozen
from hypothesis import HealthCheck, Phase, given, seed, settings
from rich.console import Console
from rich.progress import Progress

from bench.results import ROOT, Record, ResultFile, tested_versions
from bench.sweep.worker_pool import Lost, run_tasks
from wrapperir.ir import Language, Program, keyword
from wrapperir.ir.blocks import walk_lines
from wrapperir.testing import Case, Outcome, check_case
from wrapperir.testing.programs import programs
from wrapperir.text import format_program
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_python.emitter import PythonEmitter

OUT = ROOT / "out" / "sweep-cpp"
TABLE = ROOT / "docs" / "results" / "cpp-programs.md"
INTRODUCTION = """\
# Generated programs in C++

{programs} generated programs of {lines} lines, with control flow, views, mutation, dynamic
sizes, pools, streams, operators and C++ kernels. Each was run twice by the interpreter, as
the Python emitter's module and as the C++ emitter's library, and all gave the same bits:
{faults} faults. Made by `make sweep-cpp` with {versions}.
"""
BATCH = 200
SECONDS = 3600.0
STEPS = (12, 16, 24, 40)
"""How long the programs of a batch may be; batches take turns."""


@frozen
class Batch:
    """Programs that are drawn from one seed."""

    number: int


def run_batch(batch: Batch) -> Record:
    """Check the programs of a batch; its record counts them and names the first fault."""
    kernels = batch.number % 2 == 0
    strategy = programs(
        languages=(Language.CPP,) if kernels else (),
        max_steps=STEPS[batch.number // 2 % len(STEPS)],
    )
    counts: Counter[str] = Counter()
    found: list[str] = []

    @seed(batch.number)
    @settings(
        max_examples=BATCH,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(program=strategy)
    def run(program: Program) -> None:
        counts["programs"] += 1
        counts.update(keyword(line) for line in walk_lines(program.lines))
        fault = find_fault(program, counts["programs"])
        if fault is not None:
            counts["faults"] += 1
            found.append(f"batch {batch.number}, program {counts['programs']}: {fault}")

    with own_cache():
        run()
    return {"name": str(batch.number), **counts, "fault": found[0] if found else None}


def find_fault(program: Program, seed: int) -> str | None:
    """Return how an emitter's program differs from the interpreter's, with its text."""
    try:
        case = Case("generated", program, seeds=(seed,))
        for emitter in (CppEmitter(), PythonEmitter()):
            if check_case(emitter, case) is not Outcome.PASSED:
                return f"{emitter.name} does not support\n{format_program(program)}"
    except Exception:  # whatever it is, it is a fault of an emitter or of this check
        return f"{traceback.format_exc()}\n{format_program(program)}"
    return None


@contextmanager
def own_cache() -> Generator[None]:
    """Keep what is built for these programs apart, and remove it after.

    What serves every program is linked from the common cache.
    """
    common = OUT / "cache"
    outer = os.environ.get("XDG_CACHE_HOME")
    with tempfile.TemporaryDirectory(dir=OUT) as folder:
        cache = Path(folder) / "cache"
        shutil.copytree(common, cache, copy_function=os.link)
        os.environ["XDG_CACHE_HOME"] = str(cache)
        try:
            yield
        finally:
            if outer is None:
                del os.environ["XDG_CACHE_HOME"]
            else:
                os.environ["XDG_CACHE_HOME"] = outer


def fill_cache(_task: int) -> None:
    """Build the parts that all programs share: runtime, kernels' headers, bindings."""
    os.environ["XDG_CACHE_HOME"] = str(OUT / "cache")
    from wrapperir.testing import CASES

    for case in CASES:
        if case.name in ("kernels_cpp", "arguments"):
            check_case(CppEmitter(), case)


def sweep(numbers: list[int], *, jobs: int, results: ResultFile) -> None:
    """Run batches, add their records to ``results``, and show faults as they are found."""
    console = Console(stderr=True)
    counts: Counter[str] = Counter()
    with Progress(console=console) as progress:
        bar = progress.add_task("batches", total=len(numbers))
        batches = [Batch(number) for number in numbers]
        # Libraries stay loaded, so each batch has a process of its own.
        outcomes = run_tasks(run_batch, batches, jobs=jobs, seconds=SECONDS, tasks_each=1)
        for batch, outcome in outcomes:
            if isinstance(outcome, Lost):
                why = "ran out of time" if outcome.timed_out else "its worker died"
                outcome = {"name": str(batch.number), "faults": 1, "fault": why}
            results.add(outcome)
            counts["programs"] += int(outcome.get("programs") or 0)
            counts["faults"] += int(outcome.get("faults") or 0)
            if outcome.get("fault"):
                console.print(f"batch {batch.number}: {outcome['fault']}", markup=False)
            told = f"{counts['programs']} programs, {counts['faults']} faults"
            progress.update(bar, advance=1, description=told)


def format_table(records: Sequence[Record]) -> str:
    """Return the page of ``docs/results`` for these records."""
    totals: Counter[str] = Counter()
    for record in records:
        for name, value in record.items():
            if isinstance(value, int):
                totals[name] += value
    programs, faults = totals.pop("programs"), totals.pop("faults")
    intro = INTRODUCTION.format(
        programs=programs, faults=faults, lines=totals.total(), versions=tested_versions()
    )
    rows = [f"| `{name}` | {count} |" for name, count in totals.most_common()]
    return "\n".join([intro, "| line | of all programs |", "| --- | ---: |", *rows, ""])


@click.command()
@click.option("--count", default=20_000, show_default=True, help="Programs to check.")
@click.option("--jobs", default=2, show_default=True, help="Worker processes.")
@click.option("--batch", type=int, help="Only this batch, here, with what it finds.")
@click.option("--fresh", is_flag=True, help="Forget earlier results.")
def main(count: int, jobs: int, batch: int | None, fresh: bool) -> None:
    """Sweep generated programs; see the module's docstring."""
    shutil.rmtree(OUT / "cache", ignore_errors=True)
    (OUT / "cache").mkdir(parents=True)
    for _, outcome in run_tasks(fill_cache, [0], jobs=1, seconds=SECONDS):
        if isinstance(outcome, Lost):
            sys.exit("the runtime does not build")
    if batch is not None:
        record = run_batch(Batch(batch))
        click.echo(record.get("fault") or f"batch {batch}: {record['programs']} programs")
        sys.exit(1 if record.get("fault") else 0)
    results = ResultFile.of("sweep-cpp")
    if fresh:
        results.clear()
    numbers = range(-(-count // BATCH))
    done = results.read()
    waiting = [number for number in numbers if str(number) not in done]
    click.echo(f"{len(numbers) - len(waiting)} batches done before, {len(waiting)} to do")
    sweep(waiting, jobs=jobs, results=results)
    records = [record for name, record in results.read().items() if int(name) in numbers]
    faults = [record for record in records if record.get("fault")]
    if faults:
        for record in faults:
            click.echo(f"batch {record['name']}: {record['fault']}", err=True)
        sys.exit(f"{len(faults)} batches found a fault")
    if count >= 20_000:
        TABLE.write_text(format_table(records))
        click.echo(f"table: {TABLE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
