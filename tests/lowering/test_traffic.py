"""Kernels say how many elements a call touches."""

from hypothesis import HealthCheck, given, settings

from tests.lowering.loop_graphs import loop_graphs
from tests.lowering.schedule_runs import SYMBOLS
from wrapperir.ir import DType, Symbol, TensorType, TouchedElements
from wrapperir.lowering.cpp import CppRenderer
from wrapperir.lowering.kernel import kernel_of
from wrapperir.lowering.loops import Axis, ExternCall, Load, LoopGraph, Nest, Store
from wrapperir.lowering.renderer import Tiling
from wrapperir.lowering.schedule import SchedulingOptions, plan_kernels
from wrapperir.lowering.sequences import join_launches
from wrapperir.lowering.traffic import touched_elements

WIDE = TensorType(dtype=DType.F32, size=(64,), stride=(1,))
AXIS = Symbol("i")


def test_a_slice_that_is_read_counts_without_the_rest() -> None:
    body = (
        Load(result="v", dtype=DType.F32, buffer="a", index=(AXIS + 8,)),
        Load(result="w", dtype=DType.F32, buffer="a", index=(0,)),
        Store(buffer="b", index=(AXIS * 2,), value="v"),
    )
    nest = Nest(name="n", axes=(Axis("i", 4),), body=body)
    launch = kernel_of(nest, Tiling(blocks=(("i",),)), {"a": WIDE, "b": WIDE}, {})
    found = touched_elements(launch.kernel)
    assert found == TouchedElements({"in0": 5, "out0": 0}, {"in0": 0, "out0": 4})
    assert found is not None
    assert found.metadata == (("touched.reads", "in0 5"), ("touched.writes", "out0 4"))
    assert TouchedElements.of(found.metadata) == TouchedElements({"in0": 5}, {"out0": 4})


@settings(suppress_health_check=[*HealthCheck], max_examples=30, deadline=None)
@given(loop_graphs())
def test_kernels_touch_no_more_than_their_accesses_allow(graph: LoopGraph) -> None:
    schedule = plan_kernels(graph, SchedulingOptions(symbols=SYMBOLS))
    renderer = CppRenderer()
    for item in join_launches(schedule, graph.inputs, lambda _: renderer):
        if isinstance(item, ExternCall):
            continue
        found = touched_elements(item.kernel)
        if item.kernel.symbols:
            assert found is None
            continue
        assert found is not None
        for buffer in item.kernel.buffers:
            (size,) = buffer.type.size
            assert isinstance(size, int)
            read, written = found.read[buffer.name], found.written[buffer.name]
            assert read <= (size if buffer.access.reads else 0)
            assert written <= (size if buffer.access.writes else 0)
