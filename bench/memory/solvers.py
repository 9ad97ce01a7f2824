"""Writes ``docs/results/solvers.md``: heights and seconds of memory plans.

Public instances come from ``../shared/bench`` (see its README; they are left out where it
is absent), the others from :mod:`bench.memory.generators`: perfect packings, whose optimum
is the lower bound, and training steps.  Every plan is checked.

    python -m bench.memory.solvers [--seconds SECONDS] [--or-tools SECONDS]
"""

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from bench.memory.check_plan import check_plan
from bench.memory.generators import perfect_packing, training_step
from bench.memory.instances import read_instance
from bench.results import ROOT, tested_versions
from wrapperir.planning import Buffer, Plan, lower_bound, plan, plan_greedily

PUBLIC = ROOT.parent / "shared" / "bench"
TABLE = ROOT / "docs" / "results" / "solvers.md"
CAPACITY = 1 << 20
PUBLISHED = {"A": 4.91, "B": 3.66, "C": 0.64, "D": 2.67}
"""Seconds that MiniMalloc's own solver takes to fit its instances into the capacity."""
COMPARED = (100, 1_000, 10_000)
GROWTH = (100, 1_000, 10_000, 60_000, 100_000)
UNLIMITED = 3600.0

Solve = Callable[[Sequence[Buffer]], Plan]


def instances() -> Iterator[tuple[str, tuple[Buffer, ...]]]:
    """Yield instances by name."""
    if not PUBLIC.is_dir():
        print(f"no public instances: {PUBLIC} is not there", file=sys.stderr)
    for path in sorted(PUBLIC.glob("*/*.csv")):
        yield path.stem.split(".")[0], read_instance(path)
    for count in COMPARED:
        yield f"packing {count}", perfect_packing(count, 0)
        yield f"training {count}", training_step(count, 0)


def timed(
    solve: Solve, buffers: Sequence[Buffer], clock: Callable[[], float]
) -> tuple[Plan, float]:
    """Return a plan, checked, and the seconds that it took."""
    began = clock()
    found = solve(buffers)
    took = clock() - began
    faults = check_plan(buffers, found)
    assert not faults, faults
    return found, took


PAGE = """\
# Memory plans

Written by `make bench-solvers` with {versions}. Each cell has the height of
[a plan](../reference/memory-solvers.md) as a multiple of the lower bound (the most bytes
alive at once), and the seconds that it took. Every plan is checked by code that planning
does not share.

- *greedy* is first fit in thirteen orders, *plan* adds the short search that passes use,
  and the last columns give the search a time budget; it ends sooner at the lower bound.
- A to D are instances of MiniMalloc, G_1 and resnet50 of idealloc. The optimum of D is
  not known.
- *packing* is a rectangle cut to pieces, so that the lower bound is the optimum.
- *training* is like the buffers of a training step.

{compared}

Seconds until a plan is within MiniMalloc's capacity of {capacity} bytes
(`plan(buffers, capacity=...)`), beside the seconds that MiniMalloc's authors published
for their solver:

{within}

How the time of greedy planning grows with the number of buffers n, in seconds of the
processor:

{grown}
"""


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown; the first column is text."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def compare(solvers: Mapping[str, Solve]) -> str:
    """Return the table of the plans of each solver for each instance."""
    rows: list[list[str]] = []
    for name, buffers in instances():
        row = [name, f"{len(buffers):,}", f"{lower_bound(buffers):,}"]
        for solve in solvers.values():
            found, took = timed(solve, buffers, time.perf_counter)
            row.append(f"{found.gap + 1:.4f}, {took:.2f} s")
        print(*row, sep="  ", file=sys.stderr)
        rows.append(row)
    return table(["instance", "buffers", "lower bound", *solvers], rows)


def within_capacity() -> str:
    """Return the table of the seconds until a plan fits the capacity."""
    rows: list[list[str]] = []
    for name, buffers in instances():
        if name not in PUBLISHED:
            continue
        found, took = timed(
            lambda b: plan(b, capacity=CAPACITY, seconds=UNLIMITED),
            buffers,
            time.perf_counter,
        )
        row = [name, f"{found.height:,}", f"{took:.3f}", f"{PUBLISHED[name]:.2f}"]
        print(*row, sep="  ", file=sys.stderr)
        rows.append(row)
    return table(["instance", "height", "seconds", "published"], rows)


def grow(solve: Solve) -> str:
    """Return the table of how a solver's seconds grow with the number of buffers."""
    rows: list[list[str]] = []
    for kind, make in (("packing", perfect_packing), ("training", training_step)):
        for count in GROWTH:
            buffers = make(count, 0)
            found, took = timed(solve, buffers, time.process_time)
            each = 1e6 * took / (len(buffers) * math.log2(len(buffers)))
            row = [f"{kind} {count}", f"{found.gap + 1:.4f}", f"{took:.3f}", f"{each:.2f}"]
            print(*row, sep="  ", file=sys.stderr)
            rows.append(row)
    return table(["instance", "height", "seconds", "µs / n log n"], rows)


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=15, help="longest search")
    parser.add_argument("--or-tools", type=float, default=0, help="seconds of OR-tools")
    options = parser.parse_args()
    plan(perfect_packing(100, 0))  # builds the compiled cores
    solvers: dict[str, Solve] = {
        "greedy": plan_greedily,
        "plan": plan,
        "plan, 1 s": lambda b: plan(b, seconds=1),
        f"plan, {options.seconds:g} s": lambda b: plan(b, seconds=options.seconds),
    }
    if options.or_tools:
        from bench.memory.or_tools import plan_with_or_tools

        solvers["OR-tools"] = lambda b: plan_with_or_tools(b, options.or_tools)
    page = PAGE.format(
        versions=tested_versions(),
        compared=compare(solvers),
        capacity=f"{CAPACITY:,}",
        within=within_capacity(),
        grown=grow(solvers["greedy"]),
    )
    TABLE.write_text(page)
    print(f"table: {TABLE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
