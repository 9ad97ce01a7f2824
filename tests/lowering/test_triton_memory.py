"""Loads, stores, masks, atomic updates and checks of Triton kernels."""

from pathlib import Path

import pytest
import torch
from attrs import evolve

from tests.lowering.triton_kernels import compiled, kernel_of, launch, run, type_of
from tests.lowering.triton_nests import (
    I0,
    I1,
    I2,
    R0,
    R1,
    apply,
    axes,
    constant,
    inner,
    load,
    nest,
    reduce,
    store,
)
from wrapperir.ir import (
    Device,
    DType,
    Expr,
    ExprOp,
    Operation,
    ScalarParameter,
    Symbol,
    TensorType,
    tensor,
)
from wrapperir.kernels import Target
from wrapperir.lowering.loops import (
    Check,
    IndexValue,
    InnerLoop,
    Load,
    Nest,
    Store,
    StoreMode,
)
from wrapperir.lowering.renderer import ReductionForm
from wrapperir.lowering.scalar_op import ReduceOp, ScalarOp
from wrapperir.lowering.triton import TritonRenderer

I64, BOOL = DType.I64, DType.BOOL
_SM90 = Target("sm_90")


def _copied(x: torch.Tensor, size: tuple[int, ...], *index: Expr) -> torch.Tensor:
    """Return a nest's copy of elements of ``x`` at an index over the result's axes."""
    out = torch.empty(size, dtype=x.dtype)
    dtype = type_of(x).dtype
    names = (I0, I1, I2)[: len(size)]
    body = (load("v0", "in0", *index, dtype=dtype), store("out0", "v0", *names))
    run(nest("copy", size, *body), {"in0": x, "out0": out})
    return out


def test_strided_and_broadcast_views() -> None:
    x = torch.randn(12, 40)
    assert torch.equal(_copied(x[::2, 3::3], (6, 13), I0, I1), x[::2, 3::3])
    row = torch.randn(1, 40)
    assert torch.equal(_copied(row.expand(12, 40), (12, 40), I0, I1), row.expand(12, 40))
    scalar = torch.tensor(3.5)
    assert torch.equal(_copied(scalar, (7,)), scalar.expand(7))


def test_index_expressions() -> None:
    x = torch.randn(24)
    assert torch.equal(_copied(x, (24,), 23 - I0), x.flip(0))
    assert torch.equal(_copied(x, (24,), (I0 + 5) % 24), x.roll(-5))
    assert torch.equal(_copied(x, (48,), I0 // 2), x.repeat_interleave(2))
    assert torch.equal(_copied(x, (4, 6), I0 * 6 + I1), x.view(4, 6))
    y = torch.randn(4, 6)
    assert torch.equal(_copied(y, (24,), I0 // 6, I0 % 6), y.reshape(-1))
    # Negative numbers are divided toward minus infinity.
    wanted = torch.stack([x[(n - 7) // 3 + 3] for n in range(20)])
    assert torch.equal(_copied(x, (20,), (I0 - 7) // 3 + 3), wanted)
    wanted = torch.stack([x[(n - 7) % 5] for n in range(20)])
    assert torch.equal(_copied(x, (20,), (I0 - 7) % 5), wanted)
    clamped = Operation(ExprOp.MIN, (Operation(ExprOp.MAX, (I0 - 2, 0)), 5))
    assert torch.equal(_copied(x, (10,), clamped), x[(torch.arange(10) - 2).clamp(0, 5)])


def test_three_axes_in_one_and_three_blocks() -> None:
    x = torch.randn(5, 6, 7)
    body = (load("v0", "in0", I2, I0, I1), store("out0", "v0", I0, I1, I2))
    permuted = x.permute(1, 2, 0)
    for blocks in (
        (("i0", "i1", "i2"),),
        (("i0", "i1"), ("i2",)),
        (("i0",), ("i1",), ("i2",)),
    ):
        out = torch.empty(6, 7, 5)
        run(nest("permute", (6, 7, 5), *body), {"in0": x, "out0": out}, blocks=blocks)
        assert torch.equal(out, permuted)


@pytest.mark.parametrize("dtype", [DType.BOOL, DType.U8, DType.BF16, DType.F16, DType.F64])
def test_elements_of_each_size(dtype: DType) -> None:
    x = (torch.rand(50) * 3).to(getattr(torch, dtype.torch_name))
    assert torch.equal(_copied(x, (50,), I0), x)


def test_the_value_of_an_index() -> None:
    out, real = torch.empty(3, 50, dtype=torch.int64), torch.empty(3, 50)
    body = (
        IndexValue(result="v0", dtype=I64, expr=I0 * 5_000_000_000 - I1),
        IndexValue(result="v1", dtype=DType.F32, expr=I1 // 2),
        IndexValue(result="v2", dtype=DType.F32, expr=7),
        apply("v3", ScalarOp.ADD, "v1", "v2"),
        store("out0", "v0", I0, I1),
        store("out1", "v3", I0, I1),
    )
    run(nest("places", (3, 50), *body), {"out0": out, "out1": real})
    rows, columns = torch.arange(3)[:, None], torch.arange(50)
    assert torch.equal(out, rows * 5_000_000_000 - columns)
    assert torch.equal(real, (columns // 2 + 7).float().expand(3, 50))


def test_the_value_of_a_size() -> None:
    size = Symbol("s0")
    types = {"out0": TensorType(dtype=I64, size=(size,), stride=(1,))}
    out = torch.empty(20, dtype=torch.int64)
    body = (
        IndexValue(result="v0", dtype=I64, expr=size),
        IndexValue(result="v1", dtype=I64, expr=I0),
        apply("v2", ScalarOp.SUB, "v0", "v1", dtype=I64),
        store("out0", "v2", I0),
    )
    run(nest("rest", (size,), *body), {"out0": out}, symbols={"s0": 20}, types=types)
    assert torch.equal(out, 20 - torch.arange(20))


def test_a_masked_load_reads_nothing_elsewhere() -> None:
    x, out = torch.randn(10), torch.empty(14)
    body = (
        IndexValue(result="v0", dtype=I64, expr=I0),
        constant("v1", 2, I64),
        constant("v2", 12, I64),
        apply("v3", ScalarOp.GE, "v0", "v1", dtype=BOOL),
        apply("v4", ScalarOp.LT, "v0", "v2", dtype=BOOL),
        apply("v5", ScalarOp.AND, "v3", "v4", dtype=BOOL),
        Load(
            result="v6",
            dtype=DType.F32,
            buffer="in0",
            index=(I0 - 2,),
            mask="v5",
            other=-1.5,
        ),
        store("out0", "v6", I0),
    )
    run(nest("padded", (14,), *body), {"in0": x, "out0": out})
    assert torch.equal(out, torch.nn.functional.pad(x, (2, 2), value=-1.5))


def test_a_masked_store_writes_nothing_elsewhere() -> None:
    x, out = torch.randn(50), torch.zeros(50)
    body = (
        load("v0", "in0", I0),
        constant("v1", 0.0),
        apply("v2", ScalarOp.GT, "v0", "v1", dtype=BOOL),
        Store(buffer="out0", index=(I0,), value="v0", mask="v2"),
    )
    run(nest("chosen", (50,), *body), {"in0": x, "out0": out})
    assert torch.equal(out, x.clamp(min=0))


def _gather(rows: int, table: int) -> Nest:
    """Return a gather of rows of a table, whose indices are checked."""
    place = Symbol("v3")
    return nest(
        "gather",
        (rows, 40),
        load("v0", "in1", I0, dtype=I64),
        constant("v1", 0, I64),
        constant("v2", table, I64),
        apply("wrapped", ScalarOp.ADD, "v0", "v2", dtype=I64),
        apply("low", ScalarOp.LT, "v0", "v1", dtype=BOOL),
        apply("v3", ScalarOp.WHERE, "low", "wrapped", "v0", dtype=I64),
        apply("v4", ScalarOp.GE, "v3", "v1", dtype=BOOL),
        apply("v5", ScalarOp.LT, "v3", "v2", dtype=BOOL),
        Check(condition="v4", message="index is too small"),
        Check(condition="v5", message="index is too large"),
        load("v6", "in0", place, I1),
        store("out0", "v6", I0, I1),
    )


@pytest.mark.parametrize(("bad", "code"), [(None, 0), (-9, 1), (8, 2), (1 << 40, 2)])
def test_a_check_leaves_its_position(bad: int | None, code: int) -> None:
    table, out = torch.randn(8, 40), torch.empty(5, 40)
    places = torch.tensor([3, -1, 7, 0, -8])
    if bad is not None:
        places[2] = bad
    tensors = {"in0": table, "in1": places, "out0": out}
    kernel = kernel_of(_gather(5, 8), {n: type_of(t) for n, t in tensors.items()})
    fault = torch.zeros(1, dtype=torch.int32)
    # Nothing outside of the table is read: the run would fail.
    launch(TritonRenderer().render_kernel(kernel), list(tensors.values()), fault=fault)
    assert fault.item() == code
    if bad is None:
        assert torch.equal(out, table[places])


@pytest.mark.parametrize("bad", [None, -9, 1 << 40])
def test_a_check_on_a_gpu_is_an_assertion_and_a_mask(
    bad: int | None, tmp_path: Path
) -> None:
    table, out = torch.randn(8, 40), torch.empty(5, 40)
    places = torch.tensor([3, -1, 7, 0, -8])
    if bad is not None:
        places[2] = bad
    tensors = {"in0": table, "in1": places, "out0": out}
    types = {n: evolve(type_of(t), device=Device("cuda", 0)) for n, t in tensors.items()}
    definition = TritonRenderer().render_kernel(kernel_of(_gather(5, 8), types))
    assert dict(definition.configs[0].values)["debug"] is True
    assert "__assertfail" in compiled(definition, _SM90, tmp_path).asm["ptx"]
    # The interpreter leaves assertions out; nothing outside of the table is read.
    launch(definition, list(tensors.values()))
    places[2] = 7
    wanted = table[places]
    assert torch.equal(out[:2], wanted[:2])
    assert torch.equal(out[3:], wanted[3:])


def test_positions_of_points_are_checked_and_masked() -> None:
    """A size for which a kernel is timed may exceed a table that it reads from."""
    rows = Symbol("n0")
    body = (
        IndexValue(result="v0", dtype=I64, expr=I0),
        constant("v1", 8, I64),
        apply("v2", ScalarOp.LT, "v0", "v1", dtype=BOOL),
        Check(condition="v2", message="index is too large"),
        load("v3", "in0", Symbol("v0")),
        store("out0", "v3", I0),
    )
    table, out, fault = torch.randn(8), torch.empty(50), torch.zeros(1, dtype=torch.int32)
    types = {"in0": type_of(table), "out0": tensor(DType.F32, (rows,))}
    symbols = [ScalarParameter("n0", I64)]
    kernel = kernel_of(nest("take", (rows,), *body), types, symbols=symbols)
    launch(TritonRenderer().render_kernel(kernel), [table, out], [50], fault=fault)
    assert fault.item() == 1
    assert torch.equal(out[:8], table)


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.I32, DType.I64])
@pytest.mark.parametrize("mode", [StoreMode.ADD, StoreMode.MIN, StoreMode.MAX])
def test_atomic_updates(mode: StoreMode, dtype: DType) -> None:
    kind = getattr(torch, dtype.torch_name)
    x = (torch.rand(200) * 20 - 10).to(kind)
    places, out = torch.randint(0, 7, (200,)), (torch.rand(7) * 6 - 3).to(kind)
    names = {StoreMode.ADD: "sum", StoreMode.MIN: "amin", StoreMode.MAX: "amax"}
    wanted = out.scatter_reduce(0, places, x, names[mode])
    body = (
        load("v0", "in0", I0, dtype=dtype),
        load("v1", "in1", I0, dtype=I64),
        Store(buffer="out0", index=(Symbol("v1"),), value="v0", mode=mode),
    )
    run(nest("scatter", (200,), *body), {"in0": x, "in1": places, "out0": out})
    torch.testing.assert_close(out, wanted)


@pytest.mark.parametrize("mode", [StoreMode.MIN, StoreMode.MAX])
def test_atomic_extremes_keep_nan_and_the_signs_of_zeros(mode: StoreMode) -> None:
    nan = float("nan")
    x = torch.tensor([1.0, nan, -2.0, -0.0, 5.0, -1.0, -3.0, 2.0])
    places = torch.tensor([0, 0, 0, 1, 2, 2, 3, 3])
    out = torch.tensor([0.5, -1.0 if mode is StoreMode.MAX else 1.0, nan, 0.0])
    body = (
        load("v0", "in0", I0),
        load("v1", "in1", I0, dtype=I64),
        Store(buffer="out0", index=(Symbol("v1"),), value="v0", mode=mode),
    )
    run(nest("scatter", (8,), *body), {"in0": x, "in1": places, "out0": out})
    last = 2.0 if mode is StoreMode.MAX else -3.0
    wanted_row = torch.tensor([nan, -0.0, nan, last])
    torch.testing.assert_close(out, wanted_row, equal_nan=True)
    assert torch.signbit(out[1])


def test_each_point_of_an_atomic_update_counts() -> None:
    x, out = torch.randn(6, 70), torch.zeros(1)
    body = (
        constant("v0", 1.0),
        Store(buffer="out0", index=(0,), value="v0", mode=StoreMode.ADD),
        inner(
            "r0",
            70,
            load("v1", "in0", I0, R0),
            Store(buffer="out0", index=(0,), value="v0", mode=StoreMode.ADD),
        ),
    )
    for form in ReductionForm:
        out.zero_()
        run(nest("count", (6,), *body), {"in0": x, "out0": out}, form=form)
        assert out.item() == 6 + 6 * 70


@pytest.mark.parametrize("form", list(ReductionForm))
def test_rows_are_normalised_in_place(form: ReductionForm) -> None:
    x = torch.rand(5, 90)
    wanted = x / x.sum(1, keepdim=True)
    body = (
        inner("r0", 90, load("v0", "in0", I0, R0), reduce("v1", ReduceOp.SUM, "v0")),
        inner(
            "r1",
            90,
            load("v2", "in0", I0, R1),
            apply("v3", ScalarOp.DIV, "v2", "v1"),
            store("in0", "v3", I0, R1),
        ),
        load("v4", "in0", I0, 0),
        store("out0", "v4", I0),
    )
    out = torch.empty(5)
    normalised = nest("normalised", (5,), *body)
    definition = run(normalised, {"in0": x, "out0": out}, form=form)
    torch.testing.assert_close(x, wanted)
    torch.testing.assert_close(out, wanted[:, 0])
    # Threads wait before the first store, and before what was stored is loaded.
    assert definition.source.count("tl.debug_barrier()") == 2


@pytest.mark.parametrize("form", list(ReductionForm))
def test_values_that_no_inner_axis_changes(form: ReductionForm) -> None:
    x, scale = torch.randn(4, 70), torch.randn(4)
    out = torch.empty(4)
    body = (
        InnerLoop(
            axes=axes("r", (70,)),
            body=(
                load("v0", "in0", I0, R0),
                load("v1", "in1", I0),
                apply("v2", ScalarOp.MUL, "v0", "v1"),
                reduce("v3", ReduceOp.SUM, "v2"),
                reduce("v4", ReduceOp.SUM, "v1"),
            ),
        ),
        apply("v5", ScalarOp.ADD, "v3", "v4"),
        store("out0", "v5", I0),
    )
    definition = run(
        nest("scaled", (4,), *body), {"in0": x, "in1": scale, "out0": out}, form=form
    )
    torch.testing.assert_close(out, (x * scale[:, None]).sum(1) + scale * 70)
    before = definition.source.split("for ")[0]
    assert "tl.load(in1" in before  # once, before the loop


def test_a_loop_of_no_points() -> None:
    x, out = torch.randn(4, 0), torch.empty(4)
    body = (
        inner("r0", 0, load("v0", "in0", I0, R0), reduce("v1", ReduceOp.SUM, "v0")),
        store("out0", "v1", I0),
    )
    for form in ReductionForm:
        run(nest("empty", (4,), *body), {"in0": x, "out0": out.fill_(1)}, form=form)
        assert torch.equal(out, torch.zeros(4))
