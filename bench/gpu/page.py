"""The page of ``docs/results`` on speed and memory on a GPU, from the records of a run."""

from collections.abc import Sequence

from bench.gpu.contenders import CONTENDERS
from bench.gpu.figures import GOALS, Figures, Goal
from bench.gpu.models import WORKLOADS, Workload
from bench.markdown import escape_cell

LARGEST_ERROR = 0.05
"""A result that is farther from eager's is told."""

INTRODUCTION = """\
# Speed on a GPU

Output of `make bench-gpu` at commit {commits}. Models have random weights.

{machine}

All contenders of a workload take turns in one process. Kernels were tuned before, while
other processes used the GPU. Starts have [a page of their own](gpu-starts.md).

- *Inductor*: its Python wrapper; *cpp_wrapper* and *reduce-overhead*: its settings.
- *wrapperir, Python* and *wrapperir, C++*: `backend="wrapperir"` with these emitters;
  *wrapperir, reduce-overhead*: with `mode="reduce-overhead"`.
- *own kernels*: with the option `frontend="lowering"`, and `graphs` for *reduce-overhead*.
- *bare replay*: the call of *wrapperir, Python*, recorded by hand in a CUDA graph and
  replayed with the inputs of the recording, in *moved* too. No replay of the same kernels
  takes less.

A training step is a forward and a backward pass, with the gradients dropped before it.
"""
CALLS = """
## Microseconds of a call

The GPU's work included; the least of {turns} turns. The first row of a workload is of calls
in a row: the host prepares a call while the GPU works on those before it (throughput).
*Waited*: the host waits for the GPU after each call (latency). *Moved*: calls in a row with
inputs at other addresses in each call. Workloads with more than one input always move them.
"""
GOAL_TABLE = """
## Goals

Ratios and their goals; the bold ones miss theirs. A ratio without a goal is only told.
Ratios are rounded to two digits before they are compared. Figures of memory are peaks above
weights and inputs. Means are geometric.
"""
DETAILS = """
## Each workload

- *least* and *median*: microseconds of a call in a row of calls, with inputs in place;
  *moved*: the least with inputs that move; *waited*: the least if the host waits for the
  GPU after each call; *ratio*: of *least* to Inductor's.
- *allocated* and *reserved*: the peak of a later call in MB (10⁶ bytes) above weights and
  inputs, the least of both processes: tensors, and what PyTorch's allocator holds. What
  compilation left is given back before. A replay's temporaries are in a pool that counts as
  reserved only.
"""


def page_text(figures: Figures) -> str:
    """Return the page; workloads without figures are missing from its tables."""
    there = [workload for workload in WORKLOADS if figures.measured(workload.name)]
    parts = [
        INTRODUCTION.format(
            machine=figures.text("machine") or "no run yet",
            commits=figures.commits() or "unknown",
        ),
        CALLS.format(turns=figures.turns() or "several"),
        _calls_table(figures, there),
        GOAL_TABLE,
        _goal_table(figures, there),
        *_sections(figures),
        DETAILS,
        *(_workload_table(figures, workload) for workload in there),
        "\n## Skipped\n\n",
        *(f"- {escape_cell(reason)}\n" for reason in skipped(figures) or ["nothing"]),
    ]
    return "".join(parts)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table with its first column to the left, after an empty line."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n" + "".join(f"| {' | '.join(row)} |\n" for row in (head, rule, *rows))


def _format(value: float | None, digits: int = 0) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _calls_table(figures: Figures, workloads: Sequence[Workload]) -> str:
    rows = []
    for workload in workloads:
        kinds = ("in_place", ""), ("waited", ", waited"), ("moved", ", moved")
        for kind, suffix in kinds:
            numbers = [figures.number(workload.name, c.name, kind) for c in CONTENDERS]
            rows.append([f"{workload.title}{suffix}", *map(_format, numbers)])
    return _table(["workload", *(c.title for c in CONTENDERS)], rows)


def _goal_cell(goal: Goal, figures: Figures, workload: str) -> str:
    ratio, limit = goal.ratio(figures, workload), goal.limits.get(workload)
    if ratio is None:
        return "–"
    if limit is None:
        return f"{ratio:.2f}"
    if goal.met(figures, workload):
        return f"{ratio:.2f} ≤ {limit:.2f}"
    return f"**{ratio:.2f} > {limit:.2f}**"


def _goal_table(figures: Figures, workloads: Sequence[Workload]) -> str:
    names = [workload.name for workload in workloads]
    rows = [
        [
            goal.title,
            *(_goal_cell(goal, figures, name) for name in names),
            _format(goal.mean(figures), 2),
        ]
        for goal in GOALS
    ]
    checks = [goal.met(figures, name) for goal in GOALS for name in names]
    missing = checks_missing(figures)
    counts = f"{checks.count(True)} goals are met, {checks.count(False)} missed"
    return (
        _table(["ratio", *names, "mean"], rows) + f"\n{counts}, {missing} not measured.\n"
    )


def checks_missing(figures: Figures) -> int:
    """Return the number of goals of any workload without a ratio."""
    return sum(
        goal.ratio(figures, workload) is None for goal in GOALS for workload in goal.limits
    )


SECTIONS = {
    "host.gpu_launch": """
## Launches

`python -m bench.host.gpu_launch`: microseconds of the host for a launch of an empty kernel.
""",
    "host.gpu_products": """
## Products

`python -m bench.host.gpu_products`: microseconds of the host for a small matrix product.
""",
    "host.gpu_replay": """
## Replays

`python -m bench.host.gpu_replay`: microseconds of the host for a replay of a graph region.
""",
}
"""Benches in processes of their own, whose output is a section of the page."""


def _sections(figures: Figures) -> list[str]:
    texts = {module: figures.text(module) for module in SECTIONS}
    return [
        f"{SECTIONS[module]}\n```text\n{text}\n```\n"
        for module, text in texts.items()
        if text
    ]


def _workload_table(figures: Figures, workload: Workload) -> str:
    rows = []
    base = figures.number(workload.name, "inductor", "in_place")
    for contender in CONTENDERS:

        def figure(name: str, contender: str = contender.name) -> float | None:
            return figures.number(workload.name, contender, name)

        least = figure("in_place")
        rows.append(
            [
                contender.title,
                _format(least, 1),
                _format(figure("in_place_median"), 1),
                _format(figure("moved"), 1),
                _format(figure("waited"), 1),
                _format(None if least is None or not base else least / base, 2),
                _format(figure("allocated"), 1),
                _format(figure("reserved"), 1),
            ]
        )
    units = [
        "least",
        "median",
        "moved",
        "waited",
        "ratio",
        "allocated",
        "reserved",
    ]
    return f"\n### {workload.title}\n" + _table([workload.name, *units], rows)


def skipped(figures: Figures) -> list[str]:
    """Return a sentence for everything that was not measured or differs from eager."""
    said: list[str] = []
    for workload in WORKLOADS:
        whole = figures.records.get(f"{workload.name}/skipped", {}).get("skipped")
        if whole:
            said.append(f"{workload.title}: {whole}")
        for contender in CONTENDERS:
            where = f"{workload.title}, {contender.title}"
            reasons = figures.skipped(workload.name, contender.name)
            said += [f"{where}: {reason}" for reason in reasons]
            error = figures.number(workload.name, contender.name, "error")
            if error is not None and error > LARGEST_ERROR:
                said.append(f"{where}: results differ from eager's by {error:.2g}")
            elif error is None and figures.number(workload.name, contender.name, "turns"):
                said.append(f"{where}: results were not compared, as eager has none")
    for module in SECTIONS:
        reason = figures.records.get(module, {}).get("skipped")
        if reason:
            said.append(f"{module}: {reason}")
    return said
