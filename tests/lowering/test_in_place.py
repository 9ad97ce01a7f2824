"""Results take the memory of buffers that nothing needs any more."""

import pytest
import torch

from tests.lowering.schedule_runs import add_one
from tests.lowering.test_fusion import Graph
from wrapperir.ir import CPU, Device
from wrapperir.lowering.kernel import KernelLaunch
from wrapperir.lowering.scalar_op import ScalarOp
from wrapperir.lowering.schedule import Schedule, SchedulingOptions, plan_kernels
from wrapperir.lowering.schedule_interpreter import run_schedule


def _taken(schedule: Schedule) -> list[tuple[str, str]]:
    launches = [item for item in schedule.items if isinstance(item, KernelLaunch)]
    return [pair for launch in launches for pair in launch.in_place]


def _two_kernels() -> Graph:
    """Return a graph whose second kernel can overwrite what the first stores."""
    graph = Graph()
    graph.input("x")
    graph.map("a", ScalarOp.EXP, "x")
    graph.call("b", "a")
    graph.map("c", ScalarOp.ADD, "a", "b")
    return graph


def test_a_result_takes_the_memory_of_a_buffer_that_ends() -> None:
    schedule = _two_kernels().plan("c")
    assert _taken(schedule) == [("c", "a")]
    x = torch.randn(64 * 128)
    got = run_schedule(schedule, {"x": x}, call=add_one)["c"]
    torch.testing.assert_close(got, 2 * x.exp() + 1)


def test_outputs_and_inputs_keep_their_memory() -> None:
    assert _taken(_two_kernels().plan("a", "b", "c")) == []
    graph = Graph()
    graph.input("x")
    graph.map("a", ScalarOp.EXP, "x")
    assert _taken(graph.plan("a")) == []


def test_results_of_calls_are_overwritten_if_they_own_their_memory() -> None:
    graph = Graph()
    graph.input("x")
    graph.call("b", "x")
    graph.map("c", ScalarOp.EXP, "b")
    assert _taken(graph.plan("c")) == []
    options = SchedulingOptions(owning_calls=frozenset({"b"}))
    assert _taken(plan_kernels(graph.graph("c"), options)) == [("c", "b")]


def test_what_is_read_at_other_points_is_not_overwritten() -> None:
    graph = Graph()
    graph.input("x")
    graph.call("b", "x")
    graph.reduce("s", "b", dim=0)
    options = SchedulingOptions(owning_calls=frozenset({"b"}))
    assert _taken(plan_kernels(graph.graph("s"), options)) == []


@pytest.mark.parametrize(("kind", "count"), [("cpu", 1), ("cuda", 0)])
def test_kernels_of_gpus_overwrite_nothing(kind: str, count: int) -> None:
    graph = _two_kernels()
    device = CPU if kind == "cpu" else Device(kind, 0)
    graph.move_to(device)
    assert len(_taken(graph.plan("c"))) == count
