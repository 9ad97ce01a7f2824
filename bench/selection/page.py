"""The documentation's page on the quality of selection."""

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from attrs import frozen

from bench.markdown import escape_cell
from bench.selection.policies import Outcome, Selected, hints_of, wins
from bench.selection.table import Table
from wrapperir.ir import Expr, ExprOp, Operation
from wrapperir.text import format_expr

CALLS = {"1 call": 1.0, "100 calls": 100.0, "infinitely many": math.inf}

INTRODUCTIONS = {
    "cpu": """# Quality of selection on a CPU

Results of `python -m bench.selection.quality`. The choices are C++ kernels of different
blocking (`bench/selection/kernels.cpp`), run with one thread. A time is the least of its
repetitions, each the mean of calls for 40 µs.
""",
    "cuda": """# Quality of selection on a GPU

Results of `python -m bench.selection.quality --device cuda`. The choices are Triton
kernels: persistent and looped softmax, layer norm and sum of rows of f32, and products of
f16 with the blockings that are the fastest of eleven on squares of 64, 256, 1024 and 4096.
A time is the median of single launches, with the GPU's caches flushed before each.
""",
}

METHOD = """
Every choice of a task is timed {rounds} times at each of {tests} log-uniform shapes; the
choices take turns. A third of the sizes are powers of two, ends of the range, or one away
from these.{limits}
Odd repetitions determine the oracle, which is the fastest choice at each
shape; even ones score the oracle and the policies. The figures are
t(selected) / t(oracle), including the cost of deciding, for a given number of calls at the
shape.

- *luck of the oracle*: the fastest choice by the even repetitions. Its distance below 1
  is the noise of the measurement.
- *best single choice*: the choice with the least geometric mean over the scored shapes.
- *benchmark once*: the choice that is fastest at the first shape, for all shapes; averaged
  over every shape as the first. The cost of deciding is two runs of each choice at
  that shape.
- *nearest hint*: the rule of `nearest_shape`, as in Inductor's multi-kernels with size
  hints. The hints are squares of {hints}, or the nearest of these that is
  timed, each with its fastest choice.
- *ours*: a `computed` decision tree, learned by `wrapperir.tuning.decision` from
  {trainings} other shapes, drawn as `wrapperir tune` draws them and timed
  {training_rounds} times. Deciding is a call of the tree in C. Learning happens ahead of
  time; its seconds are given for each task. Its settings were found with other test shapes.
"""

LIMITS = {
    "cpu": "\nShapes are large enough that calls take half a microsecond or more.",
    "cuda": "",
}


@frozen
class Effort:
    """How often and where choices were timed."""

    rounds: int
    training_rounds: int
    hints: tuple[int, ...]


class Replayed(Protocol):
    """The selections of every policy for a task, and the tree that we learned."""

    @property
    def table(self) -> Table: ...
    @property
    def policies(self) -> Mapping[str, Sequence[Selected]]: ...
    @property
    def tree(self) -> Expr: ...
    @property
    def seconds(self) -> float: ...


def page_text(
    device: str,
    machine: str,
    replays: Sequence[Replayed],
    together: Mapping[str, Sequence[Selected]],
    effort: Effort,
) -> str:
    """Return the page of a device's results."""
    table = replays[0].table
    method = METHOD.format(
        rounds=effort.rounds,
        training_rounds=effort.training_rounds,
        tests=len(table.test),
        trainings=len(table.training),
        hints=", ".join(map(str, effort.hints)),
        limits=LIMITS[device],
    )
    parts = [INTRODUCTIONS[device], f"\n{machine}\n", method]
    parts.append(_goals(together))
    parts.append(_section("All tasks", together))
    for found in replays:
        parts.append(_section(f"`{found.table.task}`", found.policies))
        parts.append(_details(found))
    return "".join(parts)


def _goals(together: Mapping[str, Sequence[Selected]]) -> str:
    ours = Outcome.of(together["ours"], math.inf)
    hinted = Outcome.of(together["nearest hint"], math.inf)
    rows = [
        ("geometric mean", ours.mean, "at most 1.03", ours.mean <= 1.03),
        ("95th percentile", ours.percentile95, "at most 1.10", ours.percentile95 <= 1.1),
    ]
    for name, one, other in (
        ("geometric mean", ours.mean, hinted.mean),
        ("95th percentile", ours.percentile95, hinted.percentile95),
        ("worst", ours.worst, hinted.worst),
    ):
        rows.append((name, one, f"below nearest hint's {other:.3f}", one < other))
    lines = [
        "\n## Goals\n",
        "| ours, all tasks | result | goal | |",
        "| --- | ---: | --- | --- |",
    ]
    lines += [
        f"| {name} | {found:.3f} | {goal} | {'met' if met else 'NOT met'} |"
        for name, found, goal, met in rows
    ]
    return "\n".join(lines) + "\n"


def _section(title: str, policies: Mapping[str, Sequence[Selected]]) -> str:
    lines = [f"\n## {title}\n"]
    lines.append(
        "| policy | " + " | ".join(f"{name}: mean | 95 % | worst" for name in CALLS) + " |"
    )
    lines.append("| --- |" + " ---: |" * 3 * len(CALLS))
    for policy, selected in policies.items():
        cells: list[str] = []
        for calls in CALLS.values():
            found = Outcome.of(selected, calls)
            cells += [
                f"{found.mean:.3f}",
                f"{found.percentile95:.3f}",
                f"{found.worst:.2f}",
            ]
        lines.append(f"| {escape_cell(policy)} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _details(found: Replayed) -> str:
    table = found.table
    best = ", ".join(f"`{name}` {count}" for name, count in wins(table))
    hints = ", ".join(
        f"`{table.choices[hint.choice]}` at {'×'.join(map(str, hint.sizes))}"
        for hint in hints_of(table)
    )
    by_hint = found.policies["nearest hint"][0].per_call * 1000
    by_tree = found.policies["ours"][0].per_call * 1000
    return (
        f"\nOracle's choices: {best}. Hints: {hints}. Timing the shapes to learn from took"
        f" {table.seconds:.1f} s, learning {found.seconds:.1f} s. Deciding takes"
        f" {by_hint:.0f} ns by hints, {by_tree:.0f} ns by the tree:\n"
        f"\n```text\n{_tree_text(found.tree)}\n```\n"
    )


def _tree_text(tree: Expr, margin: str = "") -> str:
    """Return a decision tree over several lines."""
    if not isinstance(tree, Operation) or tree.op is not ExprOp.WHERE:
        return margin + format_expr(tree)
    condition, yes, no = tree.args
    deeper = margin + "  "
    return (
        f"{margin}where({format_expr(condition)},\n"
        f"{_tree_text(yes, deeper)},\n{_tree_text(no, deeper)})"
    )
