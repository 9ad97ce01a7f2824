"""Run time and compile time of models on the CPU: our own lowering beside Inductor.

BERT, GPT-2, Llama and ConvNeXt of 12 layers, 256 and 768 wide, inference and training steps
(forward and backward), one thread and two.  Each task has a process, in which Dynamo traces
the model first for no one, then Inductor and our lowering compile it with empty caches and
one worker each, then both run in turns.  Milliseconds are medians of the turns; seconds to
compile are from ``torch.compile`` to the end of the first step.

Results are collected in ``out/lowering-models``; an interrupted run resumes.  The table of
all results is written to ``docs/results/lowering-cpu.md``.

    python -m bench.lowering.models [--fresh] [--at-once N] [TASK ...]

Tasks that run at once have processors of their own.
"""

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import torch
import transformers as t
from attrs import frozen

from bench.machine import describe_machine
from bench.processors import on_own_processors, processors_each
from bench.results import ROOT, Record, ResultFile
from bench.small_models import VOCABULARY, bert, gpt2, llama

PAGE = ROOT / "docs" / "results" / "lowering-cpu.md"
LAYERS = 12
BATCH, LENGTH = 1, 128
LEAST_TURNS, SECONDS = 7, 6.0
BACKENDS: Mapping[str, Mapping[str, Any]] = {
    "inductor": {"backend": "inductor"},
    "lowering": {"backend": "wrapperir", "options": {"frontend": "lowering"}},
}
Inputs = dict[str, torch.Tensor]

INTRODUCTION = """\
# Models on the CPU with our own lowering

Models of 12 layers, inference and training steps (forward and backward), compiled with
`backend="wrapperir", options={{"frontend": "lowering"}}` and with plain Inductor, in one process that
runs them in turns. Milliseconds are medians. Seconds to compile are those of the first step with
empty caches and one worker each, after Dynamo has traced the model once. Made by
`python -m bench.lowering.models` with {machine};
{apart} {done} of {all} tasks have results.

Run time beside Inductor's: geometric mean **{time:.2f}** (goal 1.0), worst {worst:.2f} (goal 1.15).
Compile time: geometric mean **{compile:.2f}**, worst {slowest:.2f} (goal 0.3).

| model | width | step | threads | ms | Inductor's | ratio | s to compile | Inductor's | ratio |
| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
"""  # noqa: E501


def _convnext(width: int) -> torch.nn.Module:
    config = t.ConvNextConfig(
        hidden_sizes=[width // 8, width // 4, width // 2, width],
        depths=[2, 2, 6, 2],
        drop_path_rate=0.0,
    )
    return t.ConvNextForImageClassification(config)


def _tokens() -> Inputs:
    tokens = torch.randint(3, VOCABULARY, (BATCH, LENGTH))
    return {"input_ids": tokens, "labels": tokens}


def _image() -> Inputs:
    return {"pixel_values": torch.randn(BATCH, 3, 64, 64), "labels": torch.tensor([1])}


MODELS: Mapping[str, tuple[Callable[[int], torch.nn.Module], Callable[[], Inputs]]] = {
    "bert": (lambda width: bert(width, LAYERS), _tokens),
    "gpt2": (lambda width: gpt2(width, LAYERS), _tokens),
    "llama": (lambda width: llama(width, LAYERS, width * 11 // 4), _tokens),
    "convnext": (_convnext, _image),
}


@frozen(kw_only=True)
class TimedTask:
    """A model, and how it runs."""

    model: str
    width: int
    training: bool
    threads: int

    @property
    def name(self) -> str:
        """The name on the command line."""
        step = "training" if self.training else "inference"
        return f"{self.model}-{self.width}-{step}-{self.threads}"


TASKS = {
    task.name: task
    for training in (False, True)
    for threads in (1, 2)
    for width in (256, 768)
    for model in MODELS
    for task in [TimedTask(model=model, width=width, training=training, threads=threads)]
}


def run_child(task: TimedTask) -> None:
    """Print the record of a task as JSON; other processes have compiled nothing for it.

    Raises:
        AssertionError: the losses differ.
    """
    import torch._inductor.compile_fx

    import wrapperir.frontend.lowering.compile  # noqa: F401

    warnings.simplefilter("ignore")
    torch.set_num_threads(task.threads)
    torch.manual_seed(0)
    build, make_inputs = MODELS[task.model]
    model = build(task.width).train(task.training)
    inputs = make_inputs()

    def step(call: Callable[..., Any]) -> float:
        with torch.set_grad_enabled(task.training):
            loss = call(**inputs).loss
        if task.training:
            loss.backward()
            model.zero_grad(set_to_none=True)
        return float(loss)

    expected = step(torch.compile(model, backend="eager"))
    calls: dict[str, Callable[..., Any]] = {}
    record: dict[str, str | int | float | bool | None] = {"name": task.name}
    for name, options in BACKENDS.items():
        torch._dynamo.reset()
        begun = time.perf_counter()
        calls[name] = torch.compile(model, **options)
        loss = step(calls[name])
        record[f"{name}_seconds"] = time.perf_counter() - begun
        assert abs(loss - expected) < 1e-3, (name, loss, expected)
    times: dict[str, list[float]] = {name: [] for name in BACKENDS}
    begun = time.perf_counter()
    while time.perf_counter() - begun < SECONDS or len(times["lowering"]) < LEAST_TURNS:
        for name, call in calls.items():
            start = time.perf_counter()
            step(call)
            times[name].append((time.perf_counter() - start) * 1e3)
    record |= {f"{name}_ms": statistics.median(found) for name, found in times.items()}
    print(json.dumps(record))


def run_task(task: TimedTask) -> Record:
    """Return the record of a task, which a process with empty caches prints."""
    with tempfile.TemporaryDirectory() as caches:
        Path(caches, "user").mkdir(mode=0o700)
        settings = {
            "TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor",
            "XDG_CACHE_HOME": f"{caches}/user",
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            "OMP_NUM_THREADS": str(task.threads),
            "MKL_NUM_THREADS": str(task.threads),
        }
        done = subprocess.run(
            [sys.executable, "-m", "bench.lowering.models", "--child", task.name],
            env={**os.environ, **settings},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    record: Record = json.loads(done.stdout.splitlines()[-1])
    return record


def _ratio(record: Record, key: str) -> float:
    return float(record[f"lowering_{key}"] or 0) / float(record[f"inductor_{key}"] or 1)


def _mean(ratios: Sequence[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, ratios)))


def format_page(records: Mapping[str, Record], at_once: int) -> str:
    """Return the page of ``docs/results`` for these records."""
    apart = f"load average {os.getloadavg()[0]:.1f} when the page was written."
    if at_once > 1:
        share = processors_each(at_once)
        apart = f"{at_once} tasks at once had {share} processors each."
    times = [_ratio(record, "ms") for record in records.values()]
    compiled = [_ratio(record, "seconds") for record in records.values()]
    text = INTRODUCTION.format(
        machine=describe_machine(),
        apart=apart,
        done=len(records),
        all=len(TASKS),
        time=_mean(times),
        worst=max(times),
        compile=_mean(compiled),
        slowest=max(compiled),
    )
    for name, record in records.items():
        task = TASKS[name]
        cells = [task.model, str(task.width), "training" if task.training else "inference"]
        cells.append(str(task.threads))
        for key, digits in (("ms", 2), ("seconds", 1)):
            cells += [
                f"{record[f'{who}_{key}']:.{digits}f}" for who in ("lowering", "inductor")
            ]
            cells.append(f"{_ratio(record, key):.2f}")
        text += f"| {' | '.join(cells)} |\n"
    return text


@click.command()
@click.option("--fresh", is_flag=True, help="Forget earlier results.")
@click.option("--child", type=click.Choice(list(TASKS)), help="Run a task in this process.")
@click.option("--at-once", default=1, help="Tasks that run at once.")
@click.argument("names", nargs=-1)
def main(fresh: bool, child: str | None, at_once: int, names: tuple[str, ...]) -> None:
    """Time each task, or those named, and write the page."""
    if child is not None:
        run_child(TASKS[child])
        return
    unknown = sorted(set(names) - set(TASKS))
    if unknown:
        raise click.BadParameter(f"no such task: {', '.join(unknown)}")
    results = ResultFile.of("lowering-models")
    if fresh:
        results.clear()
    done = results.read()
    storing = threading.Lock()

    def run(name: str) -> None:
        if name not in done or name in names:
            record = run_task(TASKS[name])
            with storing:
                results.add(record)
        else:
            record = done[name]
        click.echo(
            f"{name}: {record['lowering_ms']:.2f} ms, {_ratio(record, 'ms'):.2f};"
            f" compiled in {record['lowering_seconds']:.1f} s,"
            f" {_ratio(record, 'seconds'):.2f} of Inductor's"
        )

    on_own_processors(run, names or tuple(TASKS), at_once)
    records = results.read()
    PAGE.write_text(format_page({n: records[n] for n in TASKS if n in records}, at_once))
    click.echo(f"table: {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
