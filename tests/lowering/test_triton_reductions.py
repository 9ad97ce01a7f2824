"""Reductions and scans of Triton kernels give eager's results."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.lowering.eager_operators import numbers
from tests.lowering.triton_kernels import compiled, run
from tests.lowering.triton_nests import (
    I0,
    I1,
    R0,
    R1,
    axes,
    inner,
    load,
    reduce,
    scan,
    store,
)
from wrapperir.ir import DType, Expr, KernelDefinitionLine
from wrapperir.kernels import Target
from wrapperir.lowering.loops import InnerLoop, Nest
from wrapperir.lowering.renderer import ReductionForm
from wrapperir.lowering.scalar_op import RESULT_COUNTS, ReduceOp

forms = pytest.mark.parametrize("form", list(ReductionForm))
_KEPT = {
    ReduceOp.ANY: DType.BOOL,
    ReduceOp.ALL: DType.BOOL,
    ReduceOp.ARGMIN: DType.I64,
    ReduceOp.ARGMAX: DType.I64,
}
_EAGER: dict[ReduceOp, Callable[[torch.Tensor], torch.Tensor]] = {
    ReduceOp.SUM: lambda x: x.sum(-1, dtype=x.dtype),
    ReduceOp.PROD: lambda x: x.prod(-1, dtype=x.dtype),
    ReduceOp.MIN: lambda x: x.amin(-1),
    ReduceOp.MAX: lambda x: x.amax(-1),
    ReduceOp.ANY: lambda x: x.any(-1).bool(),
    ReduceOp.ALL: lambda x: x.all(-1).bool(),
    ReduceOp.ARGMIN: lambda x: x.argmin(-1),
    ReduceOp.ARGMAX: lambda x: x.argmax(-1),
}
_SHAPES = [((3,), (100,)), ((), (37,)), ((2, 3), (4, 9)), ((5,), (1,)), ((1,), (2600,))]


def _nest(
    op: ReduceOp, dtype: DType, kept: tuple[int, ...], reduced: tuple[int, ...]
) -> Nest:
    index: tuple[Expr, ...] = (I0, I1)[: len(kept)]
    places: tuple[Expr, ...] = (R0, R1)[: len(reduced)]
    names = [f"w{n}" for n in range(RESULT_COUNTS.get(op, 1))]
    loop = InnerLoop(
        axes=axes("r", reduced),
        body=(
            load("v0", "in0", *index, *places, dtype=dtype),
            reduce(" ".join(names), op, "v0", dtype=dtype),
        ),
    )
    stores = [store(f"out{n}", name, *index) for n, name in enumerate(names)]
    return Nest(name="reduction", axes=axes("i", kept), body=(loop, *stores))


def _reduced(
    op: ReduceOp,
    x: torch.Tensor,
    dtype: DType,
    kept: tuple[int, ...],
    form: ReductionForm,
    *,
    blocks: tuple[tuple[str, ...], ...] | None = None,
) -> tuple[list[torch.Tensor], KernelDefinitionLine]:
    kind = getattr(torch, _KEPT.get(op, dtype).torch_name)
    count = RESULT_COUNTS.get(op, 1)
    outs = [torch.zeros(kept, dtype=kind) for _ in range(count)]
    buffers = {"in0": x, **{f"out{n}": out for n, out in enumerate(outs)}}
    nest = _nest(op, dtype, kept, tuple(x.shape[len(kept) :]))
    return outs, run(nest, buffers, form=form, blocks=blocks)


@forms
@pytest.mark.parametrize("op", list(_EAGER))
def test_a_reduction_gives_eagers_result(op: ReduceOp, form: ReductionForm) -> None:
    for dtype in (DType.F32, DType.F64, DType.I64, DType.I8, DType.U8, DType.BOOL):
        if dtype is DType.BOOL and op not in (ReduceOp.ANY, ReduceOp.ALL):
            continue
        for kept, reduced in _SHAPES[:: 1 if dtype is DType.F32 else 2]:
            kind = getattr(torch, dtype.torch_name)
            x = (torch.rand((*kept, *reduced)) * 5 - 2).to(kind)
            if op is ReduceOp.PROD and dtype.is_float:
                x = x.clamp(-1.02, 1.02)
            (got,), _ = _reduced(op, x, dtype, kept, form)
            wanted = _EAGER[op](x.reshape(*kept, -1))
            torch.testing.assert_close(got, wanted, msg=f"{dtype} {kept} {reduced}")


@pytest.mark.parametrize("op", list(_EAGER))
@pytest.mark.parametrize("count", [4099, 4095, 12289])
def test_whole_blocks_of_long_loops_have_no_mask(op: ReduceOp, count: int) -> None:
    x = torch.rand(2, count) * 5 - 2
    if op is ReduceOp.PROD:
        x = x.clamp(-1.0, 1.0)
    (got,), definition = _reduced(op, x, DType.F32, (2,), ReductionForm.LOOPED)
    torch.testing.assert_close(got, _EAGER[op](x))
    assert definition.source.count("for roffset") == (2 if count > 4096 else 1)


def test_threads_load_several_elements_of_padded_rows(tmp_path: Path) -> None:
    x = torch.randn(4, 5008).bfloat16()[:, :5001]
    (got,), definition = _reduced(ReduceOp.MAX, x, DType.BF16, (4,), ReductionForm.LOOPED)
    torch.testing.assert_close(got, x.amax(1))
    assembly = compiled(definition, Target("sm_90"), tmp_path).asm["ptx"]
    assert re.search(r"ld\.global[^ ]*\.v2\.b32", assembly)


@forms
@pytest.mark.parametrize(
    "op", [ReduceOp.MIN, ReduceOp.MAX, ReduceOp.ARGMIN, ReduceOp.ARGMAX]
)
def test_nan_is_taken_before_any_number(op: ReduceOp, form: ReductionForm) -> None:
    x = torch.stack([numbers(DType.F32, seed, 3000) for seed in range(3)])
    x[1] = x[1].nan_to_num(1.0)
    x[2] = float("inf" if op in (ReduceOp.MIN, ReduceOp.ARGMIN) else "-inf")
    (got,), _ = _reduced(op, x, DType.F32, (3,), form)
    torch.testing.assert_close(got, _EAGER[op](x), equal_nan=True, rtol=0, atol=0)


def test_the_largest_and_its_place_share_a_reduction() -> None:
    loop = inner(
        "r0",
        100,
        load("v0", "in0", I0, R0),
        reduce("v1", ReduceOp.MAX, "v0"),
        reduce("v2", ReduceOp.ARGMAX, "v0"),
    )
    x = torch.randint(0, 9, (5, 100)).float()
    most, place = torch.zeros(5), torch.zeros(5, dtype=torch.int64)
    stores = store("out0", "v1", I0), store("out1", "v2", I0)
    nest = Nest(name="largest", axes=axes("i", (5,)), body=(loop, *stores))
    buffers = {"in0": x, "out0": most, "out1": place}
    source = run(nest, buffers, form=ReductionForm.PERSISTENT).source
    assert source.count("tl.reduce(") == 1
    assert torch.equal(most, x.amax(1))
    assert torch.equal(place, x.argmax(1))


@forms
@pytest.mark.parametrize("op", [ReduceOp.MAX, ReduceOp.ARGMAX, ReduceOp.SUM])
def test_halves_are_reduced(op: ReduceOp, form: ReductionForm) -> None:
    x = torch.randn(3, 50).bfloat16()
    (got,), _ = _reduced(op, x, DType.BF16, (3,), form)
    torch.testing.assert_close(got, _EAGER[op](x))


@forms
@pytest.mark.parametrize("length", [1, 100, 3000])
def test_moments_are_exact_with_a_large_mean(length: int, form: ReductionForm) -> None:
    x = torch.randn(2, length) + 1000
    (mean, squares, count), _ = _reduced(ReduceOp.WELFORD, x, DType.F32, (2,), form)
    wide = x.double()
    torch.testing.assert_close(mean.double(), wide.mean(1), rtol=1e-6, atol=0)
    wanted = (wide - wide.mean(1, keepdim=True)).square().sum(1)
    torch.testing.assert_close(squares.double(), wanted, rtol=1e-3, atol=1e-4)
    assert (count == length).all()


@forms
def test_moments_are_merged(form: ReductionForm) -> None:
    x = torch.randn(2, 30, 8, dtype=torch.float64)
    mean = x.mean(-1)
    squares = (x - mean[..., None]).square().sum(-1)
    count = torch.full_like(mean, 8)
    loop = InnerLoop(
        axes=axes("r", (30,)),
        body=(
            load("v0", "in0", I0, R0, dtype=DType.F64),
            load("v1", "in1", I0, R0, dtype=DType.F64),
            load("v2", "in2", I0, R0, dtype=DType.F64),
            reduce("w0 w1 w2", ReduceOp.WELFORD, "v0", "v1", "v2", dtype=DType.F64),
        ),
    )
    stores = [store(f"out{n}", f"w{n}", I0) for n in range(3)]
    nest = Nest(name="merged", axes=axes("i", (2,)), body=(loop, *stores))
    outs = [torch.zeros(2, dtype=torch.float64) for _ in range(3)]
    given = {"in0": mean, "in1": squares, "in2": count}
    run(nest, {**given, **{f"out{n}": out for n, out in enumerate(outs)}}, form=form)
    flat = x.reshape(2, -1)
    torch.testing.assert_close(outs[0], flat.mean(1))
    torch.testing.assert_close(outs[1], flat.var(1, correction=0) * 240)
    assert (outs[2] == 240).all()


@forms
@pytest.mark.parametrize("length", [1, 100, 3000])
def test_a_softmax_divisor(length: int, form: ReductionForm) -> None:
    x = torch.randn(4, length) * 10
    x[1, 0] = float("inf")
    x[2] = float("-inf")
    x[3, ::2] = float("-inf")
    (peak, total), _ = _reduced(ReduceOp.ONLINE_SOFTMAX, x, DType.F32, (4,), form)
    wanted = (x - x.amax(1, keepdim=True)).exp().sum(1)
    torch.testing.assert_close(peak, x.amax(1))
    torch.testing.assert_close(total, wanted, equal_nan=True)


@forms
def test_columns_are_reduced_in_tiles(form: ReductionForm) -> None:
    x = torch.randn(6, 40, 50)
    nest = Nest(
        name="columns",
        axes=axes("i", (6, 50)),
        body=(
            InnerLoop(
                axes=axes("r", (40,)),
                body=(
                    load("v0", "in0", I0, R0, I1),
                    reduce("v1", ReduceOp.SUM, "v0"),
                ),
            ),
            store("out0", "v1", I0, I1),
        ),
    )
    for blocks in ((("i0", "i1"),), (("i0",), ("i1",))):
        out = torch.zeros(6, 50)
        run(nest, {"in0": x, "out0": out}, blocks=blocks, form=form)
        torch.testing.assert_close(out, x.sum(1))


_SCANS: dict[ReduceOp, Callable[[torch.Tensor], tuple[torch.Tensor, ...]]] = {
    ReduceOp.SUM: lambda x: (x.cumsum(-1, dtype=x.dtype),),
    ReduceOp.PROD: lambda x: (x.cumprod(-1, dtype=x.dtype),),
    ReduceOp.MIN: lambda x: (x.cummin(-1)[0],),
    ReduceOp.MAX: lambda x: (x.cummax(-1)[0],),
    ReduceOp.ARGMIN: lambda x: tuple(x.cummin(-1)),
    ReduceOp.ARGMAX: lambda x: tuple(x.cummax(-1)),
}


@forms
@pytest.mark.parametrize("dtype", [DType.F32, DType.I64, DType.I8])
@pytest.mark.parametrize("op", list(_SCANS))
def test_a_scan_gives_eagers_result(
    op: ReduceOp, dtype: DType, form: ReductionForm
) -> None:
    kind = getattr(torch, dtype.torch_name)
    for shape in ((3, 100), (1, 4100), (2, 1)):
        x = (torch.rand(shape) * 7 - 3).round().to(kind)
        if op is ReduceOp.PROD and dtype.is_float:
            x = x.clamp(-1, 1)
        wanted = _SCANS[op](x)
        outs = [torch.zeros_like(result) for result in wanted]
        names = [f"w{n}" for n in range(len(outs))]
        loop = InnerLoop(
            axes=axes("r", shape[1:]),
            body=(
                load("v0", "in0", I0, R0, dtype=dtype),
                scan(" ".join(names), op, "v0", dtype=dtype),
                *(store(f"out{n}", name, I0, R0) for n, name in enumerate(names)),
            ),
        )
        nest = Nest(name="scanned", axes=axes("i", shape[:1]), body=(loop,))
        run(nest, {"in0": x, **{f"out{n}": t for n, t in enumerate(outs)}}, form=form)
        for got, result in zip(outs, wanted, strict=True):
            torch.testing.assert_close(got, result)


@forms
def test_scans_and_reductions_compile_for_a_gpu(
    form: ReductionForm, tmp_path: Path
) -> None:
    reductions = (*_EAGER, ReduceOp.WELFORD, ReduceOp.ONLINE_SOFTMAX)
    body = [load("v0", "in0", I0, R0)]
    counts = {op: RESULT_COUNTS.get(op, 1) for op in reductions}
    results = {op: [f"{op.value}{n}" for n in range(counts[op])] for op in reductions}
    loop = InnerLoop(
        axes=axes("r", (3000,)),
        body=(
            *body,
            *(reduce(" ".join(names), op, "v0") for op, names in results.items()),
            *(scan(f"scan_{op.value} place_{op.value}", op, "v0") for op in _ARGS),
            *(store(f"scans_{op.value}", f"place_{op.value}", I0, R0) for op in _ARGS),
        ),
    )
    x = torch.randn(2, 3000)
    buffers = {"in0": x}
    stores = []
    for op, names in results.items():
        for name in names:
            kind = getattr(torch, _KEPT.get(op, DType.F32).torch_name)
            buffers[f"out_{name}"] = torch.zeros(2, dtype=kind)
            stores.append(store(f"out_{name}", name, I0))
    for op in _ARGS:
        buffers[f"scans_{op.value}"] = torch.zeros(2, 3000, dtype=torch.int64)
    nest = Nest(name="every", axes=axes("i", (2,)), body=(loop, *stores))
    definition = run(nest, buffers, form=form)
    made = compiled(definition, Target("sm_90"), tmp_path)
    assert made.asm["cubin"][:4] == b"\x7fELF"


_ARGS = (ReduceOp.ARGMIN, ReduceOp.ARGMAX)


@forms
@pytest.mark.parametrize("op", [ReduceOp.SUM, ReduceOp.MAX, ReduceOp.ARGMIN])
def test_a_scan_along_the_last_of_several_axes(op: ReduceOp, form: ReductionForm) -> None:
    for shape in ((2, 3, 7), (1, 90, 50), (2, 5, 1), (1, 2, 2500)):
        x = (torch.rand(shape) * 7 - 3).round()
        wanted = _SCANS[op](x)
        outs = [torch.zeros_like(result) for result in wanted]
        names = [f"w{n}" for n in range(len(outs))]
        loop = InnerLoop(
            axes=axes("r", shape[1:]),
            body=(
                load("v0", "in0", I0, R0, R1),
                scan(" ".join(names), op, "v0"),
                *(store(f"out{n}", name, I0, R0, R1) for n, name in enumerate(names)),
            ),
        )
        nest = Nest(name="scanned", axes=axes("i", shape[:1]), body=(loop,))
        run(nest, {"in0": x, **{f"out{n}": t for n, t in enumerate(outs)}}, form=form)
        for got, result in zip(outs, wanted, strict=True):
            torch.testing.assert_close(got, result)
