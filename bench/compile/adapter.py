"""Compile time from Inductor's finished lines to a loaded module, beside Inductor's own.

Both compile the same models in one run.  Inductor's time is that of its Python wrapper's
``generate``: planning and text, without writing, compiling or importing the module.  Ours
is conversion, verification, passes over memory, emission and loading, after the same
planning.  Neither includes building C++ kernels, which are replaced by functions that do
nothing.  Times are processor times, so that other work on the machine counts little.

    python -m bench.compile.adapter [repetitions]
"""

import contextlib
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch._inductor import config
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.codegen.wrapper import PythonWrapperCodegen

from bench.demo.models import DEMO
from bench.model_run import ModelTask
from wrapperir import pipelines
from wrapperir.emit import pipeline
from wrapperir.frontend.inductor import build
from wrapperir.frontend.inductor.wrapper import CaptureWrapper

Times = dict[str, float]
"""Seconds by stage, and the number of ``lines``."""


def _idle(*_: object) -> None:
    """Stand in for a kernel."""


@contextlib.contextmanager
def _kernels_not_built() -> Iterator[None]:
    with (
        mock.patch.object(AsyncCompile, "cpp_pybinding", return_value=_idle),
        mock.patch.object(AsyncCompile, "wait", return_value=None),
        config.patch(fx_graph_cache=False),
        torch._functorch.config.patch(enable_autograd_cache=False),
    ):
        yield


@contextlib.contextmanager
def _timed(times: Times, stage: str, owner: Any, name: str) -> Iterator[None]:
    """Add the time that a function takes, and what it counts, to ``times``."""
    original: Callable[..., Any] = getattr(owner, name)

    def run(*args: Any, **keywords: Any) -> Any:
        start = time.thread_time()
        try:
            return original(*args, **keywords)
        finally:
            times[stage] += time.thread_time() - start
            if stage in ("generate", "total"):
                times["lines"] += len(args[0].lines)

    with mock.patch.object(owner, name, run):
        yield


def measure(task: ModelTask, backend: str) -> Times:
    """Compile one model with one backend and return the times of its stages."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = task.model().train(task.training)
    times: Times = defaultdict(float)
    stages: list[tuple[str, Any, str]] = [("generate", PythonWrapperCodegen, "_generate")]
    if backend == "wrapperir":
        emitter = pipeline.find_emitter("python")
        stages = [
            ("total", CaptureWrapper, "_generate"),
            ("plan", PythonWrapperCodegen, "run_wrapper_ir_passes"),
            ("convert", build, "build_program"),
            ("prepare", pipeline, "prepare_program"),
            ("passes", pipelines, "run_passes"),
            ("emit", pipeline, "emit_program"),
            ("load", type(emitter), "load"),
        ]
    with contextlib.ExitStack() as stack:
        stack.enter_context(_kernels_not_built())
        for stage, owner, name in stages:
            stack.enter_context(_timed(times, stage, owner, name))
        compiled = torch.compile(model, backend=backend)
        with contextlib.nullcontext() if task.training else torch.no_grad():
            outputs = compiled(**task.inputs())
        if task.training:
            outputs.loss.backward()
    return times


def main(repetitions: int) -> None:
    """Print, for each model, microseconds a line and the ratio of the two."""
    measure(DEMO[0], "wrapperir")  # what is imported late is imported now
    stages = ("convert", "verify", "passes", "emit", "load")
    print(
        f"{'model':14} {'lines':>6} {'Inductor':>9}",
        *(f"{s:>8}" for s in (*stages, "sum")),
        "ratio",
    )
    for task in DEMO:
        rows = []
        for _ in range(repetitions):
            theirs, ours = measure(task, "inductor"), measure(task, "wrapperir")
            ours["verify"] = ours["prepare"] - ours["passes"]
            per_line = [1e6 * ours[stage] / ours["lines"] for stage in stages]
            planned = 1e6 * (ours["total"] - ours["plan"]) / ours["lines"]
            rows.append([1e6 * theirs["generate"] / theirs["lines"], *per_line, planned])
        inductor, *medians = [
            statistics.median(column) for column in zip(*rows, strict=True)
        ]
        told = " ".join(f"{value:8.1f}" for value in medians)
        ratio = medians[-1] / inductor
        print(f"{task.name:14} {ours['lines']:6.0f} {inductor:9.1f} {told} {ratio:5.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
