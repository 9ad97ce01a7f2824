"""The demo: compiles a BERT, a GPT-2 and a Llama and checks everything about them.

Each model runs in eager mode, under plain Inductor and under ``backend="wrapperir"``; the
GPT-2 in training too.  A result may differ from eager's by no more than Inductor's does,
unless its relative error against the model in f64 is at most 1.1 of eager's or of
Inductor's.  Every captured program must verify and survive the round trips through text,
JSON and an FX graph.  The reference interpreter, emitted Python, emitted C++ and the FX
graph must give the same bits.  Programs whose kernels sum in any order, which occurs only
in training, may differ slightly.  Text, JSON and Python of each are left in ``out/demo``
for reading.  Last, a small program with several kernels for one operation is tuned, and
the choices are shown.
"""

import shutil
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import torch
from attrs import frozen
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from torch._inductor.utils import fresh_cache

from bench.demo.choices import show_choices
from bench.demo.models import DEMO
from bench.demo.recording import Recorded, RecordingEmitter, copied, copy_tensor
from bench.model_run import (
    ModelTask,
    describe_excess,
    max_error,
    run_exactly,
    run_step,
)
from bench.sweep.compiled import first_line
from wrapperir.emit import Value, compile_program, write_artifact
from wrapperir.frontend.fx import lower_graph_module
from wrapperir.interp import interpret
from wrapperir.ir import KernelDefinitionLine, Program
from wrapperir.plugin import plugin_manager
from wrapperir.text import format_json, format_program, parse_json, parse_program
from wrapperir.verify import verify
from wrapperir_fx.graph_module import build_graph_module

OUT = Path("out") / "demo"
ROUNDS = 20
OTHER_EMITTERS = ("cpp", "fx")
"""Those that are held against the Python emitter."""
Step = Callable[[], dict[str, torch.Tensor]]


@frozen(kw_only=True)
class Row:
    """The results of one task; errors are the largest absolute ones."""

    task: str
    lines: int
    kernels: int
    text_bytes: int
    error: float
    inductor_error: float
    compile_seconds: float
    inductor_compile_seconds: float
    eager_ms: float
    inductor_ms: float
    run_ms: float
    failures: tuple[str, ...]


def run_task(task: ModelTask, frontend: str, console: Console) -> Row:
    """Run one task three ways, write its programs, and check them."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = task.model().train(task.training)
    inputs = task.inputs()
    recorder = RecordingEmitter(plugin_manager().emitter("python"))
    options: dict[str, Any] = {"emitter": recorder, "frontend": frontend}

    def step(call: Callable[..., object]) -> Step:
        return lambda: run_step(model, call, inputs, training=task.training)

    eager = step(model)
    inductor = step(torch.compile(model, backend="inductor"))
    ours = step(torch.compile(model, backend="wrapperir", options=options))
    expected = eager()
    with fresh_cache():
        console.print("  plain Inductor", end=" ")
        theirs, inductor_seconds = _timed(inductor)
        console.print(f"{inductor_seconds:.1f} s")
    with fresh_cache():
        console.print("  wrapperir", end=" ")
        actual, seconds = _timed(ours)
        console.print(f"{seconds:.1f} s")
    error, inductor_error = max_error(expected, actual), max_error(expected, theirs)
    failures: list[str] = []
    if not recorder.recorded:
        failures.append("no program was captured")
    excess = describe_excess(
        *(expected, actual, theirs, inductor_error),
        lambda: run_exactly(model, inputs, training=task.training),
    )
    failures += [] if excess is None else [excess]
    run_ms = _medians(eager, inductor, ours)
    console.print(f"  checking {len(recorder.recorded)} program(s)")
    texts = [_write(r, OUT / task.name / str(i)) for i, r in enumerate(recorder.recorded)]
    for number, recorded in enumerate(recorder.recorded):
        failures += [f"program {number}: {what}" for what in _check(recorded)]
    return Row(
        task=task.name,
        lines=sum(len(r.program.lines) for r in recorder.recorded),
        kernels=sum(
            isinstance(line, KernelDefinitionLine)
            for recorded in recorder.recorded
            for line in recorded.program.definitions
        ),
        text_bytes=sum(len(text.encode()) for text in texts),
        error=error,
        inductor_error=inductor_error,
        compile_seconds=seconds,
        inductor_compile_seconds=inductor_seconds,
        eager_ms=run_ms[0],
        inductor_ms=run_ms[1],
        run_ms=run_ms[2],
        failures=tuple(failures),
    )


def _timed(step: Step) -> tuple[dict[str, torch.Tensor], float]:
    start = time.perf_counter()
    result = step()
    return result, time.perf_counter() - start


def _medians(*steps: Step) -> list[float]:
    """Return the median milliseconds of each step; they take turns."""
    times: list[list[float]] = [[] for _ in steps]
    for _ in range(ROUNDS):
        for step, spent in zip(steps, times, strict=True):
            spent.append(1000 * _timed(step)[1])
    return [statistics.median(spent) for spent in times]


def _write(recorded: Recorded, directory: Path) -> str:
    """Write a program's text, JSON and Python, and return the text."""
    directory.mkdir(parents=True)
    text = format_program(recorded.program)
    (directory / "program.wir").write_text(text)
    (directory / "program.json").write_text(format_json(recorded.program))
    write_artifact(recorded.artifact, directory / "python")
    return text


def _check(recorded: Recorded) -> list[str]:
    """Return the faults of a captured program."""
    program = recorded.program
    wrong = [f"{d.code.value} {d.message}" for d in verify(program)]
    if parse_program(format_program(program)) != program:
        wrong.append("its text reads back as another program")
    if parse_json(format_json(program)) != program:
        wrong.append("its JSON reads back as another program")
    if recorded.inputs is None:
        return [*wrong, "it was never called"]
    module = build_graph_module(program, recorded.constants)
    if lower_graph_module(module).program != program:
        wrong.append("its FX graph reads back as another program")
    inputs = recorded.inputs

    def constants() -> dict[str, torch.Tensor]:
        return {key: copy_tensor(value) for key, value in recorded.constants.items()}

    found = {"interpreter": interpret(program, [*map(copied, inputs)], constants())}
    for name in OTHER_EMITTERS:
        call = compile_program(program, emitter=name, constants=constants())
        found[f"emitter {name}"] = call([*map(copied, inputs)])
    same = _close if _sums_in_any_order(program) else torch.equal
    for name, outputs in found.items():
        if not _equal(outputs, recorded.outputs, same):
            wrong.append(f"the {name} and the emitted Python differ")
    return wrong


def _sums_in_any_order(program: Program) -> bool:
    """Say whether threads of a kernel add to the same element, whoever comes first."""
    return any(
        isinstance(line, KernelDefinitionLine) and "atomic_add" in line.source
        for line in program.definitions
    )


def _close(left: torch.Tensor, right: torch.Tensor) -> bool:
    return torch.allclose(left, right, rtol=1e-5, atol=1e-7)


def _equal(
    left: tuple[Value, ...],
    right: tuple[Value, ...],
    same: Callable[[torch.Tensor, torch.Tensor], bool],
) -> bool:
    return len(left) == len(right) and all(
        same(a, b)
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)
        else a == b
        for a, b in zip(left, right, strict=True)
    )


def format_table(rows: list[Row]) -> Table:
    """Return the table of the demo."""
    table = Table(title="wrapperir beside eager and plain Inductor (CPU)")
    for heading in (
        "model", "lines", "kernels", "text kB", "max error", "Inductor's error",
        "compile s", "Inductor's s", "run ms", "Inductor's ms", "eager's ms", "checks",
    ):  # fmt: skip
        table.add_column(heading, justify="left" if heading == "model" else "right")
    for row in rows:
        table.add_row(
            row.task,
            str(row.lines),
            str(row.kernels),
            f"{row.text_bytes / 1000:.0f}",
            f"{row.error:.2e}",
            f"{row.inductor_error:.2e}",
            f"{row.compile_seconds:.1f}",
            f"{row.inductor_compile_seconds:.1f}",
            f"{row.run_ms:.2f}",
            f"{row.inductor_ms:.2f}",
            f"{row.eager_ms:.2f}",
            "failed" if row.failures else "passed",
        )
    return table


@click.command()
@click.option("--frontend", default="inductor", type=click.Choice(["inductor", "lowering"]))
def main(frontend: str) -> None:
    """Run the demo; the exit code is 1 if any check failed."""
    warnings.simplefilter("ignore")
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    shutil.rmtree(OUT, ignore_errors=True)
    with fresh_cache():  # so that no row pays for what only the first compilation costs
        torch.compile(torch.sin)(torch.ones(8))
    rows: list[Row] = []
    failed: list[str] = []
    for task in DEMO:
        console.print(f"[bold]{task.name}[/bold]")
        try:
            row = run_task(task, frontend, console)
        except Exception as error:  # one model's trouble must not hide the others'
            failed.append(f"{task.name}: {first_line(error, 2000)}")
            console.print("failed")
            continue
        rows.append(row)
        failed += [f"{task.name}: {failure}" for failure in row.failures]
    console.print(format_table(rows))
    console.print(f"text, JSON and Python of every program: {OUT}\n")
    console.print("[bold]choices between kernels[/bold]")
    try:
        failed += [f"choices: {failure}" for failure in show_choices(console)]
    except Exception as error:
        failed.append(f"choices: {first_line(error, 2000)}")
    for failure in failed:
        console.print("[red]FAILED[/red]", escape(failure))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
