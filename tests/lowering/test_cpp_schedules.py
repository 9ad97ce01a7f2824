"""C++ kernels of drawn graphs compute what the graphs say, with lanes of every kind."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import torch
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.lowering.cpp_kernels import build_kernels
from tests.lowering.kernel_runs import run_schedule
from tests.lowering.loop_graphs import loop_graphs
from wrapperir.ir import evaluate_int, storage_extent
from wrapperir.kernels import CppKernel
from wrapperir.lowering.cpp import lanes, nests, strips
from wrapperir.lowering.kernel import KernelLaunch, SizeSymbol
from wrapperir.lowering.loops import LoopGraph
from wrapperir.lowering.schedule import Schedule, SchedulingOptions, plan_kernels

_SYMBOLS = {"s0": SizeSymbol(low=1)}
_VALUES = {"s0": 4}


@contextmanager
def _small_lanes() -> Iterator[None]:
    """Have short axes take what long axes take: lanes, strips, chunks and threads."""
    with ExitStack() as stack:
        for module, name, value in (
            *((lanes, "_FEWEST", 2), (lanes, "_ENOUGH_WORK", 0), (strips, "STRIP", 4)),
            *((nests, "_CHUNK", 4), (nests, "_PARALLEL_WORK", 1)),
        ):
            stack.enter_context(patch.object(module, name, value))
        yield


def _build(schedule: Schedule) -> list[CppKernel]:
    kernels = [
        evolve(item.kernel, name=f"kernel_{place}")
        for place, item in enumerate(schedule.items)
        if isinstance(item, KernelLaunch)
    ]
    return build_kernels(kernels) if kernels else []


def _run(schedule: Schedule, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the memory of each output; a call copies its argument plus 1."""
    kernels = iter(_build(schedule))
    memory = {name: tensor.clone() for name, tensor in inputs.items()}
    for name, type in schedule.buffers.items():
        if name not in memory:
            extent = evaluate_int(storage_extent(type), _VALUES)
            kind = getattr(torch, type.dtype.torch_name)
            memory[name] = torch.full((extent,), 77, dtype=kind)
    for item in schedule.items:
        if isinstance(item, KernelLaunch):
            buffers = [memory[name] for name in item.buffers]
            fault = [torch.zeros(1, dtype=torch.int32)] if item.kernel.fault else []
            sizes = [_VALUES[symbol] for symbol in item.symbols]
            next(kernels).launch([*buffers, *sizes, *fault])
            assert not fault or not fault[0].item()
        else:
            ((_, view),) = item.arguments
            (result,) = item.writes
            memory[result].copy_(memory[view.buffer] + 1)
    return {view.buffer: memory[view.buffer] for _, view in schedule.outputs}


def _inputs(graph: LoopGraph) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    for seed, name in enumerate(graph.inputs):
        extent = evaluate_int(storage_extent(graph.buffers[name]), _VALUES)
        generator = torch.Generator().manual_seed(seed)
        found[name] = torch.randint(-9, 10, (extent,), generator=generator).double()
    return found


@settings(suppress_health_check=[*HealthCheck], max_examples=8, deadline=None)
@given(loop_graphs(), st.booleans(), st.booleans())
def test_kernels_of_graphs_compute_them(
    graph: LoopGraph, has_small_lanes: bool, fuses: bool
) -> None:
    options = SchedulingOptions(symbols=_SYMBOLS, fuse=fuses)
    schedule = plan_kernels(graph, options)
    inputs = _inputs(graph)
    wanted = run_schedule(schedule, inputs, _VALUES)
    with ExitStack() as stack:
        if has_small_lanes:
            stack.enter_context(_small_lanes())
        got = _run(schedule, inputs)
    for name, memory in wanted.items():
        assert torch.equal(memory, got[name]), name
