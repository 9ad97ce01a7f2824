"""Measure the scheduling of large graphs: milliseconds a nest.

The graph is a chain of transformer-like layers: sums with a residual, layer norms,
softmax, activations, biases and transposes between calls of products, as nests of one
operator each.  Run as ``python -m bench.lowering.scheduling [nests ...]``.
"""

import sys
import time

from attrs import define, field

from wrapperir.ir import DType, Expr, NodeOrigin, Symbol, TensorType, tensor
from wrapperir.lowering.loops import (
    Apply,
    Axis,
    BufferView,
    ExternCall,
    InnerLoop,
    Item,
    Load,
    LoopGraph,
    Nest,
    Reduce,
    Step,
    Store,
)
from wrapperir.lowering.scalar_op import ReduceOp, ScalarOp
from wrapperir.lowering.schedule import launched_kernels, plan_kernels

_BATCH, _LENGTH, _WIDTH, _HEADS = 8, 128, 256, 4
_SIZE: tuple[Expr, ...] = (_BATCH, _LENGTH, _WIDTH)


@define
class Layers:
    """Builds a graph, a nest for each operator."""

    buffers: dict[str, TensorType] = field(factory=dict[str, TensorType])
    inputs: list[str] = field(factory=list[str])
    items: list[Item] = field(factory=list[Item])

    def input(self, size: tuple[Expr, ...]) -> str:
        """Return a new input."""
        name = self._buffer(size)
        self.inputs.append(name)
        return name

    def _buffer(self, size: tuple[Expr, ...]) -> str:
        name = f"b{len(self.buffers)}"
        self.buffers[name] = tensor(DType.F32, size)
        return name

    def pointwise(self, op: ScalarOp, *operands: str) -> str:
        """Return the result of an operator on elements; operands are broadcast."""
        size = max((self.buffers[name].size for name in operands), key=_volume)
        axes = _axes(size)
        body: list[Step] = []
        for number, name in enumerate(operands):
            shape = self.buffers[name].size
            point = [Symbol(axis.name) for axis in axes[len(axes) - len(shape) :]]
            index = tuple(0 if n == 1 else at for n, at in zip(shape, point, strict=True))
            body.append(
                Load(result=f"x{number}", dtype=DType.F32, buffer=name, index=index)
            )
        values = tuple(f"x{number}" for number in range(len(operands)))
        body.append(Apply(result="y", dtype=DType.F32, op=op, operands=values))
        result = self._buffer(size)
        body.append(Store(buffer=result, index=_point(axes), value="y"))
        self._add(axes, body, f"aten.{op.value}.Tensor")
        return result

    def reduce(self, op: ReduceOp, operand: str) -> str:
        """Return the reduction of the last dimension, which is kept."""
        axes = _axes(self.buffers[operand].size)
        loop = InnerLoop(
            axes=axes[-1:],
            body=(
                Load(result="x", dtype=DType.F32, buffer=operand, index=_point(axes)),
                Reduce(results=("y",), dtype=DType.F32, op=op, operands=("x",)),
            ),
        )
        result = self._buffer((*(axis.extent for axis in axes[:-1]), 1))
        store = Store(buffer=result, index=(*_point(axes[:-1]), 0), value="y")
        self._add(axes[:-1], [loop, store], f"aten.{op.value}.dim")
        return result

    def split_heads(self, operand: str) -> str:
        """Return ``[b, l, h * d]`` as ``[b, h, l, d]``, copied."""
        width = _WIDTH // _HEADS
        result = self._buffer((_BATCH, _HEADS, _LENGTH, width))
        axes = _axes(self.buffers[result].size)
        b, h, row, d = _point(axes)
        body: list[Step] = [
            Load(
                result="x", dtype=DType.F32, buffer=operand, index=(b, row, h * width + d)
            ),
            Store(buffer=result, index=(b, h, row, d), value="x"),
        ]
        self._add(axes, body, "aten.clone.default")
        return result

    def call(self, size: tuple[Expr, ...], *operands: str) -> str:
        """Return the result of an operator that has no loops."""
        result = self._buffer(size)
        arguments = tuple(
            (name, BufferView(buffer=name, type=self.buffers[name])) for name in operands
        )
        name = f"n{len(self.items)}"
        self.items.append(ExternCall(name=name, arguments=arguments, writes=(result,)))
        return result

    def _add(self, axes: tuple[Axis, ...], body: list[Step], operator: str) -> None:
        name = f"n{len(self.items)}"
        origins = (NodeOrigin(name=name, operator=operator),)
        self.items.append(Nest(name=name, axes=axes, body=tuple(body), origins=origins))

    def norm(self, x: str) -> str:
        """Return a layer norm."""
        mean = self.pointwise(ScalarOp.ABS, self.reduce(ReduceOp.SUM, x))
        centred = self.pointwise(ScalarOp.SUB, x, mean)
        square = self.pointwise(ScalarOp.MUL, centred, centred)
        scale = self.pointwise(ScalarOp.RSQRT, self.reduce(ReduceOp.SUM, square))
        scaled = self.pointwise(ScalarOp.MUL, centred, scale)
        weighted = self.pointwise(ScalarOp.MUL, scaled, self.input((_WIDTH,)))
        return self.pointwise(ScalarOp.ADD, weighted, self.input((_WIDTH,)))

    def softmax(self, x: str) -> str:
        """Return a softmax."""
        shifted = self.pointwise(ScalarOp.SUB, x, self.reduce(ReduceOp.MAX, x))
        power = self.pointwise(ScalarOp.EXP, shifted)
        return self.pointwise(ScalarOp.DIV, power, self.reduce(ReduceOp.SUM, power))

    def layer(self, x: str) -> str:
        """Return a layer's result: attention and two products."""
        normed = self.norm(x)
        heads = [
            self.split_heads(
                self.pointwise(
                    ScalarOp.ADD, self.call(_SIZE, normed), self.input((_WIDTH,))
                )
            )
            for _ in range(3)
        ]
        scores = self.call((_BATCH, _HEADS, _LENGTH, _LENGTH), heads[0], heads[1])
        mixed = self.call(_SIZE, self.softmax(scores), heads[2])
        x = self.pointwise(ScalarOp.ADD, x, mixed)
        hidden = self.call(_SIZE, self.norm(x))
        for op in (ScalarOp.ABS, ScalarOp.TANH, ScalarOp.EXP, ScalarOp.NEG):
            hidden = self.pointwise(ScalarOp.MUL, hidden, self.pointwise(op, hidden))
        return self.pointwise(ScalarOp.ADD, x, self.call(_SIZE, hidden))


def _volume(size: tuple[Expr, ...]) -> tuple[int, int]:
    total = 1
    for extent in size:
        assert isinstance(extent, int)
        total *= extent
    return total, len(size)


def _axes(size: tuple[Expr, ...]) -> tuple[Axis, ...]:
    return tuple(Axis(f"i{n}", extent) for n, extent in enumerate(size))


def _point(axes: tuple[Axis, ...]) -> tuple[Symbol, ...]:
    return tuple(Symbol(axis.name) for axis in axes)


def layered_graph(nests: int) -> LoopGraph:
    """Return a graph of at least so many nests."""
    layers = Layers()
    x = layers.input(_SIZE)
    while sum(isinstance(item, Nest) for item in layers.items) < nests:
        x = layers.layer(x)
    return LoopGraph(
        buffers=layers.buffers,
        inputs=tuple(layers.inputs),
        items=tuple(layers.items),
        outputs=((x, BufferView(buffer=x, type=layers.buffers[x])),),
    )


def main(counts: list[int]) -> None:
    """Print the time for each size of graph."""
    for count in counts:
        graph = layered_graph(count)
        nests = sum(isinstance(item, Nest) for item in graph.items)
        begin = time.perf_counter()
        schedule = plan_kernels(graph)
        seconds = time.perf_counter() - begin
        launches = sum(not isinstance(item, ExternCall) for item in schedule.items)
        kernels = len(launched_kernels(schedule.items))
        print(
            f"{nests} nests: {seconds:.2f} s, {seconds / nests * 1e3:.2f} ms a nest, "
            f"{launches} launches of {kernels} kernels"
        )


if __name__ == "__main__":
    main([int(arg) for arg in sys.argv[1:]] or [200, 2_000, 20_000])
