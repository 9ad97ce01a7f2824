"""Schedules of drawn graphs compute what the graphs say."""

import torch
from hypothesis import HealthCheck, given, settings

from tests.lowering.loop_graphs import loop_graphs
from tests.lowering.schedule_runs import SYMBOLS, VALUES, add_one, drawn_inputs
from wrapperir.lowering.loops import LoopGraph
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
