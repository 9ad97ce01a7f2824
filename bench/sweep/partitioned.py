"""Runs models through an emitter that lacks much, with a fallback for the rest.

The models are those of the demo and of ``bench.sweep.models``.  Results are collected in
``out``; an interrupted sweep resumes.  The table is written to ``docs/results``.
"""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from unittest import mock

import click
from torch._inductor.utils import fresh_cache

from bench.demo.models import DEMO
from bench.markdown import escape_cell
from bench.model_run import ModelTask, max_error
from bench.results import ROOT, Record, ResultFile, tested_versions
from bench.sweep.compiled import CountingBackend, compile_fresh
from bench.sweep.model_sample import (
    TOLERANCE,
    Prepared,
    describe_failure,
    empty_user_cache,
)
from bench.sweep.model_zoo import ZOO
from bench.sweep.worker_pool import Lost, run_tasks
from wrapperir.emit.partition import PartitionReport
from wrapperir.emit.partition.report import cause_of

SECONDS = 900.0
MOST_CAUSES = 12
TASKS: Mapping[str, ModelTask] = {
    **{f"demo-{task.name}": task for task in DEMO},
    **ZOO,
}
INTRODUCTION = """\
# Models through the {emitter} emitter and a fallback

The models of the demo and those of [model architectures](models.md), on the CPU,
compiled with `backend="wrapperir", options={{"emitter": "{emitter}", "frontend":
"lowering"}}`. What the emitter lacks runs with the `python` emitter
([how](../guides/emitter-plugin.md#what-an-emitter-lacks)). Calls are launches and
calls of operators, in forward and backward programs; their parts are counted together.
The error is the largest absolute difference from eager over every output
and, in training, every gradient and buffer. A task passes if its error is at most
{tolerance:g}. Made by `python -m bench.sweep.partitioned {emitter}` with {versions}.

**{passed} of {total}** tasks pass; **{share:.0f} %** of all calls run on {emitter}.

| task | result | calls on {emitter} | calls | share | parts | error |
| --- | --- | ---: | ---: | ---: | ---: | ---: |
"""


def run_partitioned(chosen: tuple[str, str]) -> Record:
    """Return how a task fared, given its name and that of an emitter."""
    name, emitter = chosen
    warnings.simplefilter("ignore")
    prepared = Prepared.of(TASKS[name])
    options = {"emitter": emitter, "frontend": "lowering"}
    backend = CountingBackend("wrapperir", options)
    reports: list[PartitionReport] = []
    collect = mock.patch(
        "wrapperir.emit.partition.emitter.log_partition", side_effect=reports.append
    )
    with empty_user_cache(), fresh_cache(), collect:
        try:
            call = compile_fresh(prepared.model, backend)
            found = prepared.run(call)
            error = max_error(prepared.expected, found)
        except Exception as failure:
            return {"name": name, **describe_failure(failure)}
    causes: Counter[str] = Counter()
    for report in reports:
        for index, why in report.fell_back.items():
            kind = cause_of(report.program.lines[index], why)
            causes[f"{kind} {why.subject or ''}".strip()] += 1
    return {
        "name": name,
        "status": "pass" if error <= TOLERANCE else "wrong",
        "error": error,
        "chosen_calls": sum(report.chosen_calls for report in reports),
        "calls": sum(report.calls for report in reports),
        "parts": sum(len(report.parts) for report in reports),
        "causes": "\n".join(f"{count} {cause}" for cause, count in causes.items()),
    }


def format_page(records: Mapping[str, Record], emitter: str) -> str:
    """Return the page of ``docs/results`` for these records."""
    rows = [records[name] for name in TASKS if name in records]
    chosen = sum(int(row.get("chosen_calls") or 0) for row in rows)
    calls = sum(int(row.get("calls") or 0) for row in rows)
    text = INTRODUCTION.format(
        emitter=emitter,
        tolerance=TOLERANCE,
        versions=tested_versions(),
        passed=sum(row["status"] == "pass" for row in rows),
        total=len(rows),
        share=100 * chosen / max(calls, 1),
    )
    causes: Counter[str] = Counter()
    for row in rows:
        own_calls, all_calls = int(row.get("chosen_calls") or 0), int(row.get("calls") or 0)
        error = row.get("error")
        cells = [
            str(row["name"]),
            str(row["status"]),
            *(str(own_calls), str(all_calls)),
            f"{100 * own_calls / max(all_calls, 1):.0f} %",
            str(row.get("parts", "")),
            f"{error:.1e}" if isinstance(error, float) else "",
        ]
        text += f"| {' | '.join(cells)} |\n"
        for line in str(row.get("causes") or "").splitlines():
            number, _, cause = line.partition(" ")
            causes[cause] += int(number)
    text += f"\n## What falls back\n\nThe {MOST_CAUSES} most frequent causes.\n\n"
    text += "| cause | lines |\n| --- | ---: |\n"
    for cause, count in causes.most_common(MOST_CAUSES):
        text += f"| {escape_cell(cause)} | {count} |\n"
    failed = [row for row in rows if row["status"] != "pass"]
    if failed:
        text += "\n## What did not pass\n\n| task | cause |\n| --- | --- |\n"
    for row in failed:
        text += f"| {row['name']} | {escape_cell(row.get('detail'))} |\n"
    return text


def sweep(names: Sequence[str], emitter: str, results: ResultFile) -> None:
    """Run the tasks, each in a process of its own, and add their records."""
    tasks = [(name, emitter) for name in names]
    for (name, _), outcome in run_tasks(
        run_partitioned, tasks, jobs=1, seconds=SECONDS, tasks_each=1
    ):
        if isinstance(outcome, Lost):
            status = "timeout" if outcome.timed_out else "crash"
            detail = f"exit code {outcome.exit_code}"
            record: Record = {"name": name, "status": status, "detail": detail}
        else:
            record = outcome
        results.add(record)
        click.echo(f"{name}: {record['status']} {record.get('detail') or ''}")


@click.command()
@click.option("--fresh", is_flag=True, help="Forget earlier results.")
@click.argument("emitter")
@click.argument("names", nargs=-1)
def main(fresh: bool, emitter: str, names: tuple[str, ...]) -> None:
    """Sweep the models, or those named, through EMITTER, which must be installed."""
    unknown = sorted(set(names) - set(TASKS))
    if unknown:
        raise click.BadParameter(f"no such task: {', '.join(unknown)}")
    results = ResultFile.of(f"sweep-partitioned-{emitter}")
    if fresh:
        results.clear()
    done = results.read()
    sweep([name for name in names or TASKS if name not in done], emitter, results)
    records = results.read()
    if records.keys() >= TASKS.keys():
        page = ROOT / "docs" / "results" / f"partition-{emitter}.md"
        page.write_text(format_page(records, emitter))
        click.echo(f"table: {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
