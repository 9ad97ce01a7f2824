"""Runs the memory passes on many generated programs, and checks their results.

Every pass runs alone, and all of them in sequence, on programs with control flow, views,
mutation, dynamic sizes, pools and streams.  A result must be valid, give the same bits, and
have no higher peak and no overlap or unordered use that the brute-force checker finds.
Results are collected in ``out/sweep-memory``; an interrupted sweep resumes.  Each fault is
printed with the program and the seed that draws it.
"""

import sys
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence

import click
from attrs import frozen
from hypothesis import HealthCheck, Phase, given, seed, settings
from rich.console import Console
from rich.progress import Progress

from bench.results import ROOT, Record, ResultFile, tested_versions
from bench.sweep.worker_pool import Lost, run_tasks
from wrapperir.ir import Language, Program
from wrapperir.passes import MEMORY_PASSES, PASSES, Pass
from wrapperir.passes.plan_memory import Planned, plan_pools
from wrapperir.testing.pass_check import behaviour, pass_faults
from wrapperir.testing.programs import programs
from wrapperir.text import format_program

TABLE = ROOT / "docs" / "results" / "memory-passes.md"
INTRODUCTION = """\
# Memory passes on generated programs

{programs} generated programs, with control flow, views, mutation, dynamic sizes, pools and
streams, each transformed by every memory pass alone and by all of them in sequence. A
result is a fault if it is invalid, gives other bits, has a higher peak, or has an overlap
or an unordered use that an independent brute-force checker finds: {faults} faults. Made by
`make sweep-memory` with {versions}.
"""
BATCH = 200
SECONDS = 1800.0
WITH_KERNELS = 8
"""Of so many batches one has programs with kernels, which run slower."""

STEPS: Mapping[str, Pass] = {
    **{name: PASSES[name] for name in MEMORY_PASSES},
    "plan_memory, outputs": lambda program: plan_pools(program, Planned.OUTPUTS).program,
    "plan_memory, both": lambda program: plan_pools(program, Planned.BOTH).program,
}
PIPELINES = (
    *((name,) for name in STEPS),
    MEMORY_PASSES,
    tuple(name for name in MEMORY_PASSES if name != "plan_memory"),
    tuple(name.replace("plan_memory", "plan_memory, both") for name in MEMORY_PASSES),
)


@frozen
class Batch:
    """Programs that are drawn from one seed."""

    number: int


def run_batch(batch: Batch) -> Record:
    """Check the programs of a batch; its record counts them and names the first fault."""
    kernels = batch.number % WITH_KERNELS == 0
    strategy = programs(
        languages=(Language.CPP,) if kernels else (),
        max_steps=(12, 16, 24, 40)[batch.number // WITH_KERNELS % 4],
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
        fault = find_fault(program, counts)
        if fault is not None:
            counts["faults"] += 1
            found.append(f"batch {batch.number}, program {counts['programs']}: {fault}")

    run()
    return {
        "name": str(batch.number),
        **counts,
        "fault": found[0] if found else None,
    }


def find_fault(program: Program, counts: Counter[str]) -> str | None:
    """Return the first fault of a pass on a program, with the text of the pass's input.

    ``counts`` counts the programs that each pass changes, in some pipeline.
    """
    given = program
    try:
        first = behaviour(program)
        if first.faults:
            return "\n".join(["the program", *first.faults, format_program(program)])
        known = {program: first}
        changes: set[str] = set()
        for names in PIPELINES:
            given = program
            for name in names:
                made = STEPS[name](given)
                if made == given:
                    continue
                changes.add(name)
                if made not in known:
                    known[made] = behaviour(made, first.symbols)
                faults = pass_faults(known[given], known[made])
                if faults:
                    return "\n".join([name, *faults, format_program(given)])
                given = made
        counts.update(changes)
    except Exception:  # whatever it is, it is a fault of a pass or of this check
        return f"{traceback.format_exc()}\n{format_program(given)}"
    return None


def sweep(numbers: list[int], *, jobs: int, results: ResultFile) -> None:
    """Run batches, add their records to ``results``, and show faults as they are found."""
    console = Console(stderr=True)
    counts: Counter[str] = Counter()
    with Progress(console=console) as progress:
        bar = progress.add_task("batches", total=len(numbers))
        batches = [Batch(number) for number in numbers]
        for batch, outcome in run_tasks(run_batch, batches, jobs=jobs, seconds=SECONDS):
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
        for name in ("programs", "faults", *STEPS):
            totals[name] += int(record.get(name) or 0)
    intro = INTRODUCTION.format(versions=tested_versions(), **totals)
    rows = [f"| `{name}` | {totals[name]} |" for name in STEPS]
    return "\n".join([intro, "| pass | programs changed |", "| --- | ---: |", *rows, ""])


@click.command()
@click.option("--count", default=100_000, show_default=True, help="Programs to check.")
@click.option("--jobs", default=2, show_default=True, help="Worker processes.")
@click.option("--batch", type=int, help="Only this batch, here, with what it finds.")
@click.option("--fresh", is_flag=True, help="Forget earlier results.")
def main(count: int, jobs: int, batch: int | None, fresh: bool) -> None:
    """Sweep generated programs; see the module's docstring."""
    if batch is not None:
        record = run_batch(Batch(batch))
        click.echo(record.get("fault") or f"batch {batch}: {record['programs']} programs")
        sys.exit(1 if record.get("fault") else 0)
    results = ResultFile.of("sweep-memory")
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
    if count >= 100_000:
        TABLE.write_text(format_table(records))
        click.echo(f"table: {TABLE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
