"""Counts the bytes that kernels move: of Inductor's programs, and of our own lowering's.

Each model of the demo and of the sweep runs once with the programs of both frontends, in
the interpreter.  Their kernels are instrumented, so both are counted by one rule
(:mod:`bench.lowering.recorded_kernels`).  Operator calls do not count; the page has how
many there are.  Memory is what the programs hold after the passes over memory, donated
inputs included, others and constants not.

Results are collected in ``out/lowering-bytes``; an interrupted run resumes.  The table is
written to ``docs/results/lowering-bytes.md``.

    python -m bench.lowering.moved_bytes [--fresh] [TASK ...]
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import click
import torch
from attrs import define, field
from torch._functorch import config as functorch_config

from bench.demo.models import DEMO
from bench.lowering.recorded_kernels import MovedBytes, recording
from bench.memory.planned import planned_memory
from bench.model_run import ModelTask, max_error, run_step
from bench.results import ROOT, Record, ResultFile, tested_versions
from bench.sweep.model_zoo import ZOO
from wrapperir.emit import Value
from wrapperir.frontend import Lowered
from wrapperir.frontend.inductor import compile_graph as compile_by_inductor
from wrapperir.frontend.lowering.compile import LoweringSettings
from wrapperir.frontend.lowering.compile import compile_graph as compile_by_lowering
from wrapperir.interp import Interpreter
from wrapperir.ir import ExternKernelLine, Program
from wrapperir.passes import MEMORY_PASSES
from wrapperir.pipelines import run_passes

TASKS = {task.name: task for task in DEMO} | ZOO
PAGE = ROOT / "docs" / "results" / "lowering-bytes.md"
TOLERANCE = 1e-4
GOALS = {"bytes": 1.10, "launches": 1.1, "peak": 1.0}

CompileGraph: TypeAlias = Callable[..., Callable[..., Any]]
FRONTENDS: Mapping[str, CompileGraph] = {
    "inductor": compile_by_inductor,
    "lowering": partial(compile_by_lowering, settings=LoweringSettings()),
}

INTRODUCTION = """\
# Bytes that kernels move

The models of the demo and of the sweep, on the CPU, as programs of both frontends: Inductor's
kernels, and those of our own lowering. The kernels of both are run with their accesses to memory
recorded. Each byte that a launch reads before it wrote it counts once, and so does each that it
writes; both put several loop nests into one launch. Calls of operators (products,
convolutions, attention) do not count, in either. Memory is what the programs hold at most after the
passes over memory (`wrapperir.passes.MEMORY_PASSES`): of inputs only those that are donated, as
saved values are, and no constants; in training, the larger of the forward's and the backward's. Made by
`python -m bench.lowering.moved_bytes` with {versions}.

In sum, our kernels move **{sum:.3f}** of the bytes that Inductor's move (goal 1.00), at most
{worst:.2f} in one model (goal 1.10), in {launches:.2f} of the launches (goal 1.1), at most
{most_launches:.2f} in one model. The peak of memory is at most {peak:.3f} of Inductor's (goal 1.00).

| model | KB moved | Inductor's | ratio | launches | Inductor's | kernels | Inductor's | calls | Inductor's | peak KB | Inductor's | ratio |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
"""  # noqa: E501


@define
class Counted:
    """What the programs of a model do: moved bytes, operator calls, peak of memory."""

    moved: MovedBytes = field(factory=MovedBytes)
    calls: int = 0
    peak: int = 0

    def add(self, program: Program) -> None:
        """Add the operator calls and the peak of a program."""
        lines = program.lines
        self.calls += sum(isinstance(line, ExternKernelLine) for line in lines)
        planned = run_passes(program, MEMORY_PASSES)
        self.peak = max(self.peak, planned_memory(planned).height)


def counted(
    task: ModelTask, compile_graph: CompileGraph
) -> tuple[Counted, dict[str, torch.Tensor]]:
    """Return what the programs of a frontend do in one step, and the step's tensors."""
    counts = Counted()

    def compile(lowered: Lowered, *_: object) -> Callable[[list[Value]], tuple[Value, ...]]:
        interpreter = Interpreter(lowered.program, lowered.constants)
        counts.add(lowered.program)

        def call(arguments: list[Value]) -> tuple[Value, ...]:
            with recording(counts.moved):
                return interpreter.run(arguments)

        return call

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        return compile_graph(graph, inputs, compile)

    torch._dynamo.reset()
    torch.manual_seed(0)
    model = task.model().train(task.training)
    inputs = task.inputs()
    with functorch_config.patch(enable_autograd_cache=False):
        compiled = torch.compile(model, backend=backend, dynamic=False)
        return counts, run_step(model, compiled, inputs, training=task.training)


def run_task(task: ModelTask) -> Record:
    """Return the record of a task.

    Raises:
        AssertionError: the programs of both frontends gave other results.
    """
    record: dict[str, str | int | float | bool | None] = {"name": task.name}
    outputs: list[dict[str, torch.Tensor]] = []
    for frontend, compile_graph in FRONTENDS.items():
        counts, tensors = counted(task, compile_graph)
        outputs.append(tensors)
        figures = {
            "bytes": counts.moved.moved,
            "launches": counts.moved.launches,
            "kernels": len(counts.moved.kernels),
            "calls": counts.calls,
            "peak": counts.peak,
        }
        record |= {f"{frontend}_{key}": value for key, value in figures.items()}
    error = max_error(*outputs)
    assert error <= TOLERANCE, f"{task.name}: results differ by {error:g}"
    return record


def _ratio(record: Record, key: str) -> float:
    ours, theirs = record[f"lowering_{key}"], record[f"inductor_{key}"]
    assert isinstance(ours, int)
    assert isinstance(theirs, int)
    return ours / theirs if theirs else math.inf if ours else 1.0


def _total(records: Sequence[Record], key: str) -> float:
    return sum(float(record[key] or 0) for record in records)


def format_page(records: Sequence[Record]) -> str:
    """Return the page of ``docs/results`` for these records."""

    def whole(key: str) -> float:
        return _total(records, f"lowering_{key}") / _total(records, f"inductor_{key}")

    text = INTRODUCTION.format(
        versions=tested_versions(),
        sum=whole("bytes"),
        worst=max(_ratio(record, "bytes") for record in records),
        launches=whole("launches"),
        most_launches=max(_ratio(record, "launches") for record in records),
        peak=max(_ratio(record, "peak") for record in records),
    )
    for record in records:
        cells = [str(record["name"])]
        for key, unit in (
            *(("bytes", 1000), ("launches", 1), ("kernels", 1)),
            *(("calls", 1), ("peak", 1000)),
        ):
            for frontend in ("lowering", "inductor"):
                value = record[f"{frontend}_{key}"]
                assert isinstance(value, int)
                cells.append(f"{value // unit:,}")
            if key in ("bytes", "peak"):
                cells.append(f"{_ratio(record, key):.3f}")
        text += f"| {' | '.join(cells)} |\n"
    return text


@click.command()
@click.option("--fresh", is_flag=True, help="Forget earlier results.")
@click.argument("names", nargs=-1)
def main(fresh: bool, names: tuple[str, ...]) -> None:
    """Count for each task, or for those named, and write the page."""
    unknown = sorted(set(names) - set(TASKS))
    if unknown:
        raise click.BadParameter(f"no such task: {', '.join(unknown)}")
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    results = ResultFile.of("lowering-bytes")
    if fresh:
        results.clear()
    done = results.read()
    for name in names or TASKS:
        if name not in done or name in names:
            results.add(run_task(TASKS[name]))
        record = results.read()[name]
        ratios = ", ".join(f"{key} {_ratio(record, key):.3f}" for key in GOALS)
        click.echo(f"{name}: {ratios}", err=True)
    records = results.read()
    if records.keys() >= TASKS.keys():
        PAGE.write_text(format_page([records[name] for name in TASKS]))
        click.echo(f"table: {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
