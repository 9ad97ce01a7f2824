"""Loops and schedules as text, and the bytes that launches move."""

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
from wrapperir.diagnostics import Position
from wrapperir.ir import DType, NodeOrigin, Symbol, tensor
from wrapperir.lowering.kernel import SizeSymbol
from wrapperir.lowering.loops import (
    BufferView,
    Check,
    ExternCall,
    IndexValue,
    Load,
    LoopGraph,
    Store,
    StoreMode,
)
from wrapperir.lowering.scalar_op import ReduceOp, ScalarOp
from wrapperir.lowering.schedule import SchedulingOptions, plan_kernels
from wrapperir.lowering.text import format_graph, format_nest, format_schedule
from wrapperir.lowering.traffic import Traffic, item_traffic

_N = Symbol("s0")


def test_each_instruction_is_a_line() -> None:
    i64, boolean = DType.I64, DType.BOOL
    argmax = scan("v6 v7", ReduceOp.ARGMAX, "v5")
    every = nest(
        "every",
        (4, _N),
        IndexValue(result="v0", dtype=i64, expr=I0 * 4 + I1 % 2),
        constant("v1", 2, i64),
        constant("v2", 2),
        constant("v3", float("-inf")),
        apply("v4", ScalarOp.LT, "v0", "v1", dtype=boolean),
        Check(condition="v4", message='an index is "out of range"'),
        Check(condition="v4", message="", mask="v4"),
        Load(result="v5", dtype=DType.F32, buffer="x", index=(Symbol("v0"),), mask="v4"),
        inner("r0", 8, argmax, reduce("v8", ReduceOp.ANY, "v4")),
        Store(buffer="y", index=(I0, I1), value="v5", mask="v4"),
        Store(buffer="z", index=(), value="v5", mode=StoreMode.ADD),
    )
    text = format_nest(
        evolve(every, origins=(NodeOrigin(name="some", operator="aten.some"),))
    )
    assert (
        text.text
        == """\
nest every, i0 < 4, i1 < s0:  # aten.some
    v0 = index i0 * 4 + i1 % 2 : i64
    v1 = literal 2 : i64
    v2 = literal 2.0 : f32
    v3 = literal -inf : f32
    v4 = lt v0 v1 : bool
    check v4 "an index is \\"out of range\\""
    check v4 if v4
    v5 = load x[v0] if v4 else 0.0 : f32
    for r0 < 8:
        v6, v7 = scan argmax v5 : f32
        v8 = reduce any v4 : f32
    store y[i0, i1] = v5 if v4
    store add z[] = v5
"""
    )
    assert text.positions["body", 8, "body", 0] == Position(11, 9, 29)
    assert text.positions[()] == Position(1, 1, 28)


def _graph() -> LoopGraph:
    buffers = {name: tensor("f32", (_N, 256)) for name in ("in0", "out0", "y")}
    view = BufferView(buffer="out0", type=buffers["out0"])
    return LoopGraph(
        buffers=buffers,
        inputs=("in0",),
        items=(
            softmax(_N, 256),
            ExternCall(name="call", arguments=(("out0", view),), writes=("y",)),
        ),
        outputs=(("y", BufferView(buffer="y", type=buffers["y"])),),
    )


def test_a_graph_has_its_buffers_and_items() -> None:
    text = format_graph(_graph())
    lines = text.text.splitlines()
    assert lines[:4] == [
        "input in0 : f32[s0, 256]",
        "buffer out0 : f32[s0, 256]",
        "buffer y : f32[s0, 256]",
        "",
    ]
    assert lines[4] == "nest softmax, i0 < s0:"
    assert lines[-3] == "call call(out0 = out0 : f32[s0, 256]) -> y"
    assert lines[-1] == "output y = y : f32[s0, 256]"
    assert text.positions["items", 1].line == len(lines) - 2


def test_a_schedule_has_kernels_and_their_bytes() -> None:
    symbols = {"s0": SizeSymbol(low=1, hint=8)}
    schedule = plan_kernels(_graph(), SchedulingOptions(symbols=symbols))
    text = format_schedule(schedule, symbols)
    lines = text.text.splitlines()
    (head,) = (line for line in lines if line.startswith("kernel "))
    assert head.startswith("kernel reduce_0(in0: read f32[")
    assert head.endswith("n0: i64), i0 < n0:  # blocks (i0), persistent")
    assert "launch reduce_0(in0, out0, s0)  # reads 8.0 KiB, writes 8.0 KiB" in lines
    assert lines[-2:] == [
        "# kernels: 1, launches: 1, calls: 1; reads 16.0 KiB, writes 16.0 KiB",
        "# bytes are those of s0 = 8",
    ]
    number = lines.index(head) + 1
    assert text.positions["items", 0, "kernel", "nest"].line == number
    assert text.positions["items", 0, "kernel", "nest", "body", 0].line == number + 1


def test_bytes_count_each_element_once() -> None:
    types = {
        "x": tensor("f32", (64, 8)),
        "k": tensor("i64", (64,)),
        "y": tensor("f32", (64,)),
        "acc": tensor("f32", (2,)),
    }
    body = (
        load("v0", "k", I0, dtype=DType.I64),
        inner("r0", 4, load("v1", "x", Symbol("v0"), R0), reduce("v2", ReduceOp.SUM, "v1")),
        store("y", "v2", I0),
        Store(buffer="acc", index=(I0 % 2,), value="v2", mode=StoreMode.ADD),
    )
    graph = LoopGraph(buffers=types, inputs=(*types,), items=(nest("n", (16,), *body),))
    (launch,) = plan_kernels(graph, SchedulingOptions(fuse=False)).items
    # 16 positions, 16 * 4 numbers that they say, 2 sums; 16 results, 2 sums
    assert item_traffic(launch, types, {}) == Traffic(128 + 256 + 8, 64 + 8)
