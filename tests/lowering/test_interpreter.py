"""The interpreter of nests: what each instruction computes, and faults of nests."""

import pytest
import torch

from tests.lowering.triton_nests import (
    I0,
    I1,
    R0,
    R1,
    apply,
    axes,
    constant,
    inner,
    load,
    nest,
    reduce,
    scan,
    softmax,
    store,
)
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.ir import DType, Expr, ExprOp, Operation, Symbol
from wrapperir.lowering.interpreter import run_nest
from wrapperir.lowering.loops import (
    Check,
    IndexValue,
    InnerLoop,
    Load,
    Nest,
    Step,
    Store,
    StoreMode,
)
from wrapperir.lowering.scalar_op import ReduceOp, ScalarOp


def test_a_softmax_is_eagers() -> None:
    x, out = torch.randn(3, 5), torch.zeros(3, 5)
    run_nest(softmax(3, 5), {"in0": x, "out0": out})
    torch.testing.assert_close(out, x.softmax(1))


def test_scans_run_along_the_last_axis_of_their_own_loop() -> None:
    x = torch.randn(2, 3, 4)
    sums, places = torch.zeros(2, 3), torch.zeros(2, 3, 4, dtype=torch.int64)
    first = inner("r0", 3, load("v0", "x", I0, R0, 0), scan("v1", ReduceOp.SUM, "v0"))
    second = InnerLoop(
        axes=axes("r", (3, 4)),
        body=(
            load("v2", "x", I0, R0, R1),
            scan("v3 v4", ReduceOp.ARGMAX, "v2"),
            store("places", "v4", I0, R0, R1),
        ),
    )
    first = InnerLoop(axes=first.axes, body=(*first.body, store("sums", "v1", I0, R0)))
    run_nest(nest("scans", (2,), first, second), {"x": x, "sums": sums, "places": places})
    torch.testing.assert_close(sums, x[:, :, 0].cumsum(1))
    assert torch.equal(places, x.cummax(-1).indices)


@pytest.mark.parametrize(
    ("op", "wanted"),
    [(ReduceOp.SUM, 0.0), (ReduceOp.PROD, 1.0), (ReduceOp.ANY, 0.0), (ReduceOp.ALL, 1.0)],
)
def test_an_empty_reduction_gives_the_identity(op: ReduceOp, wanted: float) -> None:
    out = torch.full((2,), 5.0)
    loop = inner("r0", Symbol("n"), load("v0", "x", I0, R0), reduce("v1", op, "v0"))
    body = (loop, apply("v2", ScalarOp.CAST, "v1"), store("out", "v2", I0))
    run_nest(nest("empty", (2,), *body), {"x": torch.ones(2, 0), "out": out}, {"n": 0})
    assert out.tolist() == [wanted, wanted]


def test_moments_of_parts_are_combined() -> None:
    x = torch.randn(2, 6, dtype=torch.float64)
    means, squares = x.mean(1), x.var(1, correction=0) * 6
    outs = {f"out{n}": torch.zeros((), dtype=torch.float64) for n in range(3)}
    f64 = DType.F64
    loop = inner(
        "r0",
        2,
        load("v0", "in0", R0, dtype=f64),
        load("v1", "in1", R0, dtype=f64),
        constant("v2", 6.0, f64),
        reduce("w0 w1 w2", ReduceOp.WELFORD, "v0", "v1", "v2", dtype=f64),
    )
    stores = [store(f"out{n}", f"w{n}") for n in range(3)]
    run_nest(nest("moments", (), loop, *stores), {"in0": means, "in1": squares, **outs})
    torch.testing.assert_close(outs["out0"], x.mean())
    torch.testing.assert_close(outs["out1"], x.var(correction=0) * 12)
    assert outs["out2"] == 12


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [
        (StoreMode.ADD, [8, 7]),
        (StoreMode.MUL, [10, 10]),
        (StoreMode.MIN, [1, 2]),
        (StoreMode.MAX, [5, 5]),
    ],
)
@pytest.mark.parametrize("dtype", [DType.F32, DType.I8])
def test_stores_combine(mode: StoreMode, wanted: list[int], dtype: DType) -> None:
    kind = getattr(torch, dtype.torch_name)
    out = torch.tensor([5, 5], dtype=kind)
    x = torch.tensor([1, 2, 2], dtype=kind)
    store = Store(buffer="out", index=(I0 % 2,), value="v0", mode=mode)
    run_nest(nest("n", (3,), load("v0", "x", I0, dtype=dtype), store), locals())
    assert out.tolist() == wanted


def test_constants_are_not_rounded_to_f32() -> None:
    out = torch.zeros(2, 2, dtype=torch.float64)
    padded = Load(
        result="v1", dtype=DType.F64, buffer="out", index=(I0, 0), mask="v2", other=0.1
    )
    body = (
        constant("v0", 0.1, DType.F64),
        constant("v2", False, DType.BOOL),
        padded,
        store("out", "v0", I0, 0),
        store("out", "v1", I0, 1),
    )
    run_nest(nest("n", (2,), *body), {"out": out})
    assert out.tolist() == [[0.1, 0.1], [0.1, 0.1]]


def test_indices_and_constants() -> None:
    out = torch.zeros(4, 3, dtype=torch.uint16)
    most = Operation(ExprOp.MAX, (I0, I1, 2))
    body = (
        IndexValue(result="v0", dtype=DType.U16, expr=most * 5 // 2 - Symbol("n")),
        constant("v1", -1, DType.U16),
        apply("v2", ScalarOp.ADD, "v0", "v1", dtype=DType.U16),
        store("out", "v2", I0, I1),
    )
    run_nest(nest("n", (4, 3), *body), {"out": out}, {"n": 1})
    places = torch.arange(4)[:, None].clamp(min=2) * 5 // 2 - 2
    assert torch.equal(out.int(), places.expand(4, 3).int())


def test_what_is_masked_is_neither_read_nor_written() -> None:
    x, out = torch.arange(3.0), torch.full((5,), 9.0)
    i64, boolean = DType.I64, DType.BOOL
    body = (
        IndexValue(result="at", dtype=i64, expr=I0),
        constant("two", 2, i64),
        apply("in", ScalarOp.LT, "at", "two", dtype=boolean),
        apply("out", ScalarOp.LT, "at", "at", dtype=boolean),
        Load(result="v", dtype=DType.F32, buffer="x", index=(I0 * 2,), mask="in", other=7),
        Store(buffer="out", index=(I0 + 1,), value="v"),
        Store(buffer="out", index=(I0 * 9,), value="v", mask="out"),
    )
    run_nest(nest("n", (4,), *body), {"x": x, "out": out})
    assert out.tolist() == [9, 0, 2, 7, 7]


def test_a_nest_without_points_does_nothing() -> None:
    body = (load("v0", "x", 9), store("x", "v0", 9))
    run_nest(nest("n", (0, 2), *body), {"x": torch.zeros(1)})


def _fault(*body: Step, extents: tuple[Expr, ...] = (4,)) -> DiagnosticError:
    memory = {"x": torch.zeros(4), "y": torch.zeros(4, 2), "k": torch.zeros(4).long()}
    with pytest.raises(DiagnosticError) as caught:
        run_nest(Nest(name="n", axes=axes("i", extents), body=body), memory)
    return caught.value


@pytest.mark.parametrize(
    "body",
    [
        (load("v0", "x", I0), store("x", "v0", (I0 + 1) % 4)),
        (load("v0", "x", (I0 + 1) % 4), store("x", "v0", I0)),
        (load("v0", "x", I0), store("x", "v0", I0 // 2)),
        (load("v0", "x", I0), store("y", "v0", 0, 0)),
        (constant("v0", 1.0), store("x", "v0", I0), load("v1", "x", 3 - I0)),
        (inner("r0", 2, load("v0", "y", I0, R0), store("y", "v0", I0, 1 - R0)),),
        (inner("r0", 2, load("v0", "y", I0, R0), store("x", "v0", I0)),),
    ],
)
def test_points_may_not_depend_on_each_other(body: tuple[Step, ...]) -> None:
    (found,) = _fault(*body).diagnostics
    assert found.code is Code.RUN_POINT_RACE
    assert found.path is not None
    assert found.path[0] == "body"


def test_an_inner_loop_reads_what_an_earlier_one_wrote() -> None:
    y = torch.arange(8.0).reshape(4, 2)
    first = inner(
        "r0",
        2,
        load("v0", "y", I0, R0),
        apply("v1", ScalarOp.NEG, "v0"),
        store("y", "v1", I0, R0),
    )
    second = inner("r0", 2, load("v2", "y", I0, 1 - R0), reduce("v3", ReduceOp.SUM, "v2"))
    out = torch.zeros(4)
    run_nest(nest("n", (4,), first, second, store("x", "v3", I0)), {"y": y, "x": out})
    assert out.tolist() == [-1, -5, -9, -13]


def test_the_last_of_several_writes_to_a_place_that_is_read() -> None:
    k, x = torch.tensor([0, 2, 2, 0]), torch.arange(4.0)
    out = torch.full((3,), 9.0)
    body = (
        load("v0", "k", I0, dtype=DType.I64),
        load("v1", "x", I0),
        store("out", "v1", Symbol("v0")),
    )
    run_nest(nest("n", (4,), *body), {"k": k, "x": x, "out": out})
    assert out.tolist() == [3, 9, 2]


@pytest.mark.parametrize("index", [(I0 + 1,), (I0 - 1,), (Symbol("v9"),)])
def test_an_access_out_of_bounds_has_its_place(index: tuple[Expr, ...]) -> None:
    known = IndexValue(result="v9", dtype=DType.I64, expr=I0 * 3)
    error = _fault(known, load("v0", "x", *index))
    assert [d.code for d in error.diagnostics] == [Code.RUN_ACCESS_OUT_OF_BOUNDS]
    assert error.diagnostics[0].path == ("body", 1)


def test_a_check_that_fails() -> None:
    body = (
        load("v0", "k", I0, dtype=DType.I64),
        apply("v1", ScalarOp.LT, "v0", "v0", dtype=DType.BOOL),
        Check(condition="v1", message="index out of range"),
    )
    error = _fault(InnerLoop(axes=axes("r", (2,)), body=body))
    assert str(error) == "WIR820: index out of range, at body[0].body[2]"


def test_errors_of_eager_and_of_sizes_are_coded() -> None:
    zero = (
        load("v0", "k", I0, dtype=DType.I64),
        apply("v1", ScalarOp.FLOORDIV, "v0", "v0", dtype=DType.I64),
    )
    assert _fault(*zero).diagnostics[0].code is Code.RUN_KERNEL_FAILED
    error = _fault(extents=(Symbol("s0"),))
    assert error.diagnostics[0].code is Code.RUN_EVALUATION
