"""Compile time on the CPU in a first process and in later ones, beside Inductor's.

The first process finds no caches; the later ones find those that it left.  Processor time
is that of the process and the compilers that it started, from ``torch.compile``, which
imports the backend, to the end of the first call or the first backward; unlike seconds, it
depends little on what else the machine does.  Contenders take turns.  The bytecode of
Python modules is compiled before, as pip does.

    python -m bench.compile.warm_start [--model NAME]... [--rounds N] [CONTENDER]...

writes ``docs/results/warm-start.md`` with ``--write``.
"""

import compileall
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

import click
from attrs import frozen

from bench.machine import describe_machine
from bench.results import ROOT

GOAL = 0.8
PAGE = ROOT / "docs" / "results" / "warm-start.md"
OPTIONS: Mapping[str, dict[str, Any]] = {
    "eager": {"backend": "eager"},
    "inductor": {"backend": "inductor"},
    "python": {"backend": "wrapperir"},
    "cpp": {"backend": "wrapperir", "options": {"emitter": "cpp"}},
    "lowering": {"backend": "wrapperir", "options": {"frontend": "lowering"}},
    "lowering-cpp": {
        "backend": "wrapperir",
        "options": {"frontend": "lowering", "emitter": "cpp"},
    },
}
"""Options of ``torch.compile``; with ``eager``, Dynamo alone takes its time."""

NAMES = {
    "eager": 'Dynamo alone (`backend="eager"`)',
    "inductor": "Inductor",
    "python": "Inductor's kernels, emitted Python",
    "cpp": "Inductor's kernels, emitted C++",
    "lowering": "our own lowering, emitted Python",
    "lowering-cpp": "our own lowering, emitted C++",
}
MODELS = {
    "function": "softmax and sine of 64 by 64 numbers",
    "inference": "a DistilBERT of 6 layers, inference",
    "training": "the DistilBERT, forward and backward",
}
TEXT = """\
# Compile time in a first process and in later ones

{machine}

Processor seconds from `torch.compile` to the end of the first call, or of the first
backward: of the first process, which finds no caches, and the median of {rounds} later
ones, beside Inductor's. The goal for later processes is {goal}.
`python -m bench.compile.warm_start --write` wrote this page.
"""


@frozen
class Figures:
    """Seconds and processor seconds of one process."""

    total: float
    processors: float


def _function() -> tuple[Any, tuple[Any, ...]]:
    """Return what is compiled, and its arguments."""
    import torch

    def called(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x * 2 + y, -1).sin()

    return called, (torch.rand(64, 64), torch.rand(64, 64))


def _model(*, trains: bool) -> tuple[Any, tuple[Any, ...]]:
    """Return what is compiled, and its arguments."""
    import torch
    from transformers import DistilBertConfig, DistilBertModel

    config = DistilBertConfig(
        vocab_size=1000,
        dim=256,
        hidden_dim=1024,
        n_heads=4,
        n_layers=6,
        dropout=0.0,
        attention_dropout=0.0,
    )
    model = DistilBertModel(config).train(trains)
    return model, (torch.randint(0, 1000, (2, 64)),)


def compile_model(name: str, contender: str) -> None:
    """Print the figures of a contender in this process, as JSON."""
    import torch

    torch.manual_seed(0)
    trains = name == "training"
    called, given = _function() if name == "function" else _model(trains=trains)

    def run(function: Any) -> Any:
        result = function(*given)
        result = getattr(result, "last_hidden_state", result)
        if trains:
            result.sum().backward()
        return result

    with torch.set_grad_enabled(trains):
        expected = run(called)
        begun, before = time.perf_counter(), processor_seconds()
        actual = run(torch.compile(called, **OPTIONS[contender]))
        total = time.perf_counter() - begun
        processors = processor_seconds() - before
    torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4)
    print(json.dumps({"total": total, "processors": processors}))


def processor_seconds() -> float:
    """Return the processor time of this process and of its children that have ended."""
    who = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    used = [resource.getrusage(each) for each in who]
    return sum(each.ru_utime + each.ru_stime for each in used)


def figures_of(model: str, contender: str, caches: str) -> Figures:
    """Return the figures of a process that has its caches in a directory."""
    places = {
        "TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor",
        "TRITON_CACHE_DIR": f"{caches}/triton",
        "XDG_CACHE_HOME": caches,
        "TMPDIR": caches,  # where Inductor keeps the header that it compiles first
    }
    done = subprocess.run(
        [sys.executable, "-m", "bench.compile.warm_start", "--child", model, contender],
        env={**os.environ, **places},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return Figures(**json.loads(done.stdout.splitlines()[-1]))


def measure(
    model: str, contenders: Sequence[str], rounds: int, folder: str
) -> Mapping[str, tuple[Figures, Figures]]:
    """Return the figures of the first process of each contender, and of a later one."""
    first: dict[str, Figures] = {}
    later: dict[str, list[Figures]] = {name: [] for name in contenders}
    for name in contenders:
        os.mkdir(f"{folder}/{model}-{name}", mode=0o700)
        first[name] = figures_of(model, name, f"{folder}/{model}-{name}")
    for _ in range(rounds):
        for name in contenders:
            later[name].append(figures_of(model, name, f"{folder}/{model}-{name}"))
    return {
        name: (
            first[name],
            Figures(
                statistics.median(each.total for each in later[name]),
                statistics.median(each.processors for each in later[name]),
            ),
        )
        for name in contenders
    }


def format_table(model: str, found: Mapping[str, tuple[Figures, Figures]]) -> str:
    """Return the table of a model, in Markdown."""
    rows = [
        f"## {MODELS[model][0].upper()}{MODELS[model][1:]}\n",
        "| compiled by | first process | of Inductor's | later | of Inductor's |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, figures in found.items():
        cells = [NAMES[name]]
        for number, each in enumerate(figures):
            theirs = found["inductor"][number] if "inductor" in found else None
            share = "" if theirs is None else f"{each.processors / theirs.processors:.2f}"
            cells += [f"{each.processors:.2f}", share]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


@click.command()
@click.option("--model", "models", multiple=True, type=click.Choice([*MODELS]))
@click.option("--rounds", default=5, show_default=True)
@click.option("--write", is_flag=True, help="Write the page of results.")
@click.option("--child", is_flag=True, hidden=True)
@click.argument("contenders", nargs=-1)
def main(
    models: tuple[str, ...],
    rounds: int,
    write: bool,
    child: bool,
    contenders: tuple[str, ...],
) -> None:
    """Print first and later processes of all contenders, and their ratios."""
    if child:
        return compile_model(*contenders)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for package in ("wrapperir", "emitters"):
        compileall.compile_dir(ROOT / package, quiet=2)
    chosen = contenders or tuple(OPTIONS)
    described = describe_machine()
    print(described, flush=True)
    tables: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for model in models or tuple(MODELS):
            tables.append(format_table(model, measure(model, chosen, rounds, folder)))
            print(f"\n{tables[-1]}", flush=True)
    if write:
        text = TEXT.format(machine=described, rounds=rounds, goal=GOAL)
        PAGE.write_text("\n".join([text, *[f"{table}\n" for table in tables]]))
    return None


if __name__ == "__main__":
    main()
