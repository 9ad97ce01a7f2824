"""Draw graphs as a frontend makes them: a nest for each operator, views as indices."""

from attrs import define, field, frozen
from hypothesis import strategies as st

from wrapperir.ir import (
    DType,
    Expr,
    Operation,
    Symbol,
    TensorType,
    contiguous_stride,
    floordiv,
    mod,
    mul,
)
from wrapperir.lowering.loops import (
    Apply,
    Axis,
    BufferView,
    ExternCall,
    IndexValue,
    InnerLoop,
    Instruction,
    Item,
    Literal,
    Load,
    LoopGraph,
    Nest,
    Reduce,
    Scan,
    Step,
    Store,
    StoreMode,
)
from wrapperir.lowering.scalar_op import ReduceOp, ScalarOp

Draw = st.DrawFn


@frozen
class View:
    """A tensor: a buffer, and its index as expressions over ``d0``, ``d1`` …"""

    buffer: str
    size: tuple[Expr, ...]
    index: tuple[Expr, ...]

    def at(self, point: tuple[Expr, ...]) -> tuple[Expr, ...]:
        values = {f"d{n}": part for n, part in enumerate(point)}
        return tuple(_substituted(part, values) for part in self.index)


def _substituted(expr: Expr, values: dict[str, Expr]) -> Expr:
    if isinstance(expr, Symbol):
        return values.get(expr.name, expr)
    if isinstance(expr, Operation):
        return Operation(expr.op, tuple(_substituted(arg, values) for arg in expr.args))
    return expr


def _dims(count: int) -> tuple[Expr, ...]:
    return tuple(Symbol(f"d{n}") for n in range(count))


@define
class Maker:
    """Adds items to a graph."""

    draw: Draw
    buffers: dict[str, TensorType] = field(factory=dict[str, TensorType])
    inputs: list[str] = field(factory=list[str])
    items: list[Item] = field(factory=list[Item])
    tensors: list[View] = field(factory=list[View])

    def buffer(self, size: tuple[Expr, ...], permuted: bool = False) -> View:
        name = f"b{len(self.buffers)}"
        stride = contiguous_stride(size)
        if permuted and len(size) > 1:
            stride = tuple(reversed(contiguous_stride(tuple(reversed(size)))))
        self.buffers[name] = TensorType(dtype=DType.F64, size=size, stride=stride)
        return View(name, size, _dims(len(size)))

    def input(self, size: tuple[Expr, ...]) -> None:
        view = self.buffer(size, permuted=self.draw(st.booleans()))
        self.inputs.append(view.buffer)
        self.tensors.append(view)

    def pick(self) -> View:
        return self.draw(st.sampled_from(self.tensors[-6:]))

    def view(self) -> None:
        """Add a view of a tensor: permuted, split, merged, sliced or flipped."""
        old = self.pick()
        size, dims = list(old.size), list(_dims(len(old.size)))
        kind = self.draw(st.sampled_from(["permute", "merge", "split", "slice", "flip"]))
        if kind == "permute" and len(size) > 1:
            order = self.draw(st.permutations(range(len(size))))
            point: list[Expr] = [Symbol("")] * len(size)
            for place, dim in enumerate(order):
                point[dim] = Symbol(f"d{place}")
            size = [size[dim] for dim in order]
        elif kind == "merge" and len(size) > 1:
            inner = size[1]
            point = [floordiv(dims[0], inner), mod(dims[0], inner), *dims[1:-1]]
            size = [mul(size[0], inner), *size[2:]]
        elif kind == "split" and size and size[0] == 6:
            point = [mul(dims[0], 3) + Symbol("d1")]
            point += [Symbol(f"d{n + 1}") for n in range(1, len(size))]
            size = [2, 3, *size[1:]]
        elif kind == "slice" and size and isinstance(size[-1], int) and size[-1] > 2:
            point = [*dims[:-1], dims[-1] + 1]
            size[-1] = size[-1] - 1
        elif kind == "flip" and size:
            point = [*dims[:-1], size[-1] - 1 - dims[-1]]
        else:
            return
        self.tensors.append(View(old.buffer, tuple(size), old.at(tuple(point))))

    def add_nest(
        self, axes: tuple[Axis, ...], body: list[Step], result: View | None
    ) -> None:
        self.items.append(Nest(name=f"n{len(self.items)}", axes=axes, body=tuple(body)))
        if result is not None:
            self.tensors.append(result)

    def load(self, view: View, point: tuple[Expr, ...], name: str) -> Load:
        return Load(result=name, dtype=DType.F64, buffer=view.buffer, index=view.at(point))

    def pointwise(self) -> None:
        """Add a nest for an operator on one or two tensors, broadcast."""
        left, right = self.pick(), self.pick()
        axes = _axes(left.size)
        point = _point(axes)
        body: list[Step] = [self.load(left, point, "x")]
        at = _broadcast(right.size, left.size, point)
        if at is None:
            body.append(Literal(result="y", dtype=DType.F64, value=2.0))
        else:
            body.append(self.load(right, at, "y"))
        op = self.draw(
            st.sampled_from(
                [ScalarOp.ADD, ScalarOp.SUB, ScalarOp.MAXIMUM, ScalarOp.MINIMUM]
            )
        )
        body.append(Apply(result="z", dtype=DType.F64, op=op, operands=("x", "y")))
        result = self.buffer(left.size, permuted=self.draw(st.integers(0, 4)) == 0)
        body.append(Store(buffer=result.buffer, index=point, value="z"))
        self.add_nest(axes, body, result)

    def constant(self) -> None:
        """Add a nest that stores positions."""
        size = self.pick().size
        axes = _axes(size)
        total: Expr = 0
        for axis in axes:
            total = mul(total, 3) + Symbol(axis.name)
        result = self.buffer(size)
        body: list[Step] = [
            IndexValue(result="x", dtype=DType.F64, expr=total),
            Store(buffer=result.buffer, index=_point(axes), value="x"),
        ]
        self.add_nest(axes, body, result)

    def reduce(self) -> None:
        """Add a reduction over some dimensions; the result keeps them, with size 1."""
        source = self.pick()
        if not source.size:
            return
        dims = self.draw(
            st.sets(st.integers(0, len(source.size) - 1), min_size=1, max_size=2)
        )
        axes = _axes(source.size)
        op = self.draw(st.sampled_from([ReduceOp.SUM, ReduceOp.MAX, ReduceOp.ARGMAX]))
        inner = tuple(axis for n, axis in enumerate(axes) if n in dims)
        outer = tuple(axis for n, axis in enumerate(axes) if n not in dims)
        size = tuple(1 if n in dims else extent for n, extent in enumerate(source.size))
        result = self.buffer(size)
        index: list[Expr] = [
            0 if n in dims else Symbol(axis.name) for n, axis in enumerate(axes)
        ]
        loop: list[Instruction] = [
            self.load(source, _point(axes), "x"),
            Reduce(results=("y",), dtype=DType.F64, op=op, operands=("x",)),
        ]
        body: list[Step] = [InnerLoop(axes=inner, body=tuple(loop))]
        if op is ReduceOp.ARGMAX:
            body.append(
                Apply(result="z", dtype=DType.F64, op=ScalarOp.CAST, operands=("y",))
            )
        value = "z" if op is ReduceOp.ARGMAX else "y"
        body.append(Store(buffer=result.buffer, index=tuple(index), value=value))
        self.add_nest(outer, body, result)

    def scan(self) -> None:
        """Add a cumulative sum along the last dimension."""
        source = self.pick()
        if not source.size:
            return
        axes = _axes(source.size)
        result = self.buffer(source.size)
        loop: tuple[Instruction, ...] = (
            self.load(source, _point(axes), "x"),
            Scan(results=("y",), dtype=DType.F64, op=ReduceOp.SUM, operands=("x",)),
            Store(buffer=result.buffer, index=_point(axes), value="y"),
        )
        self.add_nest(axes[:-1], [InnerLoop(axes=axes[-1:], body=loop)], result)

    def pad(self) -> None:
        """Add a nest that reads a tensor behind a mask."""
        source = self.pick()
        if not source.size:
            return
        size = (*source.size[:-1], source.size[-1] + 2)
        axes = _axes(size)
        point = _point(axes)
        shifted = (*point[:-1], point[-1] - 1)
        bool_ = DType.BOOL
        i64 = DType.I64
        body: list[Step] = [
            IndexValue(result="at", dtype=i64, expr=shifted[-1]),
            Literal(result="zero", dtype=i64, value=0),
            IndexValue(result="end", dtype=i64, expr=source.size[-1]),
            Apply(result="low", dtype=bool_, op=ScalarOp.GE, operands=("at", "zero")),
            Apply(result="high", dtype=bool_, op=ScalarOp.LT, operands=("at", "end")),
            Apply(result="in", dtype=bool_, op=ScalarOp.AND, operands=("low", "high")),
            Load(
                result="x",
                dtype=DType.F64,
                buffer=source.buffer,
                index=source.at(shifted),
                mask="in",
                other=-3.0,
            ),
        ]
        result = self.buffer(size)
        body.append(Store(buffer=result.buffer, index=point, value="x"))
        self.add_nest(axes, body, result)

    def gather(self) -> None:
        """Add a nest that reads rows of a tensor where a computed index says."""
        source = self.pick()
        if not source.size or not isinstance(source.size[0], int):
            return
        length = self.draw(st.integers(1, 3))
        size = (length, *source.size[1:])
        axes = _axes(size)
        point = _point(axes)
        place = mod(mul(point[0], 5) + 2, source.size[0])
        body: list[Step] = [
            IndexValue(result="at", dtype=DType.I64, expr=place),
            self.load(source, (Symbol("at"), *point[1:]), "x"),
        ]
        result = self.buffer(size)
        body.append(Store(buffer=result.buffer, index=point, value="x"))
        self.add_nest(axes, body, result)

    def scatter(self) -> None:
        """Add a nest of zeros, and one that adds a tensor's rows to two of them."""
        source = self.pick()
        if not source.size:
            return
        size = (2, *source.size[1:])
        result = self.buffer(size)
        zeros = _axes(size)
        body: list[Step] = [
            Literal(result="x", dtype=DType.F64, value=0.0),
            Store(buffer=result.buffer, index=_point(zeros), value="x"),
        ]
        self.add_nest(zeros, body, None)
        axes = _axes(source.size)
        point = _point(axes)
        body = [
            IndexValue(result="at", dtype=DType.I64, expr=mod(point[0], 2)),
            self.load(source, point, "x"),
            Store(
                buffer=result.buffer,
                index=(Symbol("at"), *point[1:]),
                value="x",
                mode=StoreMode.ADD,
            ),
        ]
        self.add_nest(axes, body, result)

    def concatenate(self) -> None:
        """Add a nest for each of two parts of a tensor."""
        source = self.pick()
        if not source.size:
            return
        length = source.size[0]
        size = (mul(length, 2), *source.size[1:])
        result = self.buffer(size)
        axes = _axes(source.size)
        point = _point(axes)
        for shift in (0, length):
            body: list[Step] = [
                self.load(source, point, "x"),
                Store(
                    buffer=result.buffer, index=(point[0] + shift, *point[1:]), value="x"
                ),
            ]
            self.add_nest(axes, body, None)
        self.tensors.append(result)

    def update(self) -> None:
        """Add a nest that overwrites an input with a function of itself."""
        name = self.draw(st.sampled_from(self.inputs))
        type = self.buffers[name]
        axes = _axes(type.size)
        point = _point(axes)
        body: list[Step] = [
            self.load(View(name, type.size, _dims(len(type.size))), point, "x"),
            Apply(result="y", dtype=DType.F64, op=ScalarOp.ADD, operands=("x", "x")),
            Store(buffer=name, index=point, value="y"),
        ]
        self.add_nest(axes, body, None)

    def call(self) -> None:
        """Add a call of an operator on a whole buffer."""
        name = self.pick().buffer
        type = self.buffers[name]
        result = f"b{len(self.buffers)}"
        self.buffers[result] = type
        view = BufferView(buffer=name, type=type)
        self.items.append(
            ExternCall(
                name=f"n{len(self.items)}", arguments=(("x", view),), writes=(result,)
            )
        )
        self.tensors.append(View(result, type.size, _dims(len(type.size))))


def _axes(size: tuple[Expr, ...]) -> tuple[Axis, ...]:
    return tuple(Axis(f"i{n}", extent) for n, extent in enumerate(size))


def _point(axes: tuple[Axis, ...]) -> tuple[Expr, ...]:
    return tuple(Symbol(axis.name) for axis in axes)


def _broadcast(
    size: tuple[Expr, ...], target: tuple[Expr, ...], point: tuple[Expr, ...]
) -> tuple[Expr, ...] | None:
    """Return the point of a tensor that is broadcast to another's size."""
    if len(size) > len(target):
        return None
    found: list[Expr] = []
    for extent, other, part in zip(
        reversed(size), reversed(target), reversed(point), strict=False
    ):
        if extent not in (1, other):
            return None
        found.append(0 if extent == 1 else part)
    return tuple(reversed(found))


@st.composite
def loop_graphs(draw: Draw, most: int = 9) -> LoopGraph:
    """Draw a graph."""
    maker = Maker(draw)
    extents: list[Expr] = [1, 2, 3, 6, Symbol("s0")]
    for _ in range(draw(st.integers(1, 3))):
        size = draw(st.lists(st.sampled_from(extents), min_size=0, max_size=3))
        maker.input(tuple(size))
    steps = [
        *[maker.pointwise] * 4,
        *[maker.view] * 2,
        *[maker.reduce] * 2,
        *(maker.constant, maker.scan, maker.pad, maker.concatenate, maker.update),
        *(maker.call, maker.gather, maker.scatter),
    ]
    for _ in range(draw(st.integers(1, most))):
        draw(st.sampled_from(steps))()
    written = {
        each.buffer
        for item in maker.items
        if isinstance(item, Nest)
        for step in item.body
        for each in (step.body if isinstance(step, InnerLoop) else (step,))
        if isinstance(each, Store)
    }
    names = [name for name in maker.inputs if name in written]
    made = [view.buffer for view in maker.tensors if view.buffer not in maker.inputs]
    names += draw(st.lists(st.sampled_from(made), unique=True)) if made else []
    return LoopGraph(
        buffers=maker.buffers,
        inputs=tuple(maker.inputs),
        items=tuple(maker.items),
        outputs=tuple(
            (name, BufferView(buffer=name, type=maker.buffers[name])) for name in names
        ),
    )
