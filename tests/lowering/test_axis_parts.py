"""Equal parts of an axis, whose conditions differ, become one point."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.lowering.test_cpp_schedules import launches_of
from wrapperir.ir import CPU, Device, DType, Expr, Symbol, TensorType, sub, tensor
from wrapperir.lowering.kernel import KernelLaunch
from wrapperir.lowering.loops import (
    Apply,
    Axis,
    BufferView,
    IndexValue,
    Instruction,
    Literal,
    Load,
    LoopGraph,
    Nest,
    Store,
    StoreMode,
)
from wrapperir.lowering.scalar_op import ScalarOp
from wrapperir.lowering.schedule import SchedulingOptions, plan_kernels
from wrapperir.lowering.schedule_interpreter import run_launch, run_schedule
from wrapperir.lowering.text import format_graph

_I, _J = Symbol("i"), Symbol("j")
_STARTS = {
    **{ScalarOp.GE: (0, False), ScalarOp.GT: (-1, False)},
    **{ScalarOp.LT: (0, True), ScalarOp.LE: (-1, True)},
}
"""By comparison: what is added to the start of a part, and whether it holds before it."""
_FLIPPED = {
    **{ScalarOp.GE: ScalarOp.LE, ScalarOp.GT: ScalarOp.LT},
    **{ScalarOp.LE: ScalarOp.GE, ScalarOp.LT: ScalarOp.GT},
}


class Joined:
    """A nest over ``i`` and ``j`` that reads each part of one axis from a buffer."""

    def __init__(self, joined: Axis, other: Axis, device: Device = CPU) -> None:
        """Begin without parts."""
        self._joined, self._other, self._device = joined, other, device
        self._body: list[Instruction] = []
        self._buffers = {"out": self._type(joined.extent)}
        self._value = ""
        self._end = 0

    def _type(self, extent: Expr) -> TensorType:
        size = (extent, self._other.extent)
        if self._joined.name == "j":
            size = size[::-1]
        return tensor(DType.F64, size, device=self._device)

    def _apply(self, name: str, op: ScalarOp, *operands: str) -> str:
        is_real = op in (ScalarOp.WHERE, ScalarOp.SIN, ScalarOp.NEG)
        dtype = DType.F64 if is_real else DType.BOOL
        self._body.append(Apply(result=name, dtype=dtype, op=op, operands=operands))
        return name

    def add(self, name: str, width: int, op: ScalarOp, *, is_flipped: bool = False) -> None:
        """Read the next points from a buffer; ``op`` compares with the first of them."""
        start, self._end = self._end, self._end + width
        self._buffers[name] = self._type(width)
        at, first, end = (f"{part}{start}" for part in ("at", "first", "end"))
        shift, holds_before = _STARTS[op]
        axis = Symbol(self._joined.name)
        self._body += [
            IndexValue(result=at, dtype=DType.I64, expr=axis + 3),
            Literal(result=first, dtype=DType.I64, value=start + shift + 3),
            IndexValue(result=end, dtype=DType.I64, expr=self._end + 3),
        ]
        sides = (first, at) if is_flipped else (at, first)
        begun = self._apply(f"begun{start}", _FLIPPED[op] if is_flipped else op, *sides)
        if holds_before:
            begun = self._apply(f"after{start}", ScalarOp.NOT, begun)
        before = self._apply(f"before{start}", ScalarOp.LT, at, end)
        mask = self._apply(f"mask{start}", ScalarOp.AND, begun, before)
        own = f"own{start}"
        index = [sub(x, start) if x == axis else x for x in (_I, _J)]
        self._body.append(
            Load(result=own, dtype=DType.F64, buffer=name, index=tuple(index), mask=mask)
        )
        if self._value:
            own = self._apply(f"value{start}", ScalarOp.WHERE, mask, own, self._value)
        self._value = own

    def graph(
        self, mode: StoreMode = StoreMode.OVERWRITE, op: ScalarOp = ScalarOp.SIN
    ) -> LoopGraph:
        """Return the graph, which stores what an operator gives for what is read."""
        result = self._apply("result", op, self._value)
        store = Store(buffer="out", index=(_I, _J), value=result, mode=mode)
        axes = sorted((self._joined, self._other), key=lambda axis: axis.name)
        nest = Nest(name="nest", axes=tuple(axes), body=(*self._body, store))
        view = BufferView(buffer="out", type=self._buffers["out"])
        return LoopGraph(
            buffers=self._buffers,
            inputs=tuple(self._buffers)[mode is StoreMode.OVERWRITE :],
            items=(nest,),
            outputs=(("out", view),),
        )


def _joined(
    widths: Sequence[int],
    names: str = "xyzxyzxyz",
    *,
    axis: str = "j",
    others: int = 3,
    device: Device = CPU,
) -> Joined:
    other = "i" if axis == "j" else "j"
    joined = Joined(Axis(axis, sum(widths)), Axis(other, others), device)
    for name, width in zip(names, widths, strict=False):
        joined.add(name, width, ScalarOp.GE)
    return joined


def _body(graph: LoopGraph) -> Sequence[object]:
    (launch,) = plan_kernels(graph).items
    assert isinstance(launch, KernelLaunch)
    return launch.kernel.nest.body


def _stores(graph: LoopGraph) -> int:
    return sum(isinstance(step, Store) for step in _body(graph))


def test_each_part_computes_its_own_values() -> None:
    body = _body(_joined((16, 16, 32)).graph())
    assert sum(isinstance(step, Load) and step.mask is None for step in body) == 4
    assert sum(isinstance(step, Store) for step in body) == 4
    assert {step.op for step in body if isinstance(step, Apply)} == {ScalarOp.SIN}
    assert len(body) == 12


def test_what_parts_share_is_computed_once() -> None:
    body = _body(_joined((16, 16), "xx").graph())
    assert [type(step) for step in body] == [Load, Apply, Store, Store]


def test_parts_of_one_point_have_no_axis() -> None:
    (launch,) = plan_kernels(_joined((1, 1), axis="i", others=32).graph()).items
    assert isinstance(launch, KernelLaunch)
    assert launch.kernel.nest.axes == (Axis("i0", 32),)


@pytest.mark.parametrize("widths", [(16, 17), (8, 8), (16,) * 9])
def test_short_or_many_parts_keep_their_conditions(widths: Sequence[int]) -> None:
    assert _stores(_joined(widths).graph()) == 1


def test_atomic_stores_keep_their_order() -> None:
    assert _stores(_joined((16, 16)).graph(StoreMode.ADD)) == 1


@pytest.mark.parametrize(("op", "stores"), [(ScalarOp.SIN, 2), (ScalarOp.NEG, 1)])
def test_a_gpu_has_parts_where_that_saves_slow_operators(op: ScalarOp, stores: int) -> None:
    joined = _joined((16, 16), "xx", device=Device("cuda", 0))
    assert _stores(joined.graph(op=op)) == stores


@st.composite
def _graphs(draw: st.DrawFn) -> LoopGraph:
    unit = draw(st.sampled_from((1, 5, 16)))
    widths = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    axis, other = draw(st.permutations("ij"))
    joined = Joined(Axis(axis, unit * sum(widths)), Axis(other, draw(st.integers(1, 3))))
    for width in widths:
        name = f"{draw(st.sampled_from('xy'))}{width}"  # buffers of one name have one size
        op = draw(st.sampled_from([*_STARTS]))
        joined.add(name, unit * width, op, is_flipped=draw(st.booleans()))
    return joined.graph()


def _compare(graph: LoopGraph, *, with_cpp: bool) -> None:
    inputs: dict[str, torch.Tensor] = {}
    for seed, name in enumerate(graph.inputs):
        rows, columns = (int(str(extent)) for extent in graph.buffers[name].size)
        generator = torch.Generator().manual_seed(seed)
        inputs[name] = torch.randn(rows * columns, dtype=torch.float64, generator=generator)
    separate = plan_kernels(graph, SchedulingOptions(fuse=False))
    wanted = run_schedule(separate, inputs)["out"]
    schedule = plan_kernels(graph)
    launch = launches_of(schedule, has_small_lanes=True) if with_cpp else run_launch
    found = run_schedule(schedule, inputs, launch=launch)["out"]
    torch.testing.assert_close(found, wanted, msg=format_graph(graph).text)


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=draws(60, 1000))
@given(_graphs())
def test_parts_compute_what_the_nest_does(graph: LoopGraph) -> None:
    _compare(graph, with_cpp=False)


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=draws(3, 100))
@given(_graphs())
def test_cpp_kernels_of_parts(graph: LoopGraph) -> None:
    _compare(graph, with_cpp=True)
