"""Runs a model and measures each call of a compiled program's inner callable.

The inner callable runs one program: Inductor's wrapper module or the Python emitter's,
without Dynamo and AOTAutograd around it.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from attrs import define, frozen
from torch._functorch import config as functorch_config
from torch._inductor import config
from torch._inductor.compile_fx import compile_fx, compile_fx_inner

from bench.memory.allocator_events import CallMemory, measure
from bench.model_run import ModelTask, run_step
from wrapperir.emit import Loaded, Value, compile_program
from wrapperir.frontend import Lowered
from wrapperir.frontend.inductor import compile_graph
from wrapperir.ir import Program
from wrapperir.pipelines import run_passes

Backend: TypeAlias = Callable[[torch.fx.GraphModule, list[Any]], Callable[..., Any]]

STEPS = 2
"""Each program is called so often, and the last call counts: the first may set up."""


@frozen
class InductorRun:
    """The memory of each program's call, forward first, and the model's results."""

    programs: tuple[CallMemory, ...]
    outputs: Mapping[str, torch.Tensor]


@define
class OurProgram:
    """A captured program, the program after the passes, and the memory of its call."""

    captured: Program
    planned: Program
    planning_seconds: float
    memory: CallMemory


@frozen
class OurRun:
    """Every program of a model, forward first, and the model's results.

    ``seconds`` are those of the first step, compilation included.
    """

    programs: tuple[OurProgram, ...]
    outputs: Mapping[str, torch.Tensor]
    seconds: float


def measure_inductor(task: ModelTask, settings: Mapping[str, object]) -> InductorRun:
    """Return the memory of the calls of Inductor's programs, with these settings."""
    found: list[CallMemory] = []

    def inner(graph: torch.fx.GraphModule, inputs: Any, **keywords: Any) -> Any:
        compiled: Any = compile_fx_inner(graph, inputs, **keywords)
        call, place = compiled.current_callable, len(found)
        found.append(CallMemory(0, 0, 0))

        def measured(arguments: list[Any]) -> Any:
            result, found[place] = measure(lambda: call(arguments))
            return result

        compiled.current_callable = measured
        return compiled

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        return compile_fx(graph, inputs, inner_compile=inner)

    with config.patch(dict(settings)):
        outputs, _ = _run(task, backend)
    return InductorRun(tuple(found), outputs)


def measure_ours(task: ModelTask, passes: Sequence[str]) -> OurRun:
    """Return each program, after these passes, and the memory of its calls."""
    found: list[OurProgram] = []

    def compile(lowered: Lowered, backward: bool, show: object) -> Loaded:
        begun = time.perf_counter()
        planned = run_passes(lowered.program, passes)
        seconds = time.perf_counter() - begun
        loaded = compile_program(planned, constants=lowered.constants)
        record = OurProgram(lowered.program, planned, seconds, CallMemory(0, 0, 0))
        found.append(record)

        def measured(arguments: list[Value]) -> tuple[Value, ...]:
            result, record.memory = measure(lambda: loaded(arguments))
            return result

        return measured

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        return compile_graph(graph, inputs, compile)

    outputs, seconds = _run(task, backend)
    return OurRun(tuple(found), outputs, seconds)


def _run(task: ModelTask, backend: Backend) -> tuple[dict[str, torch.Tensor], float]:
    """Run some steps of a model; return its tensors and the seconds of the first."""
    torch.manual_seed(0)
    model = task.model().train(task.training)
    inputs = task.inputs()
    torch._dynamo.reset()
    seconds: list[float] = []
    outputs: dict[str, torch.Tensor] = {}
    with functorch_config.patch(enable_autograd_cache=False):
        compiled = torch.compile(model, backend=backend, dynamic=False)
        for _ in range(STEPS):
            begun = time.perf_counter()
            outputs = run_step(model, compiled, inputs, training=task.training)
            seconds.append(time.perf_counter() - begun)
    return outputs, seconds[0]
