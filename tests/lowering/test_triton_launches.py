"""Rules for the blocks of Triton kernels."""

import pytest
import torch

from tests.lowering.triton_kernels import Blocks, kernel_of, type_of
from tests.lowering.triton_nests import (
    I0,
    I1,
    R0,
    apply,
    biased,
    inner,
    load,
    nest,
    reduce,
    scan,
    softmax,
    store,
    transposed,
)
from wrapperir.ir import DType, KernelDefinitionLine, ScalarParameter, Symbol, TensorType
from wrapperir.lowering.loops import Nest
from wrapperir.lowering.renderer import ReductionForm
from wrapperir.lowering.scalar_op import ReduceOp, ScalarOp
from wrapperir.lowering.triton import TritonRenderer


def _definition(
    nest: Nest,
    types: dict[str, TensorType],
    *,
    blocks: Blocks | None = None,
    form: ReductionForm = ReductionForm.LOOPED,
) -> KernelDefinitionLine:
    return TritonRenderer().render_kernel(kernel_of(nest, types, blocks=blocks, form=form))


def _type(*size: int, dtype: DType = DType.F32) -> TensorType:
    kind = getattr(torch, dtype.torch_name)
    return type_of(torch.empty(size, dtype=kind, device="meta"))


def _first(definition: KernelDefinitionLine) -> dict[str, object]:
    values = dict(definition.configs[0].values)
    shown = ("XBLOCK", "YBLOCK", "RBLOCK", "num_warps")
    return {name: values[name] for name in shown if name in values}


@pytest.mark.parametrize(
    ("rows", "columns", "block", "warps"),
    [(4096, 768, 1024, 4), (256, 256, 512, 4), (1, 5, 8, 1), (10, 10, 128, 4)],
)
def test_flat_blocks(rows: int, columns: int, block: int, warps: int) -> None:
    types = {
        "in0": _type(rows, columns),
        "in1": _type(columns),
        "out0": _type(rows, columns),
    }
    definition = _definition(biased(rows, columns), types)
    assert _first(definition) == {"XBLOCK": block, "num_warps": warps}


@pytest.mark.parametrize(
    ("rows", "columns", "dtype", "shape"),
    [
        (4096, 4096, DType.F32, (64, 64)),
        (512, 512, DType.F32, (32, 32)),
        (4096, 4096, DType.BF16, (64, 64)),
        (3, 4096, DType.F32, (4, 256)),
        (4096, 5, DType.F32, (128, 8)),
        (2, 2, DType.F32, (2, 2)),
    ],
)
def test_tiles(rows: int, columns: int, dtype: DType, shape: tuple[int, int]) -> None:
    types = {
        "in0": _type(columns, rows, dtype=dtype),
        "out0": _type(rows, columns, dtype=dtype),
    }
    definition = _definition(transposed(rows, columns), types, blocks=(("i0",), ("i1",)))
    found = _first(definition)
    assert (found["YBLOCK"], found["XBLOCK"]) == shape


@pytest.mark.parametrize(
    ("rows", "columns", "form", "wanted"),
    [
        (4096, 768, ReductionForm.PERSISTENT, (1, 1024, 1)),
        (4096, 300, ReductionForm.PERSISTENT, (2, 512, 1)),
        (4096, 4096, ReductionForm.PERSISTENT, (1, 4096, 16)),
        (4096, 64, ReductionForm.PERSISTENT, (8, 64, 2)),
        (16, 1024, ReductionForm.PERSISTENT, (1, 1024, 4)),
        (4096, 100_000, ReductionForm.LOOPED, (1, 2048, 16)),
        (4096, 100_001, ReductionForm.LOOPED, (1, 8192, 32)),
        (4096, 9001, ReductionForm.LOOPED, (1, 4096, 16)),
        (4096, 1500, ReductionForm.LOOPED, (2, 2048, 16)),
        (4096, 100_001, ReductionForm.PERSISTENT, (1, 8192, 32)),
    ],
)
def test_rows(
    rows: int, columns: int, form: ReductionForm, wanted: tuple[int, int, int]
) -> None:
    types = {"in0": _type(rows, columns), "out0": _type(rows, columns)}
    found = _first(_definition(softmax(rows, columns), types, form=form))
    assert tuple(found.values()) == wanted


@pytest.mark.parametrize(("rows", "wanted"), [(64, (1, 8192, 16)), (2048, (1, 1024, 8))])
def test_scans_of_rows(rows: int, wanted: tuple[int, int, int]) -> None:
    body = (
        load("v0", "in0", I0, R0),
        scan("v1", ReduceOp.SUM, "v0"),
        store("out0", "v1", I0, R0),
    )
    types = {"in0": _type(rows, 1 << 18), "out0": _type(rows, 1 << 18)}
    sums = nest("sums", (rows,), inner("r0", 1 << 18, *body))
    assert tuple(_first(_definition(sums, types)).values()) == wanted


@pytest.mark.parametrize(
    ("rows", "columns", "wanted"),
    [(512, 4096, (16, 32)), (4096, 512, (4, 64)), (512, 1 << 20, (256, 2))],
)
def test_columns(rows: int, columns: int, wanted: tuple[int, int]) -> None:
    body = (
        inner("r0", rows, load("v0", "in0", R0, I0), reduce("v1", ReduceOp.SUM, "v0")),
        store("out0", "v1", I0),
    )
    types = {"in0": _type(rows, columns), "out0": _type(columns)}
    found = _first(_definition(nest("columns", (columns,), *body), types))
    assert (found["XBLOCK"], found["RBLOCK"]) == wanted


@pytest.mark.parametrize(
    ("columns", "form", "wanted"),
    [
        (4096, ReductionForm.LOOPED, (32, 64)),
        (512, ReductionForm.PERSISTENT, (16, 512)),
        (4096, ReductionForm.PERSISTENT, (2, 4096)),
    ],
)
def test_rows_beside_columns(
    columns: int, form: ReductionForm, wanted: tuple[int, int]
) -> None:
    body = (
        inner(
            "r0",
            columns,
            load("v0", "in0", I0, R0),
            load("v1", "in1", R0, I0),
            apply("v2", ScalarOp.ADD, "v0", "v1"),
            load("v3", "in2", I0),
            apply("v4", ScalarOp.MUL, "v2", "v3"),
            reduce("v5", ReduceOp.SUM, "v4"),
        ),
        store("out0", "v5", I0),
    )
    types = {
        "in0": _type(4096, columns),
        "in1": _type(columns, 4096),
        "in2": _type(4096),
        "out0": _type(4096),
    }
    found = _first(_definition(nest("both", (4096,), *body), types, form=form))
    assert (found["XBLOCK"], found["RBLOCK"]) == wanted


def test_a_block_of_no_axes_is_no_dimension() -> None:
    body = (
        inner("r0", 64, load("v0", "in0", R0), reduce("v1", ReduceOp.SUM, "v0")),
        store("out0", "v1", 0),
    )
    types = {"in0": _type(64), "out0": _type(1)}
    definition = _definition(nest("total", (), *body), types, blocks=((),))
    assert _first(definition) == {"RBLOCK": 64, "num_warps": 1}
    assert definition.grid == (1,)


def test_a_division_is_not_approximate_and_products_are_not_contracted() -> None:
    body = (
        load("v0", "in0", I0),
        apply("v1", ScalarOp.DIV, "v0", "v0"),
        apply("v2", ScalarOp.MUL, "v1", "v0"),
        apply("v3", ScalarOp.ADD, "v2", "v0"),
        apply("v4", ScalarOp.EXP, "v3"),
        store("out0", "v4", I0),
    )
    types = {"in0": _type(64), "out0": _type(64)}
    definition = _definition(nest("exact", (64,), *body), types)
    assert "tl.div_rn(v0, v0)" in definition.source
    options = dict(definition.configs[0].values)
    assert options["enable_fp_fusion"] is False
    assert options["enable_reflect_ftz"] is False


def test_symbols_of_32_bits_promise_short_offsets() -> None:
    rows, columns = Symbol("s0"), Symbol("s1")
    type = TensorType(dtype=DType.F32, size=(rows, columns), stride=(columns, 1))
    body = (load("v0", "in0", I0, I1), store("out0", "v0", I0, I1))
    for dtype, is_long in ((DType.I64, True), (DType.I32, False)):
        symbols = [ScalarParameter(name, dtype) for name in ("s0", "s1")]
        kernel = kernel_of(
            nest("copy", (rows, columns), *body),
            {"in0": type, "out0": type},
            symbols=symbols,
        )
        source = TritonRenderer().render_kernel(kernel).source
        assert ("tl.int64" in source) is is_long
