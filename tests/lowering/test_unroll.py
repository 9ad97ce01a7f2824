"""Inner loops of a few points, unrolled."""

import pytest
import torch

from wrapperir.ir import CPU, Device, DType, Symbol, tensor
from wrapperir.lowering.kernel import KernelLaunch
from wrapperir.lowering.loops import (
    Axis,
    BufferView,
    InnerLoop,
    Load,
    LoopGraph,
    Nest,
    Reduce,
    Store,
)
from wrapperir.lowering.scalar_op import ReduceOp
from wrapperir.lowering.schedule import SchedulingOptions, plan_kernels
from wrapperir.lowering.schedule_interpreter import run_schedule

_I, _R = Symbol("i"), Symbol("r")


def _pooled(
    op: ReduceOp, window: int, step: int, dtype: DType = DType.I64, on: Device = CPU
) -> LoopGraph:
    loop = InnerLoop(
        axes=(Axis("r", window),),
        body=(
            Load(result="x", dtype=dtype, buffer="x", index=(_I * step + _R,)),
            Reduce(results=("s",), dtype=dtype, op=op, operands=("x",)),
        ),
    )
    store = Store(buffer="y", index=(_I,), value="s")
    is_place = op in (ReduceOp.ARGMIN, ReduceOp.ARGMAX)
    result = DType.I64 if is_place else dtype
    buffers = {
        "x": tensor(dtype, (64,), device=on),
        "y": tensor(result, (20,), device=on),
    }
    nest = Nest(name="n", axes=(Axis("i", 20),), body=(loop, store))
    view = BufferView(buffer="y", type=buffers["y"])
    return LoopGraph(buffers=buffers, inputs=("x",), items=(nest,), outputs=(("y", view),))


@pytest.mark.parametrize("window", [1, 2, 3, 8])
@pytest.mark.parametrize("op", [ReduceOp.SUM, ReduceOp.MAX, ReduceOp.ARGMAX])
@pytest.mark.parametrize("dtype", [DType.I64, DType.F64])
def test_windows_are_unrolled(op: ReduceOp, window: int, dtype: DType) -> None:
    graph = _pooled(op, window, 2, dtype)
    separate = plan_kernels(graph, SchedulingOptions(fuse=False))
    schedule = plan_kernels(graph)
    (launch,) = schedule.items
    assert isinstance(launch, KernelLaunch)
    assert not any(isinstance(step, InnerLoop) for step in launch.kernel.nest.body)
    x = torch.randint(-5, 5, (64,), generator=torch.Generator().manual_seed(1))
    if dtype is DType.F64:
        x = x.double()
        x[[3, 4, 9, 20]] = float("nan")
    wanted = run_schedule(separate, {"x": x})["y"]
    got = run_schedule(schedule, {"x": x})["y"]
    assert torch.equal(got.nan_to_num(77), wanted.nan_to_num(77))


@pytest.mark.parametrize(
    ("op", "window", "step"), [(ReduceOp.SUM, 9, 1), (ReduceOp.WELFORD, 2, 2)]
)
def test_others_keep_their_loop(op: ReduceOp, window: int, step: int) -> None:
    graph = _pooled(op, window, step, DType.F64)
    if op is ReduceOp.WELFORD:
        (nest,) = graph.items
        assert isinstance(nest, Nest)
        loop, store = nest.body
        assert isinstance(loop, InnerLoop)
        load = loop.body[0]
        reduce = Reduce(results=("s", "t", "n"), dtype=DType.F64, op=op, operands=("x",))
        body = (InnerLoop(axes=loop.axes, body=(load, reduce)), store)
        graph = LoopGraph(
            buffers=graph.buffers,
            inputs=graph.inputs,
            items=(Nest(name="n", axes=nest.axes, body=body),),
            outputs=graph.outputs,
        )
    (launch,) = plan_kernels(graph).items
    assert isinstance(launch, KernelLaunch)
    assert any(isinstance(step, InnerLoop) for step in launch.kernel.nest.body)


def test_windows_of_nine_points_are_unrolled_on_a_gpu() -> None:
    graph = _pooled(ReduceOp.MAX, 9, 1, DType.F64, Device("cuda"))
    (launch,) = plan_kernels(graph).items
    assert isinstance(launch, KernelLaunch)
    assert not any(isinstance(step, InnerLoop) for step in launch.kernel.nest.body)
