"""Compile time of a DistilBERT on the CPU in a first process and in later ones.

The first process finds no caches; the later ones find those that it left.  Seconds are from
``torch.compile``, which imports the backend, to the end of the first call.  The phases are
PyTorch's own (``torch._dynamo.utils.compilation_time_metrics``); one includes another.
Processor time is that of the process and the compilers that it started; unlike seconds, it
hardly depends on what else the machine does.

    python -m bench.compile.warm_start [CONTENDER ...]
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from bench.machine import describe_machine
from bench.results import ROOT

ROUNDS = 5
GOAL = 0.8
COLD_GOALS = {"python": 1.0, "cpp": 1.15, "lowering": 0.3}
OPTIONS: Mapping[str, dict[str, Any]] = {
    "inductor": {"backend": "inductor"},
    "python": {"backend": "wrapperir"},
    "cpp": {"backend": "wrapperir", "options": {"emitter": "cpp"}},
    "fx": {"backend": "wrapperir", "options": {"emitter": "fx"}},
    "lowering": {"backend": "wrapperir", "options": {"frontend": "lowering"}},
}
PHASES = {
    "Dynamo": "bytecode_tracing",
    "backend": "OutputGraph.call_user_compiler",
    "graph to code": "fx_codegen_and_compile",
}


@frozen
class Figures:
    """Seconds of one process: of all, of processors, and of each phase it went through."""

    total: float
    processors: float
    phases: Mapping[str, float]


def compile_model(contender: str) -> None:
    """Print the figures of a contender in this process, as JSON."""
    import torch
    from torch._dynamo.utils import compilation_time_metrics
    from transformers import DistilBertConfig, DistilBertModel

    config = DistilBertConfig(
        vocab_size=1000, dim=256, hidden_dim=1024, n_heads=4, n_layers=6
    )
    torch.manual_seed(0)
    model = DistilBertModel(config).eval()
    tokens = torch.randint(0, 1000, (2, 64))
    with torch.no_grad():
        expected = model(tokens).last_hidden_state
        begun, before = time.perf_counter(), processor_seconds()
        compiled: Any = torch.compile(model, **OPTIONS[contender])
        actual = compiled(tokens).last_hidden_state
        total = time.perf_counter() - begun
        processors = processor_seconds() - before
    torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4)
    phases = {
        name: sum(compilation_time_metrics[metric])
        for name, metric in PHASES.items()
        if metric in compilation_time_metrics
    }
    print(json.dumps({"total": total, "processors": processors, "phases": phases}))


def processor_seconds() -> float:
    """Return the processor time of this process and of its children that have ended."""
    who = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    used = [resource.getrusage(each) for each in who]
    return sum(each.ru_utime + each.ru_stime for each in used)


def figures_of(contender: str, caches: str) -> Figures:
    """Return the figures of a process that has its caches in a directory."""
    places = {
        "TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor",
        "TRITON_CACHE_DIR": f"{caches}/triton",
        "XDG_CACHE_HOME": caches,
        "TMPDIR": caches,  # where Inductor keeps the header that it compiles first
    }
    done = subprocess.run(
        [sys.executable, "-m", "bench.compile.warm_start", "--child", contender],
        env={**os.environ, **places},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return Figures(**json.loads(done.stdout.splitlines()[-1]))


def main(contenders: list[str]) -> None:
    """Print the medians of all contenders and their ratios to Inductor's."""
    chosen = contenders or list(OPTIONS)
    first: dict[str, Figures] = {}
    later: dict[str, list[Figures]] = {name: [] for name in chosen}
    with tempfile.TemporaryDirectory() as caches:
        for name in chosen:
            os.mkdir(f"{caches}/{name}", mode=0o700)
            first[name] = figures_of(name, f"{caches}/{name}")
        for _ in range(ROUNDS):
            for name in chosen:
                later[name].append(figures_of(name, f"{caches}/{name}"))
    print(describe_machine())
    warm = {
        name: sorted(found, key=lambda each: each.total)[len(found) // 2]
        for name, found in later.items()
    }
    for kind, figures in (("cold", first), ("warm", warm)):
        for name, found in figures.items():
            goal = GOAL if kind == "warm" else COLD_GOALS.get(name, 1.0)
            ratio = ""
            if name != "inductor" and "inductor" in figures:
                share = found.total / figures["inductor"].total
                ratio = f"  {share:.2f} of Inductor's (goal {goal})"
            phases = ", ".join(f"{p} {s:.2f}" for p, s in found.phases.items())
            times = f"{found.total:6.2f} s, {found.processors:6.2f} s of processors"
            print(f"{kind} {name:9} {times} ({phases}){ratio}")
    spread = {
        name: statistics.pstdev(each.total for each in found)
        for name, found in later.items()
    }
    print("deviations of the warm ones, s:", {n: round(s, 3) for n, s in spread.items()})


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments[:1] == ["--child"]:
        compile_model(arguments[1])
    else:
        main(arguments)
