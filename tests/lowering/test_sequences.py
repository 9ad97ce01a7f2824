"""Launches that follow each other are one, which computes what the graph says."""

import torch
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.lowering.cpp_kernels import build_kernels
from tests.lowering.loop_graphs import loop_graphs
from tests.lowering.schedule_runs import SYMBOLS, VALUES, add_one, drawn_inputs
from tests.lowering.test_fusion import Graph
from wrapperir.lowering.cpp import CppRenderer
from wrapperir.lowering.loops import ExternCall, LoopGraph
from wrapperir.lowering.scalar_op import ScalarOp
from wrapperir.lowering.schedule import SchedulingOptions, plan_kernels
from wrapperir.lowering.schedule_interpreter import new_memory, run_graph
from wrapperir.lowering.sequences import SequenceLaunch, join_launches


def test_launches_without_a_call_between_them_are_one() -> None:
    graph = Graph()
    graph.input("x")
    graph.reduce("s", "x", dim=0)
    graph.reduce("t", "x", dim=1)
    graph.call("b", "s", "t")
    graph.map("c", ScalarOp.EXP, "b")
    renderer = CppRenderer()
    items = join_launches(graph.plan("s", "t", "c"), {"x"}, lambda _: renderer)
    kinds = [type(item).__name__ for item in items]
    assert kinds == ["SequenceLaunch", "ExternCall", "KernelLaunch"]
    (joined, _, _) = items
    assert isinstance(joined, SequenceLaunch)
    assert joined.buffers == ("x", "s", "t")
    assert [part.buffers for part in joined.kernel.parts] == [(0, 1), (0, 2)]
    assert [b.access.value for b in joined.kernel.buffers] == ["read", "write", "write"]


def test_launches_are_apart_where_one_would_need_more_memory() -> None:
    graph = Graph()
    graph.input("x")
    graph.reduce("s", "x")
    graph.input("y")
    graph.map("c", ScalarOp.EXP, "y")
    schedule = graph.plan("s", "c")

    def launches(donated: set[str]) -> int:
        options = SchedulingOptions(donated=frozenset(donated))
        renderer = CppRenderer()
        return len(join_launches(schedule, {"x", "y"}, lambda _: renderer, options))

    assert launches(set()) == 1
    assert launches({"x", "y"}) == 2


@settings(suppress_health_check=[*HealthCheck], max_examples=8, deadline=None)
@given(loop_graphs(), st.booleans())
def test_joined_kernels_of_graphs_compute_them(graph: LoopGraph, fuses: bool) -> None:
    schedule = plan_kernels(graph, SchedulingOptions(symbols=SYMBOLS, fuse=fuses))
    inputs = drawn_inputs(graph)
    renderer = CppRenderer()
    items = join_launches(schedule, inputs, lambda _: renderer)
    kernels = [
        evolve(item.kernel, name=f"kernel_{place}")
        for place, item in enumerate(items)
        if not isinstance(item, ExternCall)
    ]
    built = iter(build_kernels(kernels) if kernels else [])
    memory = new_memory(schedule.buffers, inputs, VALUES)
    for item in items:
        if isinstance(item, ExternCall):
            add_one(item, memory)
            continue
        memory |= {result: memory[source] for result, source in item.in_place}
        buffers = [memory[name] for name in item.buffers]
        fault = [torch.zeros(1, dtype=torch.int32)] if item.kernel.fault else []
        sizes = [VALUES[symbol] for symbol in item.symbols]
        next(built).launch([*buffers, *sizes, *fault])
    wanted = run_graph(graph, inputs, VALUES, call=add_one)
    got = {view.buffer: memory[view.buffer] for _, view in schedule.outputs}
    for name, expected in wanted.items():
        assert torch.equal(expected, got[name]), name
