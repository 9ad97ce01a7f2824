"""Checks of nests, graphs and schedules; the pages of the codes have an example of each."""

import pytest
from attrs import evolve

from tests.lowering.triton_nests import (
    I0,
    I1,
    R0,
    apply,
    constant,
    inner,
    load,
    nest,
    reduce,
    scan,
    softmax,
    store,
)
from wrapperir.diagnostics import Code
from wrapperir.ir import DType, Expr, Operation, Symbol, TensorType, tensor
from wrapperir.ir import ExprOp as Op
from wrapperir.lowering.kernel import KernelLaunch, SizeSymbol
from wrapperir.lowering.loops import (
    BufferView,
    Check,
    ExternCall,
    IndexValue,
    Load,
    LoopGraph,
    Step,
    Store,
    StoreMode,
)
from wrapperir.lowering.nest_checks import check_nest
from wrapperir.lowering.scalar_op import ReduceOp, ScalarOp
from wrapperir.lowering.schedule import Schedule, SchedulingOptions, plan_kernels
from wrapperir.lowering.schedule_checks import check_graph, check_schedule

_N = Symbol("n")
_SIZES = {"n": SizeSymbol(low=1)}
_TYPES: dict[str, TensorType] = {
    "x": tensor("f32", (4, 6)),
    "y": tensor("f32", (4, 6)),
    "z": tensor("f32", (_N,)),
    "flat": tensor("f32", (24,)),
    "k": tensor("i64", (4,)),
    "b": tensor("bool", (4,)),
}
_X = load("v0", "x", I0, I1)
_K = load("v1", "k", I0, dtype=DType.I64)


def _codes(*body: Step, extents: tuple[Expr, ...] = (4, 6)) -> list[Code]:
    found = check_nest(nest("n", extents, *body), _TYPES, _SIZES)
    assert all(each.path and each.path[0] == "body" for each in found)
    return [each.code for each in found]


def test_what_is_well_formed_has_no_diagnostics() -> None:
    types = {"in0": tensor("f32", (_N, 5)), "out0": tensor("f32", (_N, 5))}
    assert check_nest(softmax(_N, 5), types, _SIZES) == ()
    assert _codes(_X, store("y", "v0", 3 - I0, 5 - I1)) == []
    assert _codes(_K, _X, store("flat", "v0", Symbol("v1"))) == []
    assert _codes(_X, store("flat", "v0", I0 * 6 + I1)) == []
    assert _codes(load("v0", "z", I0), store("z", "v0", I0), extents=(_N,)) == []


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ((store("y", "v9", I0, I1),), Code.LOOP_NAME),
        ((load("v0", "x", I0, Symbol("m")),), Code.LOOP_NAME),
        ((inner("r0", Symbol("m"), _X),), Code.LOOP_NAME),
        ((inner("r0", 6, _X), store("y", "v0", I0, I1)), Code.LOOP_NAME),
        (
            (inner("r0", 6, _X, reduce("s", ReduceOp.SUM, "v0"), store("y", "s", I0, I1)),),
            Code.LOOP_NAME,
        ),
        ((_X, inner("i0", 6, _X)), Code.LOOP_REDEFINITION),
        ((inner("r0", 6, _X), inner("r0", 6, _X)), Code.LOOP_REDEFINITION),
        ((inner("r0", 6, _X), inner("r0", 5)), Code.LOOP_REDEFINITION),
        ((_X, _K, apply("s", ScalarOp.ADD, "v0", "v1")), Code.LOOP_DTYPE),
        ((_K, apply("s", ScalarOp.EXP, "v1", dtype=DType.I64)), Code.LOOP_DTYPE),
        ((_X, apply("s", ScalarOp.LT, "v0", "v0")), Code.LOOP_DTYPE),
        ((_X, apply("s", ScalarOp.WHERE, "v0", "v0", "v0")), Code.LOOP_DTYPE),
        ((_X, apply("s", ScalarOp.BITCAST, "v0", dtype=DType.I64)), Code.LOOP_DTYPE),
        ((_X, load("v2", "flat", Symbol("v0"))), Code.LOOP_DTYPE),
        ((load("v0", "x", I0, I1, dtype=DType.F64),), Code.LOOP_DTYPE),
        ((_K, store("y", "v1", I0, I1)), Code.LOOP_DTYPE),
        ((_X, Check(condition="v0", message="")), Code.LOOP_DTYPE),
        ((IndexValue(result="v0", dtype=DType.BF16, expr=I0),), Code.LOOP_DTYPE),
        ((_K, inner("r0", 6, reduce("a b", ReduceOp.ONLINE_SOFTMAX, "v1"))), None),
        ((inner("r0", 6, _X, reduce("s", ReduceOp.WELFORD, "v0")),), Code.LOOP_ARITY),
        ((_X, apply("s", ScalarOp.EXP, "v0", "v0")), Code.LOOP_ARITY),
        ((load("v0", "x", I0),), Code.LOOP_ARITY),
        ((inner("r0", 6, _X, scan("s", ReduceOp.ANY, "v0")),), Code.LOOP_PLACE),
        ((load("v0", "q", I0),), Code.LOOP_BUFFER),
        ((load("v0", "x", I0, I1 + 1),), Code.LOOP_BOUNDS),
        ((load("v0", "x", I0, I1 - I0),), Code.LOOP_BOUNDS),
        ((load("v0", "x", I0 + I1, 0),), Code.LOOP_BOUNDS),
        ((load("v0", "z", _N),), Code.LOOP_BOUNDS),
        ((load("v0", "x", I0 // 2 - 4, 0),), Code.LOOP_BOUNDS),
        ((_X, store("flat", "v0", I0 * 2 + I1)), Code.LOOP_STORED_TWICE),
        ((_X, inner("r0", 2, store("y", "v0", I0, I1))), Code.LOOP_STORED_TWICE),
    ],
)
def test_what_is_wrong_has_a_code(body: tuple[Step, ...], code: Code | None) -> None:
    found = {*_codes(*body)}
    assert found == ({Code.LOOP_DTYPE} if code is None else {code})


def test_what_no_range_decides_is_not_reported() -> None:
    masked = Load(
        result="v0", dtype=DType.F32, buffer="x", index=(I0, I1 + 1), mask="m", other=0.0
    )
    mask = load("m", "b", I0, dtype=DType.BOOL)
    assert _codes(mask, masked) == []
    halves = Operation(Op.MIN, (I0, I1))
    assert _codes(load("v0", "flat", halves * 9)) == []
    added = Store(buffer="flat", index=(I0,), value="v0", mode=StoreMode.ADD)
    assert _codes(_X, added) == []
    assert _codes(load("v0", "z", I0), store("z", "v0", I0 % 3), extents=(_N,)) == []
    assert _codes(load("v0", "x", 9, 9), extents=(0,)) == []


def _graph() -> LoopGraph:
    i = (I0,)
    types = {name: tensor("f32", (8,)) for name in "abc"}
    return LoopGraph(
        buffers=types,
        inputs=("a",),
        items=(
            nest("first", (8,), load("v0", "a", *i), store("b", "v0", *i)),
            nest("second", (8,), load("v0", "b", *i), store("c", "v0", *i)),
        ),
        outputs=(("c", BufferView(buffer="c", type=types["c"])),),
    )


def test_items_are_in_the_order_of_their_data() -> None:
    graph = _graph()
    assert check_graph(graph, {}) == ()
    (found,) = check_graph(evolve(graph, items=graph.items[::-1]), {})
    assert (found.code, found.path) == (Code.LOOP_ORDER, ("items", 0))
    call = ExternCall(name="call", writes=("d",))
    view = BufferView(buffer="e", type=graph.buffers["a"])
    wrong = evolve(graph, items=(call, *graph.items), outputs=(("e", view),))
    paths = [d.path for d in check_graph(wrong, {}) if d.code is Code.LOOP_BUFFER]
    assert paths == [("items", 0), ("outputs", 0)]


def test_launches_fit_their_kernels() -> None:
    schedule = plan_kernels(_graph(), SchedulingOptions(fuse=False))
    assert check_schedule(schedule, {}) == ()
    launch = schedule.items[0]
    assert isinstance(launch, KernelLaunch)
    kernel = launch.kernel
    source, target = kernel.buffers
    for wrong in (
        evolve(launch, buffers=("a",)),
        evolve(launch, buffers=("a", "e")),
        evolve(launch, symbols=("s0",)),
        evolve(launch, messages=("no check",), checked=((),)),
        evolve(launch, kernel=evolve(kernel, tiling=evolve(kernel.tiling, blocks=()))),
        evolve(
            launch,
            kernel=evolve(kernel, buffers=(source, evolve(target, access=source.access))),
        ),
        evolve(
            launch,
            kernel=evolve(
                kernel, buffers=(source, evolve(target, type=tensor("f64", (8,))))
            ),
        ),
    ):
        changed = Schedule(
            items=(wrong,), buffers=schedule.buffers, outputs=schedule.outputs
        )
        assert Code.LOOP_LAUNCH in {d.code for d in check_schedule(changed, {})}


def test_a_value_that_is_hidden_has_a_hint() -> None:
    loop = inner("r0", 6, load("v0", "x", I0, R0), constant("c", 1.0))
    (found,) = check_nest(nest("n", (4,), loop, store("z", "c", I0)), _TYPES, _SIZES)
    assert found.hint == "it is known only in its loop"
