"""Cold and warm starts on a GPU beside Inductor's, several workloads at once.

    python -m bench.gpu.starts [--write] [--warm N] [--at-once N] [WORKLOAD ...]

Each contender has caches of its own: its first process finds none, later ones those that
the first left.  Workloads that are measured at once have equal shares of the processors
and, in turn, the next GPU.  ``docs/results/gpu-starts.md`` is written with
``--write``.
"""

import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click
import torch
from attrs import frozen

from bench.bytecode import with_bytecode
from bench.gpu.models import WORKLOADS
from bench.gpu.start_phases import start
from bench.machine import describe_machine
from bench.processors import on_own_processors, processors_each
from bench.results import ROOT

PAGE = ROOT / "docs" / "results" / "gpu-starts.md"
INTRODUCTION = """\
# Starts on a GPU

`python -m bench.gpu.starts --write` wrote this page.

{machine}

Seconds from `torch.compile` to the end of the third call: *cold* in a process that finds
no caches, *warm* in later ones, the median of {warm}. Ratios are to Inductor's.
{at_once} workloads were measured at once, each with {processors} processors of its own, so
seconds compare the contenders of a row, no more. Goals: cold at most 1.00 with emitted
Python, 1.15 with C++ and 0.50 with kernels of our own; warm at most 0.80. Where the time
goes is shown by `python -m bench.gpu.start_phases`.

"""
CONTENDERS = {
    "inductor": "Inductor",
    "python": "Python",
    "cpp": "C++",
    "lowering": "own kernels",
}
GOALS = {
    "cold": {"python": 1.0, "cpp": 1.15, "lowering": 0.5},
    "warm": {"python": 0.8, "cpp": 0.8, "lowering": 0.8},
}
"""What a start may take, as a multiple of Inductor's seconds."""
CHOSEN = ("gpt2", "bert", "resnet", "training")


@frozen
class Starts:
    """The seconds of a cold start and of warm ones, or why there are none."""

    cold: float = 0.0
    warm: tuple[float, ...] = ()
    skipped: str = ""


def measure(
    workload: str, warm: int, folder: Path, environment: Mapping[str, str]
) -> dict[str, Starts]:
    """Return the starts of all contenders, one process after the other."""
    found: dict[str, Starts] = {}
    for name in CONTENDERS:
        caches = f"{folder}/{workload}-{name}"
        started = [start(workload, name, caches, environment) for _ in range(1 + warm)]
        reasons = [str(each["skipped"]) for each in started if "skipped" in each]
        if reasons:
            found[name] = Starts(skipped=reasons[0])
            continue
        cold, *later = (float(each["total"]) for each in started)
        found[name] = Starts(cold, tuple(later))
        click.echo(f"{workload} {name}: {cold:.1f}, {[round(x, 2) for x in later]}")
    return found


def seconds_of(kind: str, found: Mapping[str, Starts]) -> dict[str, float]:
    """Return the seconds of each contender's ``cold`` or ``warm`` start."""
    return {
        name: each.cold if kind == "cold" else statistics.median(each.warm)
        for name, each in found.items()
        if not each.skipped
    }


def format_rows(workload: str, found: Mapping[str, Starts]) -> list[str]:
    """Return the rows of a workload: its seconds, and their ratios to Inductor's."""
    rows: list[str] = []
    for kind in GOALS:
        seconds = seconds_of(kind, found)
        base = seconds.get("inductor")
        cells = [f"{seconds[name]:.2f}" if name in seconds else "-" for name in CONTENDERS]
        cells += [
            f"{seconds[name] / base:.2f}" if base and name in seconds else "-"
            for name in CONTENDERS
            if name != "inductor"
        ]
        rows.append(f"| {workload} | {kind} | {' | '.join(cells)} |")
    return rows


def missed_goals(found: Mapping[str, Mapping[str, Starts]]) -> Iterator[str]:
    """Yield each goal that is missed, with what was measured."""
    for workload, starts in found.items():
        for kind, goals in GOALS.items():
            seconds = seconds_of(kind, starts)
            base = seconds.get("inductor")
            for name, goal in goals.items():
                ratio = seconds[name] / base if base and name in seconds else 0.0
                if round(ratio, 2) > goal:
                    title = CONTENDERS[name]
                    yield f"{workload}, {kind}, {title}: {ratio:.2f} (goal {goal:.2f})"


def format_table(found: Mapping[str, Mapping[str, Starts]]) -> str:
    """Return the table, and why starts are missing from it."""
    titles = list(CONTENDERS.values())
    heads = [*titles, *(f"{title} / Inductor" for title in titles[1:])]
    lines = [
        f"| model | start | {' | '.join(heads)} |",
        f"| --- | --- |{' ---: |' * len(heads)}",
    ]
    for workload, starts in found.items():
        lines += format_rows(workload, starts)
    missing = [
        f"{workload}, {CONTENDERS[name]}: {each.skipped}"
        for workload, starts in found.items()
        for name, each in starts.items()
        if each.skipped
    ]
    lines += ["", *(f"- {each}" for each in missing)] if missing else []
    missed = [f"- {each}" for each in missed_goals(found)]
    lines += ["", "Goals that are missed:", "", *missed] if missed else []
    return "\n".join(lines) + "\n"


def measure_apart(
    names: Sequence[str], warm: int, at_once: int
) -> dict[str, dict[str, Starts]]:
    """Return the starts of workloads, each on processors and a GPU that are its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = with_bytecode(folder / "bytecode")

        def run(number: int) -> dict[str, Starts]:
            device = str(number % max(1, torch.cuda.device_count()))
            own = {**environment, "CUDA_VISIBLE_DEVICES": device}
            return measure(names[number], warm, folder, own)

        found = on_own_processors(run, range(len(names)), at_once)
        return dict(zip(names, found, strict=True))


@click.command()
@click.option("--write", is_flag=True, help="Write the page.")
@click.option("--warm", default=3, help="Warm starts of each contender.")
@click.option("--at-once", default=4, help="Workloads that are measured at once.")
@click.argument("names", nargs=-1, type=click.Choice([each.name for each in WORKLOADS]))
def main(names: tuple[str, ...], write: bool, warm: int, at_once: int) -> None:
    """Print a table; write ``docs/results/gpu-starts.md`` with ``--write``."""
    if not torch.cuda.is_available():
        raise click.ClickException("starts on a GPU are measured where there is one")
    chosen = names or CHOSEN
    at_once = min(at_once, len(chosen))
    text = INTRODUCTION.format(
        machine=f"{describe_machine()}, {torch.cuda.get_device_name(0)}",
        warm=warm,
        at_once=at_once,
        processors=processors_each(at_once),
    )
    text += format_table(measure_apart(chosen, warm, at_once))
    click.echo(text)
    if write:
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
