"""Triton kernels of drawn graphs compute what the graphs say."""

from itertools import pairwise

import torch
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.lowering.loop_graphs import loop_graphs
from tests.lowering.schedule_runs import SYMBOLS, VALUES, add_one, drawn_inputs
from tests.lowering.triton_kernels import launch
from wrapperir.lowering.interpreter import SymbolValues
from wrapperir.lowering.kernel import KernelLaunch
from wrapperir.lowering.loops import LoopGraph
from wrapperir.lowering.renderer import LoopKernel, ReductionForm, Tiling
from wrapperir.lowering.schedule import SchedulingOptions, plan_kernels
from wrapperir.lowering.schedule_interpreter import (
    BufferMemory,
    RunLaunch,
    run_graph,
    run_schedule,
)
from wrapperir.lowering.triton import TritonRenderer


def _tiled(kernel: LoopKernel, form: ReductionForm, count: int) -> LoopKernel:
    """Return a kernel with at most ``count`` blocks of parallel axes."""
    names = [axis.name for axis in kernel.nest.axes]
    cuts = [n * len(names) // count for n in range(count + 1)]
    blocks = [tuple(names[a:b]) for a, b in pairwise(cuts)]
    tiling = Tiling(blocks=tuple(filter(None, blocks)), reduction=form)
    return evolve(kernel, tiling=tiling, fault=None)  # as on CUDA


def tiled_launches(form: ReductionForm, count: int) -> RunLaunch:
    """Return what runs kernels with at most ``count`` blocks of parallel axes."""

    def run(item: KernelLaunch, memory: BufferMemory, symbols: SymbolValues) -> None:
        assert TritonRenderer().refusal(item.kernel.nest) is None
        kernel = _tiled(item.kernel, form, count)
        definition = TritonRenderer().render_kernel(kernel)
        tensors = [memory[name] for name in item.buffers]
        launch(definition, tensors, [int(symbols[name]) for name in item.symbols])

    return run


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=60)
@given(loop_graphs(), st.sampled_from(ReductionForm), st.integers(1, 3))
def test_kernels_compute_the_same(
    graph: LoopGraph, form: ReductionForm, count: int
) -> None:
    schedule = plan_kernels(graph, SchedulingOptions(symbols=SYMBOLS))
    inputs = drawn_inputs(graph)
    wanted = run_graph(graph, inputs, VALUES, call=add_one)
    launches = tiled_launches(form, count)
    got = run_schedule(schedule, inputs, VALUES, call=add_one, launch=launches)
    for name, memory in wanted.items():
        torch.testing.assert_close(got[name], memory, equal_nan=True)
