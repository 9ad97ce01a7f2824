"""Quality of the selection of kernels: every policy, replayed on one table of times.

Each choice is timed at log-uniform shapes, all in turns.  The oracle of a shape is picked
by one half of the repetitions, and what a policy selects is scored by the other.  Ours is
learned from other shapes, as ``wrapperir tune`` does.

    python -m bench.selection.quality [--device cpu|cuda] [--out FILE] [--only TASK]
    python -m bench.selection.quality --replay FILE [--page FILE]

``--out`` keeps the times; ``--replay`` takes them instead of taking new ones.  ``--page``
writes the documentation's page.
"""

import json
import math
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click
from attrs import frozen

from bench.selection.deciding import nearest_microseconds, tree_microseconds
from bench.selection.page import Effort, page_text
from bench.selection.policies import (
    Outcome,
    Selected,
    benchmark_once,
    best_single,
    computed,
    hints_of,
    nearest_hint,
    oracle,
)
from bench.selection.table import Table, Task, load_tables, measured, save_tables
from wrapperir.ir import Expr, Operation
from wrapperir.tuning.decision import Sample, learn_decision

HINTS = (64, 256, 1024, 4096)
MORE_CALLS = (1.0, 100.0, math.inf)
TESTS = 240
ROUNDS = 30
TRAININGS = {"cpu": 2000, "cuda": 1000}
TRAINING_ROUNDS = 12


@frozen
class Replayed:
    """The selections of every policy for a task, and the tree that we learned."""

    table: Table
    policies: dict[str, list[Selected]]
    tree: Expr
    seconds: float


def replay(table: Table) -> Replayed:
    """Learn from the training rows, and replay all policies on the test rows."""
    begin = time.perf_counter()
    samples = [Sample(row.sizes, row.first) for row in table.training]
    tree = learn_decision(table.size_names, samples)
    seconds = time.perf_counter() - begin
    shapes = [row.sizes for row in table.test]
    by_hint = nearest_microseconds(hints_of(table), shapes)
    by_tree = tree_microseconds(tree, table.size_names, shapes)
    policies = {
        "luck of the oracle": oracle(table),
        "best single choice": best_single(table),
        "benchmark once": benchmark_once(table),
        "nearest hint": nearest_hint(table, by_hint),
        "ours": computed(table, tree, by_tree),
    }
    return Replayed(table, policies, tree, seconds)


def print_outcomes(name: str, policies: dict[str, list[Selected]]) -> None:
    """Print a task's figures."""
    print(f"\n{name:22}" + "".join(f"{_calls(n):>27}" for n in MORE_CALLS))
    for policy, selected in policies.items():
        cells = ""
        for calls in MORE_CALLS:
            found = Outcome.of(selected, calls)
            cells += f"  {found.mean:7.3f} {found.percentile95:7.3f} {found.worst:9.2f}"
        print(f"  {policy:20}{cells}", flush=True)


def _calls(calls: float) -> str:
    return "all calls" if calls == math.inf else f"{calls:.0f} calls"


def pooled(replays: Sequence[Replayed]) -> dict[str, list[Selected]]:
    """Return what each policy selected over all tasks."""
    names = list(replays[0].policies)
    return {
        name: [one for found in replays for one in found.policies[name]] for name in names
    }


def machine(device: str) -> str:
    """Return one line that names what the times depend on."""
    parts = [f"Python {platform.python_version()}"]
    for name in ("torch", "triton") if device == "cuda" else ():
        try:
            parts.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            parts.append(f"{name} of no known version")
    if device == "cuda":
        import torch

        parts.append(torch.cuda.get_device_name())
    else:
        from bench.machine import describe_machine

        return describe_machine()
    return ", ".join(parts)


def take_times(device: str, only: Sequence[str], scale: float, out: Path) -> None:
    """Time all tasks, and write the tables so far after each."""
    begin = time.perf_counter()

    def progress(text: str) -> None:
        print(f"[{time.perf_counter() - begin:5.0f} s] {text}", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        tasks: Sequence[Task]
        if device == "cuda":
            from bench.selection.cuda import cuda_tasks

            tasks = cuda_tasks(progress)
        else:
            from bench.selection.cpu import cpu_tasks

            tasks = cpu_tasks(Path(folder))
        tables: list[Table] = []
        for task in tasks:
            if only and task.name not in only:
                continue
            tables.append(
                measured(
                    task,
                    tests=round(TESTS * scale),
                    rounds=ROUNDS,
                    trainings=round(TRAININGS[device] * scale),
                    training_rounds=TRAINING_ROUNDS,
                    hints=HINTS,
                    progress=progress,
                )
            )
            save_tables(tables, out, device, machine(device))
            progress(f"{task.name}: training took {tables[-1].seconds:.1f} s")


@click.command(help=(__doc__ or "").partition("\n\n")[0])
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu")
@click.option("--out", type=click.Path(path_type=Path))
@click.option("--only", multiple=True, help="A task; all without.")
@click.option("--scale", default=1.0, help="How many of the shapes, for a trial.")
@click.option("--replay", "replayed", type=click.Path(path_type=Path, exists=True))
@click.option("--page", type=click.Path(path_type=Path), help="Write the page here.")
def main(
    device: str,
    out: Path | None,
    only: tuple[str, ...],
    scale: float,
    replayed: Path | None,
    page: Path | None,
) -> None:
    """Take the times, or read them; replay the policies; print, and write a page."""
    with tempfile.TemporaryDirectory() as folder:
        path = replayed or out or Path(folder, "times.json")
        if replayed is None:
            take_times(device, only, scale, path)
        head = json.loads(path.read_text())
        tables = load_tables(path)
    print(head["machine"])
    found: list[Replayed] = []
    for table in tables:
        if only and table.task not in only:
            continue
        one = replay(table)
        found.append(one)
        leaves = _leaves(one.tree)
        print_outcomes(table.task, one.policies)
        print(f"  learned in {one.seconds:.1f} s, {leaves} leaves", flush=True)
    print_outcomes("all", pooled(found))
    if page is not None:
        effort = Effort(ROUNDS, TRAINING_ROUNDS, HINTS)
        page.write_text(
            page_text(head["device"], head["machine"], found, pooled(found), effort)
        )


def _leaves(tree: Expr) -> int:
    if not isinstance(tree, Operation):
        return 1
    return _leaves(tree.args[1]) + _leaves(tree.args[2])


if __name__ == "__main__":
    sys.exit(main())
