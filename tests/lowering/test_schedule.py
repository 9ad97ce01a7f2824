"""Schedules of drawn graphs compute what the graphs say."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings

from tests.lowering.loop_graphs import loop_graphs
from tests.lowering.schedule_runs import SYMBOLS, VALUES, add_one, drawn_inputs
from tests.lowering.test_cpp_schedules import launches_of
from tests.lowering.triton_nests import R0, R1, axes, load, nest, scan, store
from wrapperir.ir import DType, TensorType
from wrapperir.lowering.loops import BufferView, InnerLoop, LoopGraph
from wrapperir.lowering.scalar_op import ReduceOp
from wrapperir.lowering.schedule import SchedulingOptions, plan_kernels
from wrapperir.lowering.schedule_interpreter import run_graph, run_schedule


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(loop_graphs())
def test_kernels_compute_what_the_graph_says(graph: LoopGraph) -> None:
    inputs = drawn_inputs(graph)
    wanted = run_graph(graph, inputs, VALUES, call=add_one)
    count = len(graph.items)
    for fuse in (False, True):
        schedule = plan_kernels(graph, SchedulingOptions(symbols=SYMBOLS, fuse=fuse))
        got = run_schedule(schedule, inputs, VALUES, call=add_one)
        for name, memory in wanted.items():
            assert torch.equal(memory, got[name]), name
        assert len(schedule.items) <= count
        count = len(schedule.items)


@pytest.mark.parametrize("length", [1, 3])
def test_scans_along_a_single_element_do_not_run_along_the_next_axis(length: int) -> None:
    shape = (3, length)
    loop = InnerLoop(
        axes=axes("r", shape),
        body=(
            load("v0", "x", R0, R1),
            scan("v1", ReduceOp.SUM, "v0"),
            store("y", "v1", R0, R1),
        ),
    )
    type = TensorType(dtype=DType.F32, size=shape, stride=(length, 1))
    graph = LoopGraph(
        buffers={"x": type, "y": type},
        inputs=("x",),
        items=(nest("scan", (), loop),),
        outputs=(("y", BufferView(buffer="y", type=type)),),
    )
    x = torch.randn(shape)
    schedule = plan_kernels(graph, SchedulingOptions())
    found = run_schedule(schedule, {"x": x.flatten()}, {})
    torch.testing.assert_close(found["y"].view(shape), x.cumsum(1))
    launch = launches_of(schedule, has_small_lanes=False)
    compiled = run_schedule(schedule, {"x": x.flatten()}, {}, launch=launch)
    torch.testing.assert_close(compiled["y"].view(shape), x.cumsum(1))
