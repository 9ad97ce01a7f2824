"""Fused kernels as scheduled loop nests, and as functions of tensors."""

from collections.abc import Callable, Sequence

import torch
from attrs import field, frozen

from wrapperir.ir import Access, DType, Expr, Symbol, TensorType
from wrapperir.lowering.loops import (
    Apply,
    Axis,
    InnerLoop,
    Instruction,
    Literal,
    Load,
    Nest,
    Reduce,
    Step,
    Store,
)
from wrapperir.lowering.renderer import KernelBuffer, LoopKernel, Tiling
from wrapperir.lowering.scalar_op import COMPARISONS, ReduceOp, ScalarOp

_I, _J, _R = Symbol("i0"), Symbol("i1"), Symbol("r0")
ROWS, COLUMNS = 256, 1024


@frozen
class Body:
    """Instructions that are appended one after the other, and return their value."""

    steps: list[Step] = field(factory=list)
    prefix: str = "v"

    def _add(self, step: Instruction, result: str) -> str:
        self.steps.append(step)
        return result

    def load(self, buffer: str, *index: Expr, dtype: DType = DType.F32) -> str:
        name = f"{self.prefix}{len(self.steps)}"
        load = Load(result=name, dtype=dtype, buffer=buffer, index=index)
        value = self._add(load, name)
        return self.cast(value, DType.F32) if dtype is DType.BF16 else value

    def cast(self, value: str, dtype: DType) -> str:
        name = f"{self.prefix}{len(self.steps)}"
        step = Apply(result=name, dtype=dtype, op=ScalarOp.CAST, operands=(value,))
        return self._add(step, name)

    def apply(self, op: ScalarOp, *operands: str | float) -> str:
        values = [o if isinstance(o, str) else self.literal(o) for o in operands]
        name = f"{self.prefix}{len(self.steps)}"
        dtype = DType.BOOL if op in COMPARISONS else DType.F32
        step = Apply(result=name, dtype=dtype, op=op, operands=tuple(values))
        return self._add(step, name)

    def literal(self, value: float) -> str:
        name = f"{self.prefix}{len(self.steps)}"
        return self._add(Literal(result=name, dtype=DType.F32, value=value), name)

    def store(self, buffer: str, value: str, *index: Expr) -> None:
        self.steps.append(Store(buffer=buffer, index=index, value=value))

    def reduce(self, op: ReduceOp, *values: str, count: int = 1) -> tuple[str, ...]:
        names = tuple(f"{self.prefix}{len(self.steps)}_{n}" for n in range(count))
        step = Reduce(results=names, dtype=DType.F32, op=op, operands=values)
        self.steps.append(step)
        return names

    def loop(self, inner: "Body", extent: int) -> None:
        body = [step for step in inner.steps if not isinstance(step, InnerLoop)]
        self.steps.append(InnerLoop(axes=(Axis("r0", extent),), body=tuple(body)))


@frozen(kw_only=True)
class Case:
    """A function of tensors, its inputs, and a nest whose buffers are inputs and result."""

    name: str
    function: Callable[..., torch.Tensor]
    inputs: tuple[torch.Tensor, ...]
    nest: Nest

    def kernel(self) -> LoopKernel:
        """Return the nest's kernel; the last buffer is the result."""
        tensors = [*self.inputs, self.function(*self.inputs)]
        written = len(tensors) - 1
        return LoopKernel(
            name=self.nest.name,
            buffers=tuple(
                KernelBuffer(
                    name=f"b{n}",
                    type=type_of(tensor),
                    access=Access.WRITE if n == written else Access.READ,
                )
                for n, tensor in enumerate(tensors)
            ),
            nest=self.nest,
            tiling=Tiling(blocks=(tuple(axis.name for axis in self.nest.axes),)),
        )


def type_of(tensor: torch.Tensor) -> TensorType:
    """Return a tensor's type, without its offset."""
    (dtype,) = (d for d in DType if getattr(torch, d.torch_name) == tensor.dtype)
    return TensorType(dtype=dtype, size=tuple(tensor.shape), stride=tuple(tensor.stride()))


def _nest(name: str, body: Body, *extents: int) -> Nest:
    axes = tuple(Axis(f"i{n}", extent) for n, extent in enumerate(extents))
    return Nest(name=name, axes=axes, body=tuple(body.steps))


def _gelu() -> Case:
    b = Body()
    x = b.apply(ScalarOp.ADD, b.load("b0", _I, _J), b.load("b1", _J))
    erf = b.apply(ScalarOp.ERF, b.apply(ScalarOp.MUL, x, 0.7071067811865476))
    half = b.apply(ScalarOp.MUL, x, 0.5)
    b.store("b2", b.apply(ScalarOp.MUL, half, b.apply(ScalarOp.ADD, erf, 1.0)), _I, _J)
    return Case(
        name="gelu(x + b)",
        function=lambda x, bias: torch.nn.functional.gelu(x + bias),
        inputs=(torch.randn(ROWS, COLUMNS), torch.randn(COLUMNS)),
        nest=_nest("gelu", b, ROWS, COLUMNS),
    )


def _layer_norm(*, is_welford: bool) -> Case:
    b = Body()

    def summed(inner: Body) -> str:
        return inner.apply(ScalarOp.ADD, inner.load("b0", _I, _R), inner.load("b1", _I, _R))

    first = Body(prefix="p")
    if is_welford:
        mean, squares, _ = first.reduce(ReduceOp.WELFORD, summed(first), count=3)
        b.loop(first, COLUMNS)
    else:
        (total,) = first.reduce(ReduceOp.SUM, summed(first))
        b.loop(first, COLUMNS)
        mean = b.apply(ScalarOp.DIV, total, float(COLUMNS))
        second = Body(prefix="q")
        less = second.apply(ScalarOp.SUB, summed(second), mean)
        (squares,) = second.reduce(ReduceOp.SUM, second.apply(ScalarOp.MUL, less, less))
        b.loop(second, COLUMNS)
    variance = b.apply(ScalarOp.DIV, squares, float(COLUMNS))
    scale = b.apply(ScalarOp.RSQRT, b.apply(ScalarOp.ADD, variance, 1e-5))
    last = Body(prefix="s")
    less = last.apply(ScalarOp.SUB, summed(last), mean)
    scaled = last.apply(
        ScalarOp.MUL, last.apply(ScalarOp.MUL, less, scale), last.load("b2", _R)
    )
    last.store("b4", last.apply(ScalarOp.ADD, scaled, last.load("b3", _R)), _I, _R)
    b.loop(last, COLUMNS)
    return Case(
        name=f"layer norm with residual ({'Welford' if is_welford else 'two sums'})",
        function=lambda x, y, w, v: torch.nn.functional.layer_norm(x + y, (COLUMNS,), w, v),
        inputs=(*torch.randn(2, ROWS, COLUMNS), *torch.randn(2, COLUMNS)),
        nest=_nest(f"norm_{is_welford}", b, ROWS),
    )


def _softmax() -> Case:
    b, first, second, last = Body(), Body(prefix="p"), Body(prefix="q"), Body(prefix="s")
    (most,) = first.reduce(ReduceOp.MAX, first.load("b0", _I, _R))
    b.loop(first, COLUMNS)
    x = second.apply(
        ScalarOp.EXP, second.apply(ScalarOp.SUB, second.load("b0", _I, _R), most)
    )
    (total,) = second.reduce(ReduceOp.SUM, x)
    b.loop(second, COLUMNS)
    x = last.apply(ScalarOp.EXP, last.apply(ScalarOp.SUB, last.load("b0", _I, _R), most))
    last.store("b1", last.apply(ScalarOp.DIV, x, total), _I, _R)
    b.loop(last, COLUMNS)
    return Case(
        name="softmax",
        function=lambda x: torch.softmax(x, 1),
        inputs=(torch.randn(ROWS, COLUMNS),),
        nest=_nest("softmax", b, ROWS),
    )


def _sum(*, is_outer: bool) -> Case:
    b, inner = Body(), Body(prefix="p")
    at = (_R, _I) if is_outer else (_I, _R)
    (total,) = inner.reduce(ReduceOp.SUM, inner.load("b0", *at))
    b.loop(inner, ROWS if is_outer else COLUMNS)
    b.store("b1", total, _I)
    return Case(
        name="sum of columns" if is_outer else "sum of rows",
        function=lambda x: x.sum(0 if is_outer else 1),
        inputs=(torch.randn(ROWS, COLUMNS),),
        nest=_nest(f"sum_{is_outer}", b, COLUMNS if is_outer else ROWS),
    )


def _relu() -> Case:
    b = Body()
    x = b.apply(ScalarOp.ADD, b.load("b0", _I, _J), b.load("b1", _J))
    b.store("b2", b.apply(ScalarOp.MAXIMUM, x, 0.0), _I, _J)
    return Case(
        name="relu(x + b)",
        function=lambda x, bias: torch.relu(x + bias),
        inputs=(torch.randn(ROWS, COLUMNS), torch.randn(COLUMNS)),
        nest=_nest("relu", b, ROWS, COLUMNS),
    )


def _half(dtype: DType) -> Case:
    b = Body()
    x, y = b.load("b0", _I, dtype=dtype), b.load("b1", _I, dtype=dtype)
    if dtype is DType.F16:
        x, y = b.cast(x, DType.F32), b.cast(y, DType.F32)
    product = b.apply(ScalarOp.ADD, b.apply(ScalarOp.MUL, x, y), y)
    away = b.apply(ScalarOp.EXP, b.apply(ScalarOp.NEG, product))
    sigmoid = b.apply(ScalarOp.DIV, b.literal(1.0), b.apply(ScalarOp.ADD, away, 1.0))
    b.store("b2", b.cast(sigmoid, dtype), _I)
    kind = getattr(torch, dtype.torch_name)
    return Case(
        name=f"sigmoid(x y + y) of {dtype.value}",
        function=lambda x, y: torch.sigmoid(x * y + y),
        inputs=(*torch.randn(2, ROWS * COLUMNS, dtype=kind),),
        nest=_nest(f"sigmoid_{dtype.value}", b, ROWS * COLUMNS),
    )


def _transpose() -> Case:
    b = Body()
    x = b.apply(ScalarOp.ADD, b.load("b0", _I, _J), b.load("b1", _J, _I))
    b.store("b2", x, _I, _J)
    return Case(
        name="x + y.t()",
        function=lambda x, y: x + y.t(),
        inputs=(torch.randn(ROWS, COLUMNS), torch.randn(COLUMNS, ROWS)),
        nest=_nest("transpose", b, ROWS, COLUMNS),
    )


def _embedding() -> Case:
    b = Body()
    place = b.load("b1", _I, dtype=DType.I64)
    row = b.load("b0", Symbol(place), _J)
    b.store("b3", b.apply(ScalarOp.ADD, row, b.load("b2", _I, _J)), _I, _J)
    return Case(
        name="table[index] + x",
        function=lambda table, index, x: table[index] + x,
        inputs=(
            torch.randn(5000, 256),
            torch.randint(0, 5000, (COLUMNS,)),
            torch.randn(COLUMNS, 256),
        ),
        nest=_nest("embedding", b, COLUMNS, 256),
    )


def _trigonometry() -> Case:
    b = Body()
    x = b.load("b0", _I)
    product = b.apply(ScalarOp.MUL, b.apply(ScalarOp.SIN, x), b.apply(ScalarOp.COS, x))
    b.store("b1", product, _I)
    return Case(
        name="sin(x) cos(x)",
        function=lambda x: torch.sin(x) * torch.cos(x),
        inputs=(torch.randn(ROWS * COLUMNS),),
        nest=_nest("trigonometry", b, ROWS * COLUMNS),
    )


def _argmax() -> Case:
    b, inner = Body(), Body(prefix="p")
    (place,) = inner.reduce(ReduceOp.ARGMAX, inner.load("b0", _I, _R))
    b.loop(inner, COLUMNS)
    b.store("b1", place, _I)
    return Case(
        name="argmax of rows",
        function=lambda x: x.argmax(1),
        inputs=(torch.randn(ROWS, COLUMNS),),
        nest=_nest("argmax", b, ROWS),
    )


def all_cases() -> Sequence[Case]:
    """Return the cases."""
    return (
        _gelu(),
        _layer_norm(is_welford=False),
        _layer_norm(is_welford=True),
        _softmax(),
        _sum(is_outer=True),
        _sum(is_outer=False),
        _relu(),
        _half(DType.BF16),
        _half(DType.F16),
        _transpose(),
        _embedding(),
        _trigonometry(),
        _argmax(),
    )
