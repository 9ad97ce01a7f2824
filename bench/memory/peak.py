"""Peak memory of one call beside its lower bound: Inductor, Inductor with pools, and ours.

Each task runs in this process, one after the other.  The table is written to
``docs/results/memory.md`` once every task has a result.

    python -m bench.memory.peak [--only NAME]...
"""

import os
import time
import warnings
from collections.abc import Mapping

import click
import torch

from bench.memory.allocator_events import CallMemory
from bench.memory.generators import perfect_packing
from bench.memory.lower_bound import lower_bound
from bench.memory.model_calls import OurProgram, measure_inductor, measure_ours
from bench.memory.models import TASKS
from bench.memory.peak_page import format_table
from bench.memory.planned import planned_memory
from bench.model_run import ModelTask, max_error
from bench.results import ROOT, Record, ResultFile
from wrapperir.passes import MEMORY_PASSES
from wrapperir.planning import plan

TABLE = ROOT / "docs" / "results" / "memory.md"
TOLERANCE = 1e-4
INDUCTOR: Mapping[str, Mapping[str, object]] = {
    "default": {"memory_planning": False},
    "pools": {"memory_planning": True, "memory_pool": "intermediates"},
}
"""Inductor's settings for each way that is compared."""


def run_task(task: ModelTask) -> Record:
    """Return one record with the memory of the calls of a task's programs.

    Raises:
        AssertionError: ours gave other results than Inductor.
    """
    theirs = {way: measure_inductor(task, settings) for way, settings in INDUCTOR.items()}
    ours = measure_ours(task, MEMORY_PASSES)
    error = max_error(theirs["default"].outputs, ours.outputs)
    assert error <= TOLERANCE, f"{task.name}: results differ by {error:g}"
    record: dict[str, str | int | float | bool | None] = {
        "name": task.name,
        "programs": len(ours.programs),
        "planning_seconds": sum(p.planning_seconds for p in ours.programs),
        "seconds": ours.seconds,
    }
    for number, program in enumerate(ours.programs):
        calls = {way: run.programs[number] for way, run in theirs.items()}
        for key, value in _program_record(program, calls).items():
            record[f"{key}_{number}"] = value
    return record


def _program_record(
    program: OurProgram, theirs: Mapping[str, CallMemory]
) -> dict[str, int | float]:
    planned = planned_memory(program.planned)
    return {
        "bound": lower_bound(program.captured).bytes,
        **{way: call.peak for way, call in theirs.items()},
        "ours": program.memory.peak,
        "height": planned.height,
        "share_placed": planned.share_placed,
    }


@click.command()
@click.option("--only", multiple=True, type=click.Choice(list(TASKS)), help="These tasks.")
def main(only: tuple[str, ...]) -> None:
    """Measure each task, or those named, and write the table."""
    warnings.simplefilter("ignore")
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    torch.set_num_threads(1)  # some operators take memory for each thread
    plan(perfect_packing(100, 0))  # builds the compiled cores, once a machine
    results = ResultFile.of("memory-peak")
    for name in only or TASKS:
        begun = time.perf_counter()
        results.add(run_task(TASKS[name]))
        click.echo(f"{name}: {time.perf_counter() - begun:.0f} s", err=True)
    records = results.read()
    missing = TASKS.keys() - records.keys()
    if missing:
        click.echo(f"no table yet, not run: {', '.join(sorted(missing))}", err=True)
        return
    TABLE.write_text(format_table(records, MEMORY_PASSES))
    click.echo(f"table: {TABLE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
