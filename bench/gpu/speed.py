"""Time, memory and compile time on a GPU, beside eager PyTorch and Inductor.

All contenders run in one process and take turns; each is compared with eager before it is
timed.  Memory and compile time are measured in a process for each, with empty caches and
again with the caches that it left.

    python -m bench.gpu.speed [--workload NAME ...] [--rounds N] [--compile]
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence

import click
import torch

from bench.gpu.contenders import CONTENDERS, REPLAYED, Step, captured, step_of
from bench.gpu.models import WORKLOADS, Inputs, Workload
from bench.machine import describe_machine
from bench.results import ROOT

PAGE = ROOT / "docs" / "results" / "gpu-speed.md"
LEAST_SECONDS = 0.05
"""A turn repeats its calls for at least this long."""


def _leaves(value: object) -> Iterator[torch.Tensor]:
    leaves, _ = torch.utils._pytree.tree_flatten(value)
    return (leaf for leaf in leaves if isinstance(leaf, torch.Tensor))


def largest_error(expected: object, actual: object) -> float:
    """Return the largest difference, relative to the largest expected number."""
    pairs = zip(_leaves(expected), _leaves(actual), strict=True)
    return max(
        (
            float(
                (a.float() - e.float()).abs().max() / e.float().abs().max().clamp_min(1e-6)
            )
            for e, a in pairs
        ),
        default=0.0,
    )


def seconds_of(step: Step, inputs: Sequence[Inputs], calls: int) -> float:
    """Return the seconds of a call, the device's work included."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for number in range(calls):
        torch.compiler.cudagraph_mark_step_begin()
        step(inputs[number % len(inputs)])
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / calls


def _failure(workload: Workload, contender: str, error: str) -> str:
    return f"{workload.name}: {contender} fails: {error[:200]}"


def prepare(
    workload: Workload, said: list[str]
) -> tuple[dict[str, Step], Sequence[Inputs]]:
    """Return the compiled steps by contender; ``said`` gets those that do not run."""
    torch.manual_seed(0)
    function, inputs = workload.make()
    steps: dict[str, Step] = {}
    expected: list[object] = []
    for name in CONTENDERS:
        step = step_of(workload, name, function)
        try:
            for _ in range(3):
                outputs = []
                for each in inputs:
                    torch.compiler.cudagraph_mark_step_begin()
                    found = step(each)
                    outputs.append([leaf.clone() for leaf in _leaves(found)])
            torch.cuda.synchronize()
        except Exception as error:  # a contender that fails is told, and left out
            traceback.print_exc()
            said.append(
                f"{workload.name}: {name} fails: {type(error).__name__}: {error}"[:200]
            )
            continue
        expected = expected or outputs
        error = largest_error(expected, outputs)
        if error > 0.05:
            said.append(f"{workload.name}: {name} differs from eager by {error:.2g}")
        steps[name] = step
    fastest = steps.get("wrapperir, C++")
    if fastest is not None and not workload.training and not workload.dynamic:
        steps[REPLAYED] = captured(fastest, inputs[0])
    return steps, inputs


def time_workload(workload: Workload, rounds: int, said: list[str]) -> str:
    """Return the table of a workload: microseconds of a call."""
    steps, inputs = prepare(workload, said)
    calls = {
        name: max(len(inputs), int(LEAST_SECONDS / seconds_of(step, inputs, 8)))
        for name, step in steps.items()
    }
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            times[name].append(seconds_of(step, inputs, calls[name]))
    return _format_table(workload, times)


def _format_table(workload: Workload, times: Mapping[str, Sequence[float]]) -> str:
    base = min(times["Inductor"]) if "Inductor" in times else float("nan")
    lines = [f"{workload.title:44} {'least':>10} {'median':>10}  of Inductor's"]
    for name, values in times.items():
        least, median = min(values) * 1e6, statistics.median(values) * 1e6
        lines.append(f"  {name:42} {least:10.1f} {median:10.1f} {min(values) / base:10.2f}")
    return "\n".join(lines)


def _figures(workload: Workload, contender: str, folder: str) -> dict[str, float]:
    caches = {
        "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
        "TRITON_CACHE_DIR": f"{folder}/triton",
        "XDG_CACHE_HOME": f"{folder}/cache",
    }
    command = [sys.executable, "-m", "bench.gpu.one", workload.name, contender]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **caches}, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def compile_table(workload: Workload, said: list[str]) -> str:
    """Return the table of a workload: seconds to compile, and the peak of memory in MB."""
    lines = [f"{workload.title:44} {'cold s':>8} {'warm s':>8} {'peak MB':>9}"]
    for name in CONTENDERS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                cold = _figures(workload, name, folder)
                warm = _figures(workload, name, folder)
            except RuntimeError as error:
                said.append(_failure(workload, name, str(error)))
                continue
        peak = warm["peak"]
        lines.append(f"  {name:42} {cold['seconds']:8} {warm['seconds']:8} {peak:9}")
    return "\n".join(lines)


@click.command()
@click.option("--workload", "names", multiple=True, help="One of the workloads by name.")
@click.option("--rounds", default=15, show_default=True, help="Turns of each contender.")
@click.option("--compile/--no-compile", "compiles", default=True, show_default=True)
def main(names: tuple[str, ...], rounds: int, compiles: bool) -> None:
    """Measure, print the tables and write the page if all workloads were measured."""
    if not torch.cuda.is_available():
        raise click.ClickException("there is no GPU that torch can use")
    torch._dynamo.config.recompile_limit = 64
    machine = f"{describe_machine()}, {torch.cuda.get_device_name(0)}"
    print(machine, flush=True)
    said: list[str] = []
    tables: list[str] = []
    for workload in WORKLOADS:
        if names and workload.name not in names:
            continue
        table = time_workload(workload, rounds, said)
        if compiles:
            table += "\n\n" + compile_table(workload, said)
        print(f"\n{table}", flush=True)
        tables.append(table)
        torch._dynamo.reset()
        torch.cuda.empty_cache()
    for sentence in said:
        print(sentence)
    if not names:
        body = "\n\n".join([machine, *tables, *said])
        PAGE.write_text(f"{_HEAD}\n```text\n{body}\n```\n")
        print(f"tables: {PAGE.relative_to(ROOT)}")


_HEAD = """\
# Speed on a GPU

Output of one run of `make bench-gpu`: microseconds of a call, the GPU's work included, of
contenders that take turns in one process. *of Inductor's* is the ratio to Inductor's Python
wrapper. *captured by hand* is the replay of a CUDA graph with inputs that stay in place.
Seconds of compiling are from the first call to the end of the third, with empty caches and
with the caches of the run before. *peak MB* is memory above weights and inputs.
"""

if __name__ == "__main__":
    main()
