"""Runs one sample of each operator of PyTorch's OpInfo database through the compiler.

Results are collected in ``out/sweep-ops``; an interrupted sweep resumes.  The table by
cause is written to ``docs/results/ops.md``.  With ``--frontend NAME`` or
``--emitter NAME``, both names end in ``-NAME``.
"""

import os
import random
from collections import Counter
from collections.abc import Mapping, Sequence

import click
from rich.progress import Progress

from bench.markdown import escape_cell
from bench.results import (
    DEFAULT_FRONTEND,
    ROOT,
    Record,
    ResultFile,
    Variant,
    tested_versions,
    variant_options,
)
from bench.sweep.kernel_origins import describe_origins
from bench.sweep.op_groups import GROUPS
from bench.sweep.op_sample import ATOL, RTOL, STATUSES, OpTask, run_op, sample_names
from bench.sweep.worker_pool import Lost, run_tasks

SECONDS = 120.0
INTRODUCTION = """\
# PyTorch's operators{title}

One sample of each operator of PyTorch's OpInfo database, on the CPU, in f32 where the
operator takes it, compiled with `backend="wrapperir"`{option} and compared with eager,
with a tolerance of {rtol:g} relative and {atol:g} absolute. A sample that differs is run
with plain Inductor, too, and counts only if that gets it right. Random numbers are drawn as
eager draws them; of uninitialised results only shape and dtype are compared. Made by
`make sweep-ops{setting}` with {versions}.

**{passed} of {compared}** samples pass: {share:.1f}%.
"""


def sweep(
    tasks: Sequence[OpTask], *, jobs: int, results: ResultFile | None = None
) -> dict[OpTask, Record]:
    """Run the operators and return their records, adding each to ``results``."""
    # a worker that compiled in a pool of its own would start it for every few kernels
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    records: dict[OpTask, Record] = {}
    counts: Counter[str] = Counter()
    with Progress() as progress:
        bar = progress.add_task("operators", total=len(tasks))
        for task, outcome in run_tasks(run_op, tasks, jobs=jobs, seconds=SECONDS):
            record = _lost(task.name, outcome) if isinstance(outcome, Lost) else outcome
            records[task] = record
            if results is not None:
                results.add(record)
            counts[str(record["status"])] += 1
            told = " ".join(f"{status} {n}" for status, n in counts.most_common())
            progress.update(bar, advance=1, description=told)
    return records


def _lost(name: str, lost: Lost) -> Record:
    if lost.timed_out:
        return {"name": name, "status": "timeout", "detail": f"{SECONDS:.0f} s"}
    return {"name": name, "status": "crash", "detail": f"exit code {lost.exit_code}"}


def format_table(records: Mapping[str, Record], variant: Variant) -> str:
    """Return the page of ``docs/results`` for these records."""
    by_status: dict[str, list[Record]] = {status: [] for status in STATUSES}
    for record in sorted(records.values(), key=lambda r: str(r["name"])):
        by_status[str(record["status"])].append(record)
    compared = sum(len(by_status[s]) for s in COMPARED)
    share = 100 * len(by_status["pass"]) / max(compared, 1)
    intro = INTRODUCTION.format(
        rtol=RTOL,
        atol=ATOL,
        versions=tested_versions(),
        **variant.words,
        passed=len(by_status["pass"]),
        compared=compared,
        share=share,
    )
    if origins := describe_origins(records.values(), "launched"):
        intro += f"\n{origins.strip()}\n"
    if variant.frontend != DEFAULT_FRONTEND:
        intro += _format_calls(by_status["pass"])
    lines = [
        *intro.splitlines(),
        "",
        "| cause | samples | meaning |",
        "| --- | ---: | --- |",
    ]
    for status, found in by_status.items():
        lines.append(f"| {status} | {len(found)} | {STATUSES[status]} |")
    codes = Counter(str(record.get("code")) for record in by_status["diagnostic"])
    if codes:
        lines += ["", "| code | samples |", "| --- | ---: |"]
        lines += [f"| {code} | {n} |" for code, n in codes.most_common()]
    for status in ("wrong", "error", "timeout", "crash", "diagnostic", "inductor_fails"):
        if by_status[status]:
            lines += ["", f"## {status}", "", "| operator | detail |", "| --- | --- |"]
            lines += [
                f"| {r['name']} | {escape_cell(str(r.get('detail') or ''))} |"
                for r in by_status[status]
            ]
    for status in ("not_captured", "eager_fails", "no_sample"):
        if by_status[status]:
            names = ", ".join(f"`{r['name']}`" for r in by_status[status])
            lines += ["", f"## {status}", "", names]
    return "\n".join(lines) + "\n"


def _format_calls(passed: Sequence[Record]) -> str:
    """Return how many of the samples that pass call no operator, and what others call."""
    groups = {group: [r for r in passed if r.get("group") == group] for group in GROUPS}
    members = [record for found in groups.values() for record in found]
    groups |= {"all of these": members, "all samples": list(passed)}
    lines = [
        "",
        "| samples that pass | all | call no operator | |",
        "| --- | ---: | ---: | ---: |",
    ]
    for group, found in groups.items():
        without = sum(not record.get("calls") for record in found)
        share = 100 * without / max(len(found), 1)
        lines.append(f"| {group} | {len(found)} | {without} | {share:.1f}% |")
    lines += [
        "",
        "The work of samples that call no operator is all done by kernels. Pointwise and",
        "reduction operators are those of OpInfo's classes of these, indexing and views",
        "those that `bench/sweep/op_groups.py` lists. The others call:",
        "",
        "| sample | group | operators |",
        "| --- | --- | --- |",
    ]
    order = {group: place for place, group in enumerate(GROUPS)}
    calling = [record for record in passed if record.get("calls")]
    for record in sorted(calling, key=lambda r: order.get(str(r["group"]), len(order))):
        cells = [record["name"], record["group"], record["calls"]]
        lines.append(f"| {' | '.join(map(escape_cell, cells))} |")
    return "\n".join(lines) + "\n"


COMPARED = ("pass", "wrong", "diagnostic", "error", "timeout", "crash")
"""The statuses of samples that plain Inductor gets right."""


@click.command()
@click.option("--shard", default="0/1", help="i/n: every n-th operator from the i-th.")
@click.option("--sample", type=int, help="Only this many operators, drawn at random.")
@click.option("--seed", default=0, help="Seed of the draw.")
@click.option("--jobs", default=2, help="Worker processes.")
@click.option("--fresh", is_flag=True, help="Forget earlier results.")
@variant_options
def main(
    shard: str,
    sample: int | None,
    seed: int,
    jobs: int,
    fresh: bool,
    emitter: str,
    frontend: str,
) -> None:
    """Sweep the operators; see the module's docstring."""
    variant = Variant(emitter, frontend)
    results = ResultFile.of(variant.file_name("sweep-ops"))
    kernels = ResultFile.of("sweep-ops").path.parent / "kernels"  # the same for all
    if fresh:
        results.clear()
    index, count = (int(part) for part in shard.split("/"))
    names = sample_names()[index::count]
    if sample is not None:
        names = random.Random(seed).sample(names, sample)
    done = results.read()
    waiting = [name for name in names if name not in done]
    click.echo(f"{len(names) - len(waiting)} done before, {len(waiting)} to do")
    tasks = [OpTask(name, kernels, variant) for name in waiting]
    sweep(tasks, jobs=jobs, results=results)
    records = results.read()
    if sample is None and len(records) == len(sample_names()):
        table = ROOT / "docs" / "results" / f"{variant.file_name('ops')}.md"
        table.write_text(format_table(records, variant))
        click.echo(f"table: {table.relative_to(ROOT)}")
    for name in names:
        if records[name]["status"] in COMPARED[1:]:
            click.echo(f"{name}: {records[name]['status']} {records[name].get('detail')}")


if __name__ == "__main__":
    main()
