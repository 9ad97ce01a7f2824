"""Triton kernels of drawn graphs compute what the graphs say."""

from collections.abc import Mapping
from itertools import pairwise

import torch
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.lowering.kernel_runs import run_schedule
from tests.lowering.loop_graphs import loop_graphs
from tests.lowering.triton_kernels import launch
from wrapperir.ir import evaluate_int, storage_extent
from wrapperir.lowering.kernel import KernelLaunch, SizeSymbol
from wrapperir.lowering.loops import LoopGraph
from wrapperir.lowering.renderer import LoopKernel, ReductionForm, Tiling
from wrapperir.lowering.schedule import Schedule, SchedulingOptions, plan_kernels
from wrapperir.lowering.triton import TritonRenderer

_SYMBOLS = {"s0": SizeSymbol(low=1)}
_VALUES = {"s0": 4}


def _inputs(graph: LoopGraph) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    for seed, name in enumerate(graph.inputs):
        extent = evaluate_int(storage_extent(graph.buffers[name]), _VALUES)
        generator = torch.Generator().manual_seed(seed)
        found[name] = torch.randint(-9, 10, (extent,), generator=generator).double()
    return found


def _tiled(kernel: LoopKernel, form: ReductionForm, count: int) -> LoopKernel:
    """Return a kernel with at most ``count`` blocks of parallel axes."""
    names = [axis.name for axis in kernel.nest.axes]
    cuts = [n * len(names) // count for n in range(count + 1)]
    blocks = [tuple(names[a:b]) for a, b in pairwise(cuts)]
    tiling = Tiling(blocks=tuple(filter(None, blocks)), reduction=form)
    return evolve(kernel, tiling=tiling)


def _run(
    schedule: Schedule, inputs: Mapping[str, torch.Tensor], form: ReductionForm, count: int
) -> dict[str, torch.Tensor]:
    memory = {name: tensor.clone() for name, tensor in inputs.items()}
    for name, type in schedule.buffers.items():
        if name not in memory:
            extent = evaluate_int(storage_extent(type), _VALUES)
            kind = getattr(torch, type.dtype.torch_name)
            memory[name] = torch.full((extent,), 77, dtype=kind)
    for item in schedule.items:
        if not isinstance(item, KernelLaunch):
            ((_, view),) = item.arguments
            (result,) = item.writes
            memory[result].copy_(memory[view.buffer] + 1)
            continue
        assert TritonRenderer().refusal(item.kernel.nest) is None
        kernel = _tiled(item.kernel, form, count)
        definition = TritonRenderer().render_kernel(kernel)
        tensors = [memory[name] for name in item.buffers]
        launch(definition, tensors, [_VALUES[name] for name in item.symbols])
    return {view.buffer: memory[view.buffer] for _, view in schedule.outputs}


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=60)
@given(loop_graphs(), st.sampled_from(ReductionForm), st.integers(1, 3))
def test_kernels_compute_the_same(
    graph: LoopGraph, form: ReductionForm, count: int
) -> None:
    schedule = plan_kernels(graph, SchedulingOptions(symbols=_SYMBOLS))
    inputs = _inputs(graph)
    wanted = run_schedule(schedule, inputs, _VALUES)
    got = _run(schedule, inputs, form, count)
    for name, memory in wanted.items():
        torch.testing.assert_close(got[name], memory, equal_nan=True)
