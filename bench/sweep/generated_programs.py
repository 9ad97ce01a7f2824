"""Sweeps over generated programs: batches, their records, and the command that runs them.

Results are collected in ``out``, so an interrupted sweep resumes.  Each fault is printed
with the program and the seed that draws it.
"""

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias, TypeVar

import click
from attrs import frozen
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy
from rich.console import Console
from rich.progress import Progress

from bench.results import ROOT, Record, ResultFile
from bench.sweep.worker_pool import Lost, run_tasks

BATCH = 200
STEPS = (12, 16, 24, 40)
"""The largest number of steps in a program of a batch; batches take the entries in turn."""

Drawn = TypeVar("Drawn")
FindFault: TypeAlias = Callable[[Drawn, Counter[str]], str | None]
"""Returns the first fault of what is drawn, with its text; may add to the counts."""


@frozen
class Batch:
    """Programs that are drawn from one seed."""

    number: int


@frozen(kw_only=True)
class Sweep:
    """A sweep; its page is written when it has checked ``count`` programs or more.

    A batch is lost after ``seconds``.  A worker process runs ``tasks_each`` batches.
    """

    name: str
    page: Path
    run_batch: Callable[[Batch], Record]
    format_page: Callable[[Sequence[Record]], str]
    count: int
    seconds: float
    tasks_each: int = 50


def check_batch(
    batch: Batch, strategy: SearchStrategy[Drawn], find_fault: FindFault[Drawn]
) -> Record:
    """Check the programs of a batch; its record counts them and names the first fault."""
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
    def run(program: Drawn) -> None:
        counts["programs"] += 1
        fault = find_fault(program, counts)
        if fault is not None:
            counts["faults"] += 1
            found.append(f"batch {batch.number}, program {counts['programs']}: {fault}")

    run()
    return {"name": str(batch.number), **counts, "fault": found[0] if found else None}


def sweep_command(
    sweep: Sweep, prepare: Callable[[], None] = lambda: None
) -> click.Command:
    """Return the command of a sweep; ``prepare`` is called before any batch runs."""

    @click.command()
    @click.option(
        "--count", default=sweep.count, show_default=True, help="Programs to check."
    )
    @click.option("--jobs", default=2, show_default=True, help="Worker processes.")
    @click.option("--batch", type=int, help="Only this batch, here, with what it finds.")
    @click.option("--fresh", is_flag=True, help="Forget earlier results.")
    def main(count: int, jobs: int, batch: int | None, fresh: bool) -> None:
        """Sweep generated programs; see the module's docstring."""
        prepare()
        if batch is not None:
            record = sweep.run_batch(Batch(batch))
            checked = f"batch {batch}: {record['programs']} programs"
            click.echo(record.get("fault") or checked)
            sys.exit(1 if record.get("fault") else 0)
        results = ResultFile.of(sweep.name)
        if fresh:
            results.clear()
        numbers = range(-(-count // BATCH))
        done = results.read()
        waiting = [number for number in numbers if str(number) not in done]
        before = len(numbers) - len(waiting)
        click.echo(f"{before} batches done before, {len(waiting)} to do")
        _run_batches(sweep, waiting, jobs, results)
        records = [r for name, r in results.read().items() if int(name) in numbers]
        faults = [record for record in records if record.get("fault")]
        if faults:
            for record in faults:
                click.echo(f"batch {record['name']}: {record['fault']}", err=True)
            sys.exit(f"{len(faults)} batches found a fault")
        if count >= sweep.count:
            sweep.page.write_text(sweep.format_page(records))
            click.echo(f"table: {sweep.page.relative_to(ROOT)}")

    return main


def _run_batches(
    sweep: Sweep, numbers: Sequence[int], jobs: int, results: ResultFile
) -> None:
    """Run batches, add their records to ``results``, and show faults as they are found."""
    console = Console(stderr=True)
    counts: Counter[str] = Counter()
    with Progress(console=console) as progress:
        bar = progress.add_task("batches", total=len(numbers))
        outcomes = run_tasks(
            sweep.run_batch,
            [Batch(number) for number in numbers],
            jobs=jobs,
            seconds=sweep.seconds,
            tasks_each=sweep.tasks_each,
        )
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
