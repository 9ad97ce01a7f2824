"""C++ kernels that compute several points side by side give correct results."""

import math
from collections.abc import Callable, Sequence
from functools import partial

import pytest
import torch
from attrs import evolve

from tests.lowering.cpp_kernels import build_kernels, kernel_of, type_of, use_processor
from wrapperir.ir import DType, Expr, Symbol, TensorType, add, mul
from wrapperir.lowering.c.lanes import LaneAnalysis, Lanes
from wrapperir.lowering.cpp import CppRenderer
from wrapperir.lowering.cpp.rows import find_rows
from wrapperir.lowering.loops import (
    Apply,
    Axis,
    IndexValue,
    InnerLoop,
    Instruction,
    Literal,
    Load,
    Nest,
    Reduce,
    Scan,
    Store,
    StoreMode,
)
from wrapperir.lowering.renderer import LoopKernel
from wrapperir.lowering.scalar_op import ReduceOp, ScalarOp

_I, _J, _R = Symbol("i0"), Symbol("i1"), Symbol("r0")
_EXTENTS = (1, 9, 64, 130, 200)
_ROWS = 5

Wanted = Callable[[torch.Tensor], Sequence[torch.Tensor]]


def _softmax_parts(x: torch.Tensor) -> Sequence[torch.Tensor]:
    most = x.amax(1)
    return most, (x - most[:, None]).exp().sum(1)


def _welford_parts(x: torch.Tensor) -> Sequence[torch.Tensor]:
    squares = (x - x.mean(1, keepdim=True)).square().sum(1)
    return x.mean(1), squares, torch.full((x.shape[0],), float(x.shape[1]))


_REDUCTIONS: dict[ReduceOp, Wanted] = {
    ReduceOp.SUM: lambda x: (x.sum(1),),
    ReduceOp.PROD: lambda x: (x.prod(1),),
    ReduceOp.MIN: lambda x: (x.amin(1),),
    ReduceOp.MAX: lambda x: (x.amax(1),),
    ReduceOp.ARGMIN: lambda x: (x.argmin(1),),
    ReduceOp.ARGMAX: lambda x: (x.argmax(1),),
    ReduceOp.WELFORD: _welford_parts,
    ReduceOp.ONLINE_SOFTMAX: _softmax_parts,
}


def _type(size: tuple[Expr, ...], dtype: DType = DType.F32) -> TensorType:
    strides: list[Expr] = [1]
    for extent in reversed(size[1:]):
        strides.insert(0, mul(strides[0], extent))
    return TensorType(dtype=dtype, size=size, stride=tuple(strides))


def _result_dtypes(op: ReduceOp) -> list[DType]:
    if op in (ReduceOp.ARGMIN, ReduceOp.ARGMAX):
        return [DType.I64]
    counts = {ReduceOp.WELFORD: 3, ReduceOp.ONLINE_SOFTMAX: 2}
    return [DType.F32] * counts.get(op, 1)


def _reduction(
    name: str, op: ReduceOp, rows: Expr, length: Expr, *, is_outer: bool
) -> LoopKernel:
    """Return a reduction of each row of a buffer, or each column of its transpose."""
    load = (_R, _I) if is_outer else (_I, _R)
    dtypes = _result_dtypes(op)
    values = tuple(f"a{n}" for n in range(len(dtypes)))
    loop = InnerLoop(
        axes=(Axis("r0", length),),
        body=(
            Load(result="v0", dtype=DType.F32, buffer="x", index=load),
            Reduce(results=values, dtype=DType.F32, op=op, operands=("v0",)),
        ),
    )
    stores = (Store(buffer=f"out{n}", index=(_I,), value=v) for n, v in enumerate(values))
    nest = Nest(name=name, axes=(Axis("i0", rows),), body=(loop, *stores))
    shape = (length, rows) if is_outer else (rows, length)
    outputs = {f"out{n}": _type((rows,), dtype) for n, dtype in enumerate(dtypes)}
    symbols = [s.name for s in (rows, length) if isinstance(s, Symbol)]
    return kernel_of(nest, {"x": _type(shape), **outputs}, symbols)


def _values(*shape: int) -> torch.Tensor:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(shape[1]))
    x[shape[0] // 2] = x[shape[0] // 2, 0]  # equal values
    if shape[0] > 3:
        x[3, -1] = math.nan
        x[2, 0] = -math.inf
    return x


def _check(op: ReduceOp, x: torch.Tensor, outputs: Sequence[torch.Tensor]) -> None:
    for got, wanted in zip(outputs, _REDUCTIONS[op](x.double()), strict=True):
        torch.testing.assert_close(
            got.double(), wanted.double(), rtol=2e-5, atol=1e-5, equal_nan=True
        )


def _outputs(op: ReduceOp, rows: int) -> list[torch.Tensor]:
    return [
        torch.zeros(rows, dtype=getattr(torch, dtype.torch_name))
        for dtype in _result_dtypes(op)
    ]


@pytest.mark.parametrize("is_outer", [False, True], ids=["inner", "outer"])
def test_reductions_of_lanes(is_outer: bool) -> None:
    cases = [(op, extent) for op in _REDUCTIONS for extent in _EXTENTS]
    kernels: list[LoopKernel] = []
    for op, extent in cases:
        rows, length = (extent, 20) if is_outer else (_ROWS, extent)
        name = f"{op.value}_{extent}"
        kernels.append(_reduction(name, op, rows, length, is_outer=is_outer))
    for (op, extent), built in zip(cases, build_kernels(kernels), strict=True):
        x = _values(extent, 20) if is_outer else _values(_ROWS, extent)
        outputs = _outputs(op, x.shape[0])
        built.launch([x.t().contiguous() if is_outer else x, *outputs])
        _check(op, x, outputs)


@pytest.mark.parametrize("is_outer", [False, True], ids=["inner", "outer"])
def test_reductions_of_symbolic_extents(is_outer: bool) -> None:
    rows, length = Symbol("s0"), Symbol("s1")
    kernels = [
        _reduction(f"{op.value}", op, rows, length, is_outer=is_outer) for op in _REDUCTIONS
    ]
    for op, built in zip(_REDUCTIONS, build_kernels(kernels), strict=True):
        for extent in _EXTENTS:
            x = _values(extent, 20) if is_outer else _values(_ROWS, extent)
            outputs = _outputs(op, x.shape[0])
            given = x.t().contiguous() if is_outer else x
            built.launch([given, *outputs, *x.shape])
            _check(op, x, outputs)


def test_long_sums_keep_their_precision() -> None:
    kernels = [
        _reduction("inner", ReduceOp.SUM, 1, 1 << 20, is_outer=False),
        _reduction("outer", ReduceOp.SUM, 16, 1 << 16, is_outer=True),
    ]
    inner, outer = build_kernels(kernels)
    x, out = torch.rand(1, 1 << 20), torch.zeros(1)
    inner.launch([x, out])
    torch.testing.assert_close(out.double(), x.double().sum(1), rtol=1e-7, atol=0)
    x, out = torch.rand(1 << 16, 16), torch.zeros(16)
    outer.launch([x, out])
    torch.testing.assert_close(out.double(), x.double().sum(0), rtol=1e-7, atol=0)


def _normalisation(extent: Expr, *, is_outer: bool) -> Nest:
    """Return ``x * rsqrt(mean of x * x) + x0``, where ``x0`` is a value of its point."""
    at = (_R, _I) if is_outer else (_I, _R)
    first = (0, _I) if is_outer else (_I, 0)
    load = partial(Load, dtype=DType.F32, buffer="x")

    def apply(result: str, op: ScalarOp, *operands: str) -> Apply:
        return Apply(result=result, dtype=DType.F32, op=op, operands=operands)

    summing = InnerLoop(
        axes=(Axis("r0", extent),),
        body=(
            load(result="v1", index=at),
            apply("v2", ScalarOp.MUL, "v1", "v1"),
            Reduce(results=("a0",), dtype=DType.F32, op=ReduceOp.SUM, operands=("v2",)),
        ),
    )
    storing = InnerLoop(
        axes=(Axis("r0", extent),),
        body=(
            load(result="v5", index=at),
            apply("v6", ScalarOp.MUL, "v5", "v4"),
            apply("v7", ScalarOp.ADD, "v6", "v0"),
            Store(buffer="out", index=at, value="v7"),
        ),
    )
    body = (
        load(result="v0", index=first),
        summing,
        Literal(result="n", dtype=DType.F32, value=20.0),
        apply("v3", ScalarOp.DIV, "a0", "n"),
        apply("v4", ScalarOp.RSQRT, "v3"),
        storing,
    )
    name = "outer" if is_outer else "inner"
    return Nest(name=name, axes=(Axis("i0", 100),), body=body)


def test_values_are_kept_between_loops() -> None:
    x = torch.randn(100, 20)
    wanted = x * (x * x).mean(1, keepdim=True).rsqrt() + x[:, :1]
    for is_outer in (False, True):
        given = x.t().contiguous() if is_outer else x
        types = {"x": type_of(given), "out": type_of(given)}
        nest = _normalisation(20, is_outer=is_outer)
        lanes = LaneAnalysis(nest, types).choose()
        assert lanes == (Lanes(axis="i0") if is_outer else Lanes(loops=frozenset({1, 5})))
        (built,) = build_kernels([kernel_of(nest, types)])
        out = torch.zeros_like(given)
        built.launch([given, out])
        torch.testing.assert_close(out.t() if is_outer else out, wanted)


def test_a_scan_along_rows_runs_beside_other_columns() -> None:
    x = torch.randn(30, 100)
    index = (_R, _I)
    loop = InnerLoop(
        axes=(Axis("r0", 30),),
        body=(
            Load(result="v0", dtype=DType.F32, buffer="x", index=index),
            Scan(results=("v1",), dtype=DType.F32, op=ReduceOp.SUM, operands=("v0",)),
            Store(buffer="sums", index=index, value="v1"),
            Scan(
                results=("v2", "v3"), dtype=DType.F32, op=ReduceOp.ARGMAX, operands=("v0",)
            ),
            Store(buffer="most", index=index, value="v2"),
            Store(buffer="places", index=index, value="v3"),
        ),
    )
    nest = Nest(name="scan", axes=(Axis("i0", 100),), body=(loop,))
    sums, most, places = torch.zeros(30, 100), torch.zeros(30, 100), torch.zeros(30, 100)
    places = places.long()
    tensors = {"x": x, "sums": sums, "most": most, "places": places}
    types = {name: type_of(tensor) for name, tensor in tensors.items()}
    assert LaneAnalysis(nest, types).choose() == Lanes(axis="i0")
    (built,) = build_kernels([kernel_of(nest, types)])
    built.launch([*tensors.values()])
    torch.testing.assert_close(sums, x.cumsum(0))
    wanted = x.cummax(0)
    assert torch.equal(most, wanted.values)
    assert torch.equal(places, wanted.indices)


def _pointwise(name: str, extents: Sequence[Expr], *bodies: Sequence[Expr]) -> LoopKernel:
    """Return a sum of ``x`` and ``y``, whose elements are at the given indices."""
    x, y, out = bodies
    body = (
        Load(result="v0", dtype=DType.F32, buffer="x", index=tuple(x)),
        Load(result="v1", dtype=DType.F32, buffer="y", index=tuple(y)),
        Apply(result="v2", dtype=DType.F32, op=ScalarOp.ADD, operands=("v0", "v1")),
        Store(buffer="out", index=tuple(out), value="v2"),
    )
    axes = tuple(Axis(f"i{n}", extent) for n, extent in enumerate(extents))
    nest = Nest(name=name, axes=axes, body=body)
    rows, columns = extents
    types = {
        "x": _type((rows, columns)),
        "y": _type((columns, rows)),
        "out": _type((rows, columns)),
    }
    symbols = [s.name for s in extents if isinstance(s, Symbol)]
    return kernel_of(nest, types, symbols)


@pytest.mark.parametrize("rows", [1, 40, 300])
def test_sums_of_a_tensor_and_a_transpose(rows: int) -> None:
    """The largest is for several threads, also along its last axis."""
    sizes = [(rows, n) for n in (1, 9, 100, 4097)]
    kernels = [
        _pointwise(f"add_{n}", size, (_I, _J), (_J, _I), (_I, _J))
        for n, size in enumerate(sizes)
    ]
    s0, s1 = Symbol("s0"), Symbol("s1")
    kernels.append(_pointwise("add_symbolic", (s0, s1), (_I, _J), (_J, _I), (_I, _J)))
    *constant, symbolic = build_kernels(kernels)
    for built, size in zip(constant, sizes, strict=True):
        x, y = torch.randn(size), torch.randn(size[::-1])
        for kernel, numbers in ((built, ()), (symbolic, size)):
            out = torch.zeros(size)
            kernel.launch([x, y, out, *numbers])
            assert torch.equal(out, x + y.t())


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.U8])
@pytest.mark.parametrize("processor", ["native", "x86-64-v3"])
def test_a_transpose_is_read_by_whole_tiles(
    processor: str, dtype: DType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compiler splits the rows of a tile where the processor has shorter vectors."""
    use_processor(processor, monkeypatch)
    size = (2, 32, 64)
    axes = tuple(Axis(f"i{n}", extent) for n, extent in enumerate(size))
    i0, i1, i2 = map(Symbol, ("i0", "i1", "i2"))
    body = (
        Load(result="v0", dtype=dtype, buffer="x", index=(i0, i1, i2)),
        Load(result="v1", dtype=dtype, buffer="y", index=(i0, i2, i1)),
        Apply(result="v2", dtype=dtype, op=ScalarOp.ADD, operands=("v0", "v1")),
        Store(buffer="out", index=(i0, i1, i2), value="v2"),
    )
    nest = Nest(name=f"add_{len(processor)}_{dtype.value}", axes=axes, body=body)
    kind = getattr(torch, dtype.torch_name)
    x, y = (torch.randint(0, 99, s).to(kind) for s in (size, (2, 64, 32)))
    out = torch.zeros(size, dtype=kind)
    types = {"x": type_of(x), "y": type_of(y), "out": type_of(out)}
    (kernel,) = build_kernels([kernel_of(nest, types)])
    kernel.launch([x, y, out])
    assert torch.equal(out, x + y.transpose(1, 2))


def test_lanes_that_add_to_one_element_do_so_one_after_the_other() -> None:
    index, values = torch.randint(0, 3, (50,)), torch.randn(50, 16)
    body = (
        Load(result="v0", dtype=DType.I64, buffer="index", index=(_I,)),
        Load(result="v1", dtype=DType.F32, buffer="values", index=(_I, _J)),
        Store(buffer="rows", index=(Symbol("v0"), _J), value="v1", mode=StoreMode.ADD),
        Store(buffer="total", index=(Symbol("v0"),), value="v1", mode=StoreMode.ADD),
    )
    axes = (Axis("i0", 50), Axis("i1", 16))
    rows, total = torch.zeros(3, 16), torch.zeros(3)
    tensors = {"index": index, "values": values, "rows": rows, "total": total}
    types = {name: type_of(tensor) for name, tensor in tensors.items()}
    both = Nest(name="both", axes=axes, body=body)
    assert LaneAnalysis(both, types).choose() == Lanes()
    only = Nest(name="only", axes=axes, body=body[:-1])
    assert LaneAnalysis(only, types).choose() == Lanes(axis="i1")
    for nest in (both, only):
        (built,) = build_kernels([kernel_of(nest, types)])
        rows.zero_()
        built.launch([*tensors.values()])
        wanted = torch.zeros(3, 16).index_add(0, index, values)
        torch.testing.assert_close(rows, wanted)
    torch.testing.assert_close(total, wanted.sum(1))


def test_an_indirect_index_of_lanes_is_gathered() -> None:
    x, index, out = torch.randn(100), torch.randint(0, 50, (300,)), torch.zeros(300)
    body = (
        Load(result="v0", dtype=DType.I64, buffer="index", index=(_I,)),
        Load(result="v1", dtype=DType.F32, buffer="x", index=(add(Symbol("v0"), 3),)),
        Store(buffer="out", index=(_I,), value="v1"),
    )
    nest = Nest(name="gather", axes=(Axis("i0", 300),), body=body)
    tensors = {"x": x, "index": index, "out": out}
    types = {name: type_of(tensor) for name, tensor in tensors.items()}
    assert LaneAnalysis(nest, types).choose() == Lanes(axis="i0")
    (built,) = build_kernels([kernel_of(nest, types)])
    built.launch([x, index, out])
    assert torch.equal(out, x[index + 3])


def _window(name: str, dtype: DType, columns: int, step: int = 2) -> Nest:
    """Return the largest elements of windows of 3, in steps, with a margin of 1."""
    at = add(add(mul(Symbol("i1"), step), Symbol("r0")), -1)
    most = Literal(result="least", dtype=dtype, value=False)
    if dtype is not DType.BOOL:
        most = evolve(most, value=float("-inf"))
    body = (
        Literal(result="zero", dtype=DType.I64, value=0),
        most,
        InnerLoop(
            axes=(Axis("r0", 3),),
            body=(
                IndexValue(result="at", dtype=DType.I64, expr=at),
                Apply(
                    result="is_inside",
                    dtype=DType.BOOL,
                    op=ScalarOp.GE,
                    operands=("at", "zero"),
                ),
                Load(
                    result="found",
                    dtype=dtype,
                    buffer="x",
                    index=(Symbol("i0"), at),
                    mask="is_inside",
                    other=most.value,
                ),
                Reduce(
                    results=("most",), dtype=dtype, op=ReduceOp.MAX, operands=("found",)
                ),
            ),
        ),
        Store(buffer="out", index=(Symbol("i0"), Symbol("i1")), value="most"),
    )
    return Nest(name=name, axes=(Axis("i0", _ROWS), Axis("i1", columns)), body=body)


def test_masked_loads_with_steps_are_read_before_the_lanes() -> None:
    """Compilers do not vectorise a loop with such loads."""
    cases: list[tuple[LoopKernel, torch.Tensor]] = []
    for dtype in (DType.F32, DType.F16, DType.F64, DType.BOOL):
        for columns in (9, 64, 200):
            x = torch.randn(_ROWS, 2 * columns + 1).gt(0)
            if dtype is not DType.BOOL:
                x = torch.randn(x.shape).to(getattr(torch, dtype.torch_name))
                x[0, :5] = torch.tensor([-0.0, 0.0, math.nan, 1, math.inf])
            out = x.new_empty(_ROWS, columns)
            types = {"x": type_of(x), "out": type_of(out)}
            nest = _window(f"window_{dtype.value}_{columns}", dtype, columns)
            lanes = LaneAnalysis(nest, types).choose()
            assert lanes == Lanes(axis="i1", apart=frozenset({"found"}))
            cases.append((kernel_of(nest, types), x))
    texts = [CppRenderer().render_kernel(kernel).source or "" for kernel, _ in cases]
    for text in texts:
        loops = text.split("#pragma omp simd")[1:]
        assert "t0[l]" in "".join(loops)
        assert not any("?" in loop.split("}")[0] and "p0[" in loop for loop in loops)
    built = build_kernels([kernel for kernel, _ in cases])
    for kernel, (_, x) in zip(built, cases, strict=True):
        columns = x.shape[1] // 2
        out = x.new_empty(_ROWS, columns)
        kernel.launch([x, out])
        padded = torch.nn.functional.pad(x.double(), (1, 0), value=-math.inf)
        wanted = padded.unfold(1, 3, 2)[:, :columns].amax(2)
        if x.dtype == torch.bool:
            wanted = wanted.gt(0)
        assert torch.equal(out.double().nan_to_num(7), wanted.double().nan_to_num(7))


def test_long_loops_of_few_lanes_stay_point_by_point() -> None:
    """Their lanes would be far apart in memory, and what they read in no cache."""
    nest = _window("window", DType.F32, 64, step=8)
    loop = nest.body[2]
    assert isinstance(loop, InnerLoop)
    types = {"x": type_of(torch.ones(_ROWS, 513)), "out": type_of(torch.ones(_ROWS, 64))}
    for extents in ((5, 5, 5), (7, 3, 3)):
        axes = tuple(Axis(f"r{n}", extent) for n, extent in enumerate(extents))
        body = (*nest.body[:2], evolve(loop, axes=axes), nest.body[3])
        assert LaneAnalysis(evolve(nest, body=body), types).choose().axis is (
            "i1" if math.prod(extents) <= 64 else None
        )


def test_what_two_loops_compute_is_kept_between_them() -> None:
    """Softmax, whose last loop computes each exponential again."""

    def shifted(prefix: str) -> tuple[Load, Apply, Apply]:
        at = (_I, Symbol(f"{prefix}0"))
        x, less, power = (f"{prefix}_{part}" for part in ("x", "less", "power"))
        return (
            Load(result=x, dtype=DType.F32, buffer="x", index=at),
            Apply(result=less, dtype=DType.F32, op=ScalarOp.SUB, operands=(x, "most")),
            Apply(result=power, dtype=DType.F32, op=ScalarOp.EXP, operands=(less,)),
        )

    def loop(prefix: str, *body: Instruction) -> InnerLoop:
        return InnerLoop(axes=(Axis(f"{prefix}0", 200),), body=body)

    load = Load(result="v", dtype=DType.F32, buffer="x", index=(_I, Symbol("a0")))
    most = Reduce(results=("most",), dtype=DType.F32, op=ReduceOp.MAX, operands=("v",))
    total = Reduce(
        results=("total",), dtype=DType.F32, op=ReduceOp.SUM, operands=("b_power",)
    )
    share = Apply(
        result="share", dtype=DType.F32, op=ScalarOp.DIV, operands=("c_power", "total")
    )
    store = Store(buffer="out", index=(_I, Symbol("c0")), value="share")
    body = (
        loop("a", load, most),
        loop("b", *shifted("b"), total),
        loop("c", *shifted("c"), share, store),
    )
    nest = Nest(name="softmax", axes=(Axis("i0", 5),), body=body)
    kept = find_rows(nest, (0, 1, 2))
    assert kept.stored == {"b_power": "row0"}
    assert kept.read == {"c_power": "row0"}
    x, out = torch.randn(5, 200), torch.zeros(5, 200)
    (built,) = build_kernels([kernel_of(nest, {"x": type_of(x), "out": type_of(out)})])
    built.launch([x, out])
    torch.testing.assert_close(out, x.softmax(1))
    overwriting = evolve(store, buffer="x")
    last = loop("c", *shifted("c"), share, overwriting)
    assert find_rows(evolve(nest, body=(*body[:2], last)), (0, 1, 2)).read == {}
