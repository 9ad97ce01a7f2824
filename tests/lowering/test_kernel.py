"""Kernels of nests: linear accesses, normalised names, equal kernels shared."""

import pytest

from wrapperir.ir import CPU, Access, Device, DType, NodeOrigin, Symbol, TensorType, tensor
from wrapperir.lowering.kernel import KernelLaunch, SizeSymbol
from wrapperir.lowering.loops import (
    Apply,
    Axis,
    BufferView,
    Check,
    ExternCall,
    Literal,
    Load,
    LoopGraph,
    Nest,
    Store,
)
from wrapperir.lowering.scalar_op import ScalarOp
from wrapperir.lowering.schedule import (
    Schedule,
    SchedulingOptions,
    launched_kernels,
    plan_kernels,
)
from wrapperir.lowering.triton import TritonRenderer

_I, _J, _N = Symbol("i"), Symbol("j"), Symbol("s0")


def _scaled(
    name: str, source: str, target: str, factor: float, extents: tuple[str, str]
) -> Nest:
    i, j = extents
    index = (Symbol(i), Symbol(j))
    return Nest(
        name=name,
        axes=(Axis(i, 3), Axis(j, _N)),
        body=(
            Load(result="x", dtype=DType.F32, buffer=source, index=index),
            Literal(result="c", dtype=DType.F32, value=factor),
            Apply(result="y", dtype=DType.F32, op=ScalarOp.MUL, operands=("x", "c")),
            Store(buffer=target, index=index, value="y"),
        ),
        origins=(NodeOrigin(name=name, operator="aten.mul.Scalar"),),
    )


def _plan(graph: LoopGraph) -> Schedule:
    symbols = {"s0": SizeSymbol(low=2)}
    return plan_kernels(graph, SchedulingOptions(symbols=symbols, fuse=False))


def test_kernels_that_differ_in_names_are_one() -> None:
    type = tensor(DType.F32, (3, _N))
    graph = LoopGraph(
        buffers=dict.fromkeys("abcd", type),
        inputs=("a",),
        items=(
            _scaled("first", "a", "b", 2.0, ("i", "j")),
            ExternCall(name="call", arguments=(("b", BufferView(buffer="b", type=type)),)),
            _scaled("second", "b", "c", 2.0, ("k", "l")),
            _scaled("third", "c", "d", -0.0, ("k", "l")),
            _scaled("fourth", "c", "d", 0.0, ("k", "l")),
        ),
        outputs=(("d", BufferView(buffer="d", type=type)),),
    )
    schedule = _plan(graph)
    first, call, second, third, fourth = schedule.items
    assert isinstance(call, ExternCall)
    assert isinstance(first, KernelLaunch)
    assert isinstance(second, KernelLaunch)
    assert isinstance(third, KernelLaunch)
    assert isinstance(fourth, KernelLaunch)
    assert first.kernel == second.kernel
    assert third.kernel != fourth.kernel
    assert second.buffers == ("b", "c")
    assert second.symbols == ("s0",)
    assert [kernel.name for kernel in launched_kernels(schedule.items)] == [
        "map_mul_0",
        "map_mul_1",
        "map_mul_2",
    ]
    source, target = first.kernel.buffers
    assert (source.name, source.access) == ("in0", Access.READ)
    assert (target.name, target.access) == ("out0", Access.WRITE)
    (load, *_) = first.kernel.nest.body
    assert isinstance(load, Load)
    assert load.index == (Symbol("i0") * Symbol("n0") + Symbol("i1"),)


@pytest.mark.parametrize("device", [CPU, Device("cuda", 0)], ids=str)
def test_checks_have_messages_beside_the_kernel_and_on_cpus_a_fault_buffer(
    device: Device,
) -> None:
    type = TensorType(dtype=DType.BOOL, size=(4,), stride=(2,), device=device)
    nest = Nest(
        name="check",
        axes=(Axis("i", 4),),
        body=(
            Load(result="x", dtype=DType.BOOL, buffer="a", index=(_I,)),
            Check(condition="x", message="index out of range"),
        ),
    )
    (launch,) = _plan(LoopGraph(buffers={"a": type}, inputs=("a",), items=(nest,))).items
    assert isinstance(launch, KernelLaunch)
    assert launch.messages == ("index out of range",)
    assert (launch.kernel.fault is not None) == (device == CPU)
    (load, check) = launch.kernel.nest.body
    assert isinstance(load, Load)
    assert load.index == (Symbol("i0") * 2,)
    assert isinstance(check, Check)
    assert check.message == ""


@pytest.mark.parametrize(
    ("device", "high", "dtype"),
    [
        ("cuda", 1 << 20, DType.I32),
        ("cuda", 1 << 30, DType.I64),
        ("cuda", None, DType.I64),
        ("cpu", 1 << 20, DType.I64),
    ],
)
def test_sizes_have_32_bits_on_gpus_where_their_range_proves_it(
    device: str, high: int | None, dtype: DType
) -> None:
    type = tensor(DType.F32, (3, _N), device=Device(device))
    graph = LoopGraph(
        buffers={"a": type, "b": type},
        inputs=("a",),
        items=(_scaled("first", "a", "b", 2.0, ("i", "j")),),
        outputs=(("b", BufferView(buffer="b", type=type)),),
    )
    symbols = {"s0": SizeSymbol(low=2, high=high)}
    (launch,) = plan_kernels(graph, SchedulingOptions(symbols=symbols)).items
    assert isinstance(launch, KernelLaunch)
    assert [symbol.dtype for symbol in launch.kernel.symbols] == [dtype]
    source = TritonRenderer().render_kernel(launch.kernel).source
    assert ("tl.int64" in source) is (dtype is DType.I64)
