"""Fused GPU kernels as loop nests of any size, and as functions of tensors."""

from collections.abc import Callable, Iterator, Mapping

import torch
from attrs import evolve, frozen

from bench.lowering.kernel_cases import Body, type_of
from wrapperir.ir import Device, DType, Symbol
from wrapperir.lowering.loops import (
    Axis,
    BufferView,
    InnerLoop,
    LoopGraph,
    Nest,
    Scan,
    Step,
    Store,
    StoreMode,
)
from wrapperir.lowering.scalar_op import ReduceOp, ScalarOp

_I, _J, _R = Symbol("i0"), Symbol("i1"), Symbol("r0")
_KINDS = {DType.F32: torch.float32, DType.BF16: torch.bfloat16}


@frozen(kw_only=True)
class GpuCase:
    """A function, the shapes of its inputs, and a nest over them and the result.

    ``shapes`` are of the inputs ``b0`` and so on; numbers below ``places`` are drawn where
    a shape is of whole numbers.  The result's buffer has the name after the inputs'.
    """

    name: str
    function: Callable[..., torch.Tensor]
    shapes: tuple[tuple[tuple[int, ...], torch.dtype], ...]
    body: tuple[Step, ...]
    extents: tuple[int, ...]
    places: int = 1
    is_added: bool = False

    def tensors(self, device: str) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Return inputs, and a result that is empty, or zero if it is added to."""
        inputs = [
            torch.randint(0, self.places, shape, device=device)
            if kind is torch.int64
            else torch.randn(shape, device=device, dtype=kind)
            for shape, kind in self.shapes
        ]
        with torch.device("meta"):
            given = [torch.empty_like(tensor, device="meta") for tensor in inputs]
            result = self.function(*given)
        return inputs, torch.zeros(result.shape, dtype=result.dtype, device=device)

    def graph(self) -> LoopGraph:
        """Return the nest as a graph of buffers on a GPU."""
        inputs, result = self.tensors("meta")
        names = [f"b{n}" for n in range(len(inputs))]
        out = f"b{len(names)}"
        types = {
            name: evolve(type_of(tensor), device=Device("cuda"))
            for name, tensor in zip((*names, out), (*inputs, result), strict=True)
        }
        axes = tuple(Axis(f"i{n}", extent) for n, extent in enumerate(self.extents))
        name = "".join(c if c.isalnum() else "_" for c in self.name)
        return LoopGraph(
            buffers=types,
            inputs=(*names, out) if self.is_added else tuple(names),
            items=(Nest(name=name, axes=axes, body=self.body),),
            outputs=((out, BufferView(buffer=out, type=types[out])),),
        )


def _title(name: str, *size: int, dtype: DType = DType.F32) -> str:
    return f"{name} {'x'.join(map(str, size))} {dtype.value}"


def _stored(b: Body, buffer: str, value: str, dtype: DType, *index: Symbol) -> None:
    b.store(buffer, b.cast(value, dtype) if dtype is not DType.F32 else value, *index)


def _gelu(rows: int, columns: int, dtype: DType) -> GpuCase:
    b = Body()
    left, right = b.load("b0", _I, _J, dtype=dtype), b.load("b1", _J, dtype=dtype)
    x = b.apply(ScalarOp.ADD, left, right)
    erf = b.apply(ScalarOp.ERF, b.apply(ScalarOp.MUL, x, 0.7071067811865476))
    half = b.apply(ScalarOp.MUL, x, 0.5)
    value = b.apply(ScalarOp.MUL, half, b.apply(ScalarOp.ADD, erf, 1.0))
    _stored(b, "b2", value, dtype, _I, _J)
    kind = _KINDS[dtype]
    return GpuCase(
        name=_title("gelu(x+b)", rows, columns, dtype=dtype),
        function=lambda x, bias: torch.nn.functional.gelu(x + bias),
        shapes=(((rows, columns), kind), ((columns,), kind)),
        body=tuple(b.steps),
        extents=(rows, columns),
    )


def _transpose(rows: int, columns: int, dtype: DType) -> GpuCase:
    b = Body()
    left, right = b.load("b0", _I, _J, dtype=dtype), b.load("b1", _J, _I, dtype=dtype)
    _stored(b, "b2", b.apply(ScalarOp.ADD, left, right), dtype, _I, _J)
    kind = _KINDS[dtype]
    return GpuCase(
        name=_title("x+y.t()", rows, columns, dtype=dtype),
        function=lambda x, y: x + y.t(),
        shapes=(((rows, columns), kind), ((columns, rows), kind)),
        body=tuple(b.steps),
        extents=(rows, columns),
    )


def _softmax(rows: int, columns: int, dtype: DType) -> GpuCase:
    b, first, second, last = Body(), Body(prefix="p"), Body(prefix="q"), Body(prefix="s")
    (most,) = first.reduce(ReduceOp.MAX, first.load("b0", _I, _R, dtype=dtype))
    b.loop(first, columns)
    less = second.apply(ScalarOp.SUB, second.load("b0", _I, _R, dtype=dtype), most)
    (total,) = second.reduce(ReduceOp.SUM, second.apply(ScalarOp.EXP, less))
    b.loop(second, columns)
    less = last.apply(ScalarOp.SUB, last.load("b0", _I, _R, dtype=dtype), most)
    value = last.apply(ScalarOp.DIV, last.apply(ScalarOp.EXP, less), total)
    _stored(last, "b1", value, dtype, _I, _R)
    b.loop(last, columns)
    return GpuCase(
        name=_title("softmax", rows, columns, dtype=dtype),
        function=lambda x: torch.softmax(x, 1),
        shapes=(((rows, columns), _KINDS[dtype]),),
        body=tuple(b.steps),
        extents=(rows,),
    )


def _online_softmax(rows: int, columns: int, dtype: DType) -> GpuCase:
    b, first, last = Body(), Body(prefix="p"), Body(prefix="s")
    value = first.load("b0", _I, _R, dtype=dtype)
    most, total = first.reduce(ReduceOp.ONLINE_SOFTMAX, value, count=2)
    b.loop(first, columns)
    less = last.apply(ScalarOp.SUB, last.load("b0", _I, _R, dtype=dtype), most)
    value = last.apply(ScalarOp.DIV, last.apply(ScalarOp.EXP, less), total)
    _stored(last, "b1", value, dtype, _I, _R)
    b.loop(last, columns)
    return GpuCase(
        name=_title("online softmax", rows, columns, dtype=dtype),
        function=lambda x: torch.softmax(x, 1),
        shapes=(((rows, columns), _KINDS[dtype]),),
        body=tuple(b.steps),
        extents=(rows,),
    )


def _layer_norm(rows: int, columns: int, dtype: DType) -> GpuCase:
    b, first, last = Body(), Body(prefix="p"), Body(prefix="s")

    def summed(inner: Body) -> str:
        left = inner.load("b0", _I, _R, dtype=dtype)
        return inner.apply(ScalarOp.ADD, left, inner.load("b1", _I, _R, dtype=dtype))

    mean, squares, _ = first.reduce(ReduceOp.WELFORD, summed(first), count=3)
    b.loop(first, columns)
    variance = b.apply(ScalarOp.DIV, squares, float(columns))
    scale = b.apply(ScalarOp.RSQRT, b.apply(ScalarOp.ADD, variance, 1e-5))
    value = last.apply(ScalarOp.SUB, summed(last), mean)
    value = last.apply(ScalarOp.MUL, value, scale)
    value = last.apply(ScalarOp.MUL, value, last.load("b2", _R, dtype=dtype))
    value = last.apply(ScalarOp.ADD, value, last.load("b3", _R, dtype=dtype))
    _stored(last, "b4", value, dtype, _I, _R)
    b.loop(last, columns)
    kind = _KINDS[dtype]
    return GpuCase(
        name=_title("layer norm(x+y)", rows, columns, dtype=dtype),
        function=lambda x, y, w, v: torch.nn.functional.layer_norm(x + y, (columns,), w, v),
        shapes=(
            *(((rows, columns), kind) for _ in range(2)),
            *(((columns,), kind) for _ in range(2)),
        ),
        body=tuple(b.steps),
        extents=(rows,),
    )


def _sum(rows: int, columns: int, dtype: DType, *, is_outer: bool) -> GpuCase:
    b, inner = Body(), Body(prefix="p")
    at = (_R, _I) if is_outer else (_I, _R)
    (total,) = inner.reduce(ReduceOp.SUM, inner.load("b0", *at, dtype=dtype))
    b.loop(inner, rows if is_outer else columns)
    _stored(b, "b1", total, dtype, _I)
    name = "sum of columns" if is_outer else "sum of rows"
    return GpuCase(
        name=_title(name, rows, columns, dtype=dtype),
        function=lambda x: x.sum(0 if is_outer else 1),
        shapes=(((rows, columns), _KINDS[dtype]),),
        body=tuple(b.steps),
        extents=(columns if is_outer else rows,),
    )


def _cumsum(rows: int, columns: int) -> GpuCase:
    b = Body(prefix="p")
    scan = Scan(
        results=("c",), dtype=DType.F32, op=ReduceOp.SUM, operands=(b.load("b0", _I, _R),)
    )
    store = Store(buffer="b1", index=(_I, _R), value="c")
    body = [step for step in b.steps if not isinstance(step, InnerLoop)]
    loop = InnerLoop(axes=(Axis("r0", columns),), body=(*body, scan, store))
    return GpuCase(
        name=_title("cumsum", rows, columns),
        function=lambda x: x.cumsum(1),
        shapes=(((rows, columns), torch.float32),),
        body=(loop,),
        extents=(rows,),
    )


def _argmax(rows: int, columns: int) -> GpuCase:
    b, inner = Body(), Body(prefix="p")
    (place,) = inner.reduce(ReduceOp.ARGMAX, inner.load("b0", _I, _R))
    b.loop(inner, columns)
    b.store("b1", place, _I)
    return GpuCase(
        name=_title("argmax", rows, columns),
        function=lambda x: x.argmax(1),
        shapes=(((rows, columns), torch.float32),),
        body=tuple(b.steps),
        extents=(rows,),
    )


def _embedding(rows: int, columns: int, table: int) -> GpuCase:
    b = Body()
    place = b.load("b1", _I, dtype=DType.I64)
    row = b.load("b0", Symbol(place), _J)
    b.store("b3", b.apply(ScalarOp.ADD, row, b.load("b2", _I, _J)), _I, _J)
    kind = torch.float32
    return GpuCase(
        name=_title("table[index]+x", rows, columns),
        function=lambda table, index, x: table[index] + x,
        shapes=(((table, columns), kind), ((rows,), torch.int64), ((rows, columns), kind)),
        body=tuple(b.steps),
        extents=(rows, columns),
        places=table,
    )


def _scatter(rows: int, columns: int, table: int) -> GpuCase:
    b = Body()
    place = b.load("b0", _I, dtype=DType.I64)
    value = b.load("b1", _I, _J)
    add = Store(buffer="b2", index=(Symbol(place), _J), value=value, mode=StoreMode.ADD)
    kind = torch.float32
    return GpuCase(
        name=_title("embedding backward", rows, columns),
        function=lambda index, x: x.new_zeros(table, columns).index_add(0, index, x),
        shapes=(((rows,), torch.int64), ((rows, columns), kind)),
        body=(*b.steps, add),
        extents=(rows, columns),
        places=table,
        is_added=True,
    )


def gpu_cases() -> Iterator[GpuCase]:
    """Yield the cases; most are of tensors larger than a GPU's caches."""
    f32, bf16 = DType.F32, DType.BF16
    for dtype in (f32, bf16):
        yield _gelu(8192, 8192, dtype)
        yield _gelu(256, 1024, dtype)
        yield _transpose(8192, 8192, dtype)
        yield _softmax(65536, 256, dtype)
        yield _softmax(32768, 1024, dtype)
        yield _softmax(16384, 4096, dtype)
        yield _softmax(2048, 50257, dtype)
        yield _online_softmax(2048, 50257, dtype)
        yield _layer_norm(32768, 768, dtype)
        yield _layer_norm(8192, 4096, dtype)
        yield _layer_norm(2048, 16384, dtype)
        yield _layer_norm(64, 1024, dtype)
        yield _sum(8192, 8192, dtype, is_outer=False)
        yield _sum(8192, 8192, dtype, is_outer=True)
        yield _sum(256, 1 << 18, dtype, is_outer=True)
        yield _sum(1, 1 << 26, dtype, is_outer=False)
    yield _cumsum(8192, 4096)
    yield _cumsum(64, 1 << 18)
    yield _argmax(4096, 32000)
    yield _embedding(32768, 1024, 50000)
    yield _scatter(32768, 1024, 50000)


def least_bytes(case: GpuCase) -> int:
    """Return the bytes that a kernel must read and write; a gather reads what it writes."""
    inputs, result = case.tensors("meta")
    sizes: Mapping[int, int] = {
        n: tensor.numel() * tensor.element_size() for n, tensor in enumerate(inputs)
    }
    written = result.numel() * result.element_size()
    if case.places > 1 and not case.is_added:
        return written + sum(sizes.values()) - sizes[0] + written
    return written + sum(sizes.values())
