"""Schedules of drawn graphs compute what the graphs say."""

import torch
from hypothesis import HealthCheck, given, settings

from tests.lowering.kernel_runs import run_schedule
from tests.lowering.loop_graphs import loop_graphs
from wrapperir.ir import evaluate_int, storage_extent
from wrapperir.lowering.kernel import SizeSymbol
from wrapperir.lowering.loops import LoopGraph
from wrapperir.lowering.schedule import SchedulingOptions, plan_kernels

_SYMBOLS = {"s0": SizeSymbol(low=1)}
_VALUES = {"s0": 4}


def _inputs(graph: LoopGraph) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    for seed, name in enumerate(graph.inputs):
        extent = evaluate_int(storage_extent(graph.buffers[name]), _VALUES)
        generator = torch.Generator().manual_seed(seed)
        found[name] = torch.randint(-9, 10, (extent,), generator=generator).double()
    return found


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(loop_graphs())
def test_fused_kernels_compute_the_same(graph: LoopGraph) -> None:
    options = SchedulingOptions(symbols=_SYMBOLS, fuse=False)
    separate = plan_kernels(graph, options)
    fused = plan_kernels(graph, SchedulingOptions(symbols=_SYMBOLS))
    inputs = _inputs(graph)
    wanted = run_schedule(separate, inputs, _VALUES)
    got = run_schedule(fused, inputs, _VALUES)
    for name, memory in wanted.items():
        assert torch.equal(memory, got[name]), name
    assert len(fused.items) <= len(separate.items)
