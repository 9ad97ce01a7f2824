"""Kernels of the Triton renderer run as eager does, and compile for GPUs."""

from pathlib import Path

import pytest
import torch

from tests.lowering.triton_kernels import compiled, kernel_of, run, type_of
from tests.lowering.triton_nests import (
    I0,
    I1,
    I2,
    R0,
    R1,
    apply,
    biased,
    inner,
    load,
    moments,
    nest,
    reduce,
    softmax,
    store,
    transposed,
)
from wrapperir.ir import DType, ScalarParameter, Symbol, TensorType
from wrapperir.kernels import Target
from wrapperir.lowering.loops import IndexValue
from wrapperir.lowering.renderer import ReductionForm
from wrapperir.lowering.scalar_op import ReduceOp, ScalarOp
from wrapperir.lowering.triton import TritonRenderer

I3 = Symbol("i3")
forms = pytest.mark.parametrize("form", list(ReductionForm))


@pytest.mark.parametrize(("rows", "columns"), [(10, 30), (1, 1), (64, 16), (0, 5)])
def test_a_pointwise_nest_runs_over_a_flat_index(rows: int, columns: int) -> None:
    x, bias, out = torch.randn(rows, columns), torch.randn(columns), torch.empty(0)
    out = torch.empty(rows, columns)
    run(biased(rows, columns), {"in0": x, "in1": bias, "out0": out})
    torch.testing.assert_close(out, (x + bias).exp())


def test_dense_accesses_use_the_flat_index() -> None:
    x, bias = torch.randn(10, 30), torch.randn(30)
    buffers = {"in0": x, "in1": bias, "out0": torch.empty(10, 30)}
    source = run(biased(10, 30), buffers).source
    assert "tl.load(in0 + x, xmask)" in source
    assert "tl.load(in1 + i1, xmask)" in source
    assert "tl.store(out0 + x, v3, xmask)" in source


def test_whole_blocks_need_no_mask() -> None:
    x, bias, out = torch.randn(64, 32), torch.randn(32), torch.empty(64, 32)
    source = run(biased(64, 32), {"in0": x, "in1": bias, "out0": out}).source
    assert "mask" not in source
    torch.testing.assert_close(out, (x + bias).exp())


def test_a_transposition_has_a_tile_of_two_dimensions() -> None:
    x, out = torch.randn(33, 70), torch.empty(70, 33)
    definition = run(transposed(70, 33), {"in0": x, "out0": out}, blocks=(("i0",), ("i1",)))
    assert "YBLOCK" in definition.source
    assert torch.equal(out, x.T)


@forms
@pytest.mark.parametrize(("rows", "columns"), [(7, 100), (1, 1), (3, 64), (2, 5000)])
def test_inner_loops_over_rows(rows: int, columns: int, form: ReductionForm) -> None:
    x, out = torch.randn(rows, columns), torch.empty(rows, columns)
    run(softmax(rows, columns), {"in0": x, "out0": out}, form=form)
    torch.testing.assert_close(out, x.softmax(1))


@forms
def test_a_row_at_hand_is_loaded_once(form: ReductionForm) -> None:
    x, out = torch.randn(7, 100), torch.empty(7, 100)
    source = run(softmax(7, 100), {"in0": x, "out0": out}, form=form).source
    loads = 1 if form is ReductionForm.PERSISTENT else 2
    assert source.count("tl.load") == loads
    assert source.count("evict_first") == (0 if loads == 1 else 1)


@pytest.mark.parametrize("is_overwritten", [False, True])
def test_rows_at_hand_are_loaded_before_they_are_reduced(is_overwritten: bool) -> None:
    body = (
        inner("r0", 100, load("v0", "in0", I0, R0), reduce("v1", ReduceOp.MAX, "v0")),
        inner(
            "r1",
            100,
            load("v2", "in1", I0, R1),
            apply("v3", ScalarOp.ADD, "v2", "v1"),
            store("in1" if is_overwritten else "out0", "v3", I0, R1),
        ),
    )
    x, y = torch.randn(7, 100), torch.randn(7, 100)
    out = y.clone() if is_overwritten else torch.empty(7, 100)
    buffers = (
        {"in0": x, "in1": out} if is_overwritten else {"in0": x, "in1": y, "out0": out}
    )
    form = ReductionForm.PERSISTENT
    source = run(nest("shifted", (7,), *body), buffers, form=form).source
    torch.testing.assert_close(out, y + x.amax(1, keepdim=True))
    is_first = source.index("tl.load(in1") < source.index("tl.reduce")
    assert is_first is not is_overwritten


def test_sizes_can_be_symbols() -> None:
    rows, columns = Symbol("s0"), Symbol("s1")
    types = {
        "in0": TensorType(dtype=DType.F32, size=(rows, columns), stride=(columns, 1)),
        "in1": TensorType(dtype=DType.F32, size=(columns,), stride=(1,)),
        "out0": TensorType(dtype=DType.F32, size=(rows, columns), stride=(columns, 1)),
    }
    x, bias, out = torch.randn(10, 30), torch.randn(30), torch.empty(10, 30)
    buffers = {"in0": x, "in1": bias, "out0": out}
    sizes = {"s0": 10, "s1": 30}
    run(biased(rows, columns), buffers, symbols=sizes, types=types)
    torch.testing.assert_close(out, (x + bias).exp())


def test_axes_share_divisions_by_symbolic_extents() -> None:
    batch, length = Symbol("s0"), Symbol("s1")
    body = (load("v0", "in0", I0, I2, I1, I3), store("out0", "v0", I0, I1, I2, I3))
    x, out = torch.randn(2, 5, 3, 4), torch.empty(2, 3, 5, 4)
    stride = (length * 12, 12, 4, 1)
    types = {
        "in0": TensorType(dtype=DType.F32, size=(batch, length, 3, 4), stride=stride),
        "out0": TensorType(
            dtype=DType.F32,
            size=(batch, 3, length, 4),
            stride=(length * 12, length * 4, 4, 1),
        ),
    }
    definition = run(
        nest("permuted", (batch, 3, length, 4), *body),
        {"in0": x, "out0": out},
        symbols={"s0": 2, "s1": 5},
        types=types,
    )
    assert torch.equal(out, x.transpose(1, 2))
    divisions = [line for line in definition.source.splitlines() if "// " in line]
    assert any("// s1" in line for line in divisions)
    assert not any("s1 *" in line or "* s1" in line for line in divisions)


@forms
def test_rows_of_symbolic_length(form: ReductionForm) -> None:
    rows, columns = Symbol("s0"), Symbol("s1")
    type = TensorType(dtype=DType.F32, size=(rows, columns), stride=(columns, 1))
    x, out = torch.randn(5, 300), torch.empty(5, 300)
    run(
        softmax(rows, columns),
        {"in0": x, "out0": out},
        symbols={"s0": 5, "s1": 300},
        types={"in0": type, "out0": type},
        form=form,
    )
    torch.testing.assert_close(out, x.softmax(1))


@pytest.mark.parametrize("dtype", [DType.I64, DType.I32])
def test_a_size_can_be_a_constant(dtype: DType, tmp_path: Path) -> None:
    size = Symbol("s0")
    type = TensorType(dtype=DType.I64, size=(size,), stride=(1,))
    body = (
        IndexValue(result="v0", dtype=DType.I64, expr=size),
        IndexValue(result="v1", dtype=DType.I64, expr=(I0 - 3) // size),
        apply("v2", ScalarOp.ADD, "v0", "v1", dtype=DType.I64),
        store("out0", "v2", I0),
    )
    symbols = [ScalarParameter("s0", dtype)]
    kernel = kernel_of(nest("sized", (size,), *body), {"out0": type}, symbols=symbols)
    definition = TritonRenderer().render_kernel(kernel)
    # Triton compiles for a size of one as for a constant.
    for sizes in ({}, {"s0": 1}):
        made = compiled(definition, Target("sm_90"), tmp_path, sizes)
        assert made.asm["cubin"][:4] == b"\x7fELF"


def test_sizes_beyond_32_bits_have_long_indices() -> None:
    big = TensorType(dtype=DType.F32, size=(1 << 16, 1 << 16), stride=(1 << 16, 1))
    small = TensorType(dtype=DType.F32, size=(1 << 16,), stride=(1,))
    types = {"in0": big, "in1": small, "out0": big}
    long = TritonRenderer().render_kernel(kernel_of(biased(1 << 16, 1 << 16), types))
    assert "tl.int64" in long.source
    types = {"in0": type_of(torch.empty(4, 4)), "out0": type_of(torch.empty(4, 4))}
    short = TritonRenderer().render_kernel(kernel_of(softmax(4, 4), types))
    assert "tl.int64" not in short.source


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
@forms
def test_kernels_compile_for_gpus(form: ReductionForm, target: str, tmp_path: Path) -> None:
    square, row = type_of(torch.empty(100, 100)), type_of(torch.empty(100))
    kernels = [
        kernel_of(softmax(100, 100), {"in0": square, "out0": square}, form=form),
        kernel_of(moments(100, 100), {"in0": square, "out0": row, "out1": row}, form=form),
        kernel_of(
            transposed(100, 100),
            {"in0": square, "out0": square},
            blocks=(("i0",), ("i1",)),
        ),
    ]
    for kernel in kernels:
        definition = TritonRenderer().render_kernel(kernel)
        made = compiled(definition, Target(target), tmp_path)
        assert made.asm[Target(target).suffix][:4] == b"\x7fELF"
