"""Runs ten model architectures through the compiler, half of them in training too.

Results are collected in ``out/sweep-models``; an interrupted sweep resumes.  The table is
written to ``docs/results/models.md``.  With ``--frontend NAME`` or ``--emitter NAME``,
both names end in ``-NAME``.
"""

from collections.abc import Mapping, Sequence

import click
from rich.progress import Progress

from bench.markdown import escape_cell
from bench.results import (
    ROOT,
    Record,
    ResultFile,
    Variant,
    tested_versions,
    variant_options,
)
from bench.sweep.kernel_origins import describe_origins
from bench.sweep.model_sample import TOLERANCE, run_model
from bench.sweep.model_zoo import KINDS, ZOO
from bench.sweep.worker_pool import Lost, run_tasks

SECONDS = 600.0
INTRODUCTION = """\
# Model architectures{title}

Ten models of the library `transformers` with small random weights, on the CPU, compiled
with `backend="wrapperir"`{option} and with plain Inductor. The error is the largest
absolute difference from eager over every output and, in training, every gradient and
buffer. A task passes if its error is at most {tolerance:g}. Seconds are those of
the first call with empty caches, compilation included. Plain Inductor runs
first in the process, so its seconds include some of the process's start. Made by
`make sweep-models{setting}` with {versions}.

**{passed} of {total}** tasks pass.{origins}

| model | kind | mode | result | graphs | error | Inductor's error | s | Inductor's s |
| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: |
"""


def sweep(
    names: Sequence[str], *, jobs: int, variant: Variant, results: ResultFile
) -> None:
    """Run the tasks, each in a process of its own, and add their records."""
    with Progress() as progress:
        bar = progress.add_task("models", total=len(names))
        tasks = [(name, variant) for name in names]
        for (name, _), outcome in run_tasks(
            run_model, tasks, jobs=jobs, seconds=SECONDS, tasks_each=1
        ):
            record = _lost(name, outcome) if isinstance(outcome, Lost) else outcome
            results.add(record)
            progress.console.print(f"{name}: {record['status']}", highlight=False)
            progress.update(bar, advance=1)


def _lost(name: str, lost: Lost) -> Record:
    if lost.timed_out:
        return {"name": name, "status": "timeout", "detail": f"{SECONDS:.0f} s"}
    return {"name": name, "status": "crash", "detail": f"exit code {lost.exit_code}"}


def format_table(records: Mapping[str, Record], variant: Variant) -> str:
    """Return the page of ``docs/results`` for these records."""
    text = INTRODUCTION.format(
        tolerance=TOLERANCE,
        versions=tested_versions(),
        **variant.words,
        passed=sum(record["status"] == "pass" for record in records.values()),
        total=len(records),
        origins=describe_origins(records.values(), "calls"),
    )
    for name in ZOO:
        record = records[name]
        model = name.removesuffix("-training")
        cells = [
            model,
            KINDS[model],
            "inference" if model == name else "training",
            str(record["status"]),
            str(record.get("graphs", "")),
            _scientific(record.get("error")),
            _scientific(record.get("inductor_error")),
            str(record.get("seconds", "")),
            str(record.get("inductor_seconds", "")),
        ]
        text += f"| {' | '.join(cells)} |\n"
    failed = [records[name] for name in ZOO if records[name]["status"] != "pass"]
    if failed:
        text += "\n## What did not pass\n\n| task | cause |\n| --- | --- |\n"
    for record in failed:
        text += f"| {record['name']} | {escape_cell(record.get('detail'))} |\n"
    return text


def _scientific(value: object) -> str:
    return f"{value:.1e}" if isinstance(value, float) else ""


@click.command()
@click.option("--jobs", default=1, help="Worker processes.")
@click.option("--fresh", is_flag=True, help="Forget earlier results.")
@variant_options
@click.argument("names", nargs=-1)
def main(
    jobs: int, fresh: bool, emitter: str, frontend: str, names: tuple[str, ...]
) -> None:
    """Sweep the models, or those named."""
    unknown = sorted(set(names) - set(ZOO))
    if unknown:
        raise click.BadParameter(f"no such task: {', '.join(unknown)}")
    variant = Variant(emitter, frontend)
    results = ResultFile.of(variant.file_name("sweep-models"))
    if fresh:
        results.clear()
    done = results.read()
    waiting = [name for name in names or ZOO if name not in done]
    sweep(waiting, jobs=jobs, variant=variant, results=results)
    records = results.read()
    if records.keys() >= ZOO.keys():
        table = ROOT / "docs" / "results" / f"{variant.file_name('models')}.md"
        table.write_text(format_table(records, variant))
        click.echo(f"table: {table.relative_to(ROOT)}")
    for name in names or ZOO:
        if records[name]["status"] != "pass":
            click.echo(f"{name}: {records[name]['status']} {records[name].get('detail')}")


if __name__ == "__main__":
    main()
