"""The state of a graph while its nodes become loop nests."""

import itertools
import operator
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from attrs import define, evolve, field
from torch._prims_common import is_non_overlapping_and_dense_or_false
from torch.utils import _pytree as pytree

from wrapperir.frontend.aten.scope import take
from wrapperir.frontend.aten.values import (
    SCALARS,
    expr_of,
    is_symbolic,
    lower_device,
    lower_dtype,
    lower_extent,
    lower_type,
    symbols_of,
)
from wrapperir.frontend.lowering.nest_builder import NestBuilder
from wrapperir.frontend.lowering.padding import is_padded, is_product, lay_out_as_before
from wrapperir.frontend.lowering.rules import NotLoweredError
from wrapperir.frontend.lowering.values import (
    IndexedTensor,
    NodeValue,
    dimension,
    dimensions,
    with_view,
)
from wrapperir.frontend.provenance import TracedOrigins
from wrapperir.ir import (
    CPU,
    Device,
    DType,
    Expr,
    NodeOrigin,
    TensorType,
    ValueType,
    add,
    contiguous_stride,
    symbols_in,
)
from wrapperir.ir.renaming import replace_cpu
from wrapperir.lowering.indexing import IndexRanges, distance
from wrapperir.lowering.kernel import SizeSymbols, symbol_intervals
from wrapperir.lowering.loops import BufferView, ExternCall, Item, Nest, Store
from wrapperir.lowering.substitution import instructions
from wrapperir.symbolic import lower_sympy


@define(eq=False)
class LoopScope:
    """Buffers, items and values so far.

    ``called`` has the node of each extern call, by the call's name; ``known_symbols`` are
    the size symbols that inputs and calls define so far.  Tensors of the CPU are on a
    device of ``kernel_device``, if it is given.  ``origins`` lists the nodes.  ``views``
    has the origins of each node that is only an index of others, itself included, and
    ``read_views`` those that each other origin reads through, by its name.
    """

    symbols: SizeSymbols
    kernel_device: str | None = None
    origins: TracedOrigins = field(factory=TracedOrigins)
    buffers: dict[str, TensorType] = field(factory=dict[str, TensorType])
    inputs: list[str] = field(factory=list[str])
    items: list[Item] = field(factory=list[Item])
    values: dict[torch.fx.Node, NodeValue] = field(factory=dict[torch.fx.Node, NodeValue])
    called: dict[str, torch.fx.Node] = field(factory=dict[str, torch.fx.Node])
    views: dict[torch.fx.Node, tuple[str, ...]] = field(
        factory=dict[torch.fx.Node, tuple[str, ...]]
    )
    read_views: dict[str, tuple[str, ...]] = field(factory=dict[str, tuple[str, ...]])
    known_symbols: set[str] = field(factory=set[str])
    _names: set[str] = field(factory=set[str], init=False)
    _origin: list[torch.fx.Node] = field(factory=list[torch.fx.Node], init=False)

    def new_name(self, name: str) -> str:
        """Return a name that no buffer or item has."""
        return take(self._names, name)

    # Arguments of nodes.

    def value(self, argument: Any) -> NodeValue:
        """Return the value of an argument: a node, a number, a list of those."""
        if isinstance(argument, torch.fx.Node):
            return self.values[argument]
        if isinstance(argument, list | tuple):
            items: list[Any] = list(argument)  # pyright: ignore[reportUnknownArgumentType]
            return tuple(self.value(item) for item in items)
        return None if argument is None else self.expr(argument)

    def tensor(self, argument: Any) -> IndexedTensor:
        """Return the tensor that an argument is.

        Raises:
            NotLoweredError: it is not a tensor that loops can read.
        """
        value = self.values.get(argument) if isinstance(argument, torch.fx.Node) else None
        if not isinstance(value, IndexedTensor):
            raise NotLoweredError("an argument is not a tensor of elements")
        return value

    def expr(self, argument: Any) -> Expr:
        """Return the expression of a plain or symbolic number.

        Raises:
            NotLoweredError: it is not a number.
        """
        if isinstance(argument, torch.fx.Node):
            value = self.values[argument]
            if isinstance(value, IndexedTensor | tuple) or value is None:
                raise NotLoweredError("an argument is not a number")
            return value
        if is_symbolic(argument):
            return lower_sympy(expr_of(argument))
        if isinstance(argument, bool | int | float):
            return argument
        raise NotLoweredError(f"an argument is a {type(argument).__name__}")

    def exprs(self, arguments: Any) -> tuple[Expr, ...]:
        """Return the expressions of several numbers."""
        return tuple(self.expr(argument) for argument in arguments)

    # Results of nodes.

    def lower_type(self, example: Any) -> ValueType:
        """Return the type of an example value.

        Raises:
            DiagnosticError: WIR604, no type expresses it.
        """
        return replace_cpu(lower_type(example), self.kernel_device)

    def add_input(self, name: str, example: torch.Tensor, offset: Expr) -> IndexedTensor:
        """Add a buffer that an input or a held tensor is a view of; return the tensor.

        ``offset`` is its storage offset.  Loops write through it what the graph writes to
        the input.
        """
        type = self.lower_type(example)
        assert isinstance(type, TensorType)
        self.inputs.append(name)
        return self.add_buffer(name, evolve(type, offset=offset))

    def allocate(self, name: str, example: torch.Tensor) -> IndexedTensor:
        """Add a buffer for a tensor, laid out as the example is if that is compact."""
        dtype = self.element_type(example.dtype)
        size = tuple(map(lower_extent, example.shape))
        stride = tuple(map(lower_extent, example.stride()))
        if not is_compact(example):
            stride = contiguous_stride(size)
        device = replace_cpu(lower_device(example.device), self.kernel_device)
        type = TensorType(dtype=dtype, size=size, stride=stride, device=device)
        return self.add_buffer(self.new_name(name), type)

    def workspace(
        self, size: Sequence[Expr], dtype: DType, like: IndexedTensor
    ) -> IndexedTensor:
        """Add a dense buffer on the device of another tensor."""
        shape = tuple(size)
        device = self.buffers[like.buffer].device
        type = TensorType(
            dtype=dtype, size=shape, stride=contiguous_stride(shape), device=device
        )
        return self.add_buffer(self.new_name("work"), type)

    def add_buffer(self, name: str, type: TensorType) -> IndexedTensor:
        """Add a buffer of a type, and return all of it."""
        self._names.add(name)
        self.buffers[name] = type
        count = len(type.size)
        return IndexedTensor(
            buffer=name, dtype=type.dtype, size=type.size, index=dimensions(count)
        )

    def device_of(self, nest: Nest) -> Device:
        """Return the device that a nest runs on: that of the buffers it writes."""
        written = (x.buffer for x in instructions(nest.body) if isinstance(x, Store))
        return next((self.buffers[name].device for name in written), CPU)

    def element_type(self, dtype: torch.dtype) -> DType:
        """Return the dtype.

        Raises:
            NotLoweredError: loops have no such elements.
        """
        found = lower_dtype(dtype)
        if found not in LOOP_DTYPES:
            raise NotLoweredError(f"loops have no {dtype}")
        return found

    def add_nest(self, builder: NestBuilder, name: str) -> None:
        """Append the nest of a builder, with the origins of the node at hand."""
        nest = builder.finish(self.new_name(f"{name}_loop"), *self.origins_at_hand())
        self.items.append(nest)

    def elements_of(self, node: torch.fx.Node) -> tuple[IndexedTensor, NestBuilder]:
        """Return the result of a node, allocated, and the builder of a nest over it."""
        result = self.allocate(node.name, node.meta["val"])
        return result, NestBuilder(result.size)

    def add_elements(
        self, node: torch.fx.Node, result: IndexedTensor, builder: NestBuilder, value: str
    ) -> IndexedTensor:
        """Append a nest that stores a value to each element of a result; return that."""
        builder.store(result, builder.point, value)
        self.add_nest(builder, node.name)
        return result

    def origins_at_hand(self) -> tuple[NodeOrigin, ...]:
        """Return that of the node at hand, of the graph that was given."""
        return tuple(self.origins.origin(node) for node in self._origin[:1])

    @contextmanager
    def lowering(self, node: torch.fx.Node) -> Generator[None]:
        """Have what is appended stem from a node, or from that of an outer context."""
        before = len(self.items)
        with self._stemming_from(node):
            yield
        if not self._origin and node.op == "call_function":
            self._note_views(node, is_view=len(self.items) == before)

    @contextmanager
    def copying(self, node: torch.fx.Node) -> Generator[None]:
        """Have what is appended stem from a node that was only an index of others."""
        before = len(self.items)
        with self._stemming_from(node):
            yield
        if len(self.items) > before:
            name = self.origins.origin(node).name
            views = (view for view in self.views.get(node, ()) if view != name)
            self.read_views.setdefault(name, tuple(views))

    @contextmanager
    def _stemming_from(self, node: torch.fx.Node) -> Generator[None]:
        self._origin.append(node)
        try:
            yield
        finally:
            self._origin.pop()

    def _note_views(self, node: torch.fx.Node, *, is_view: bool) -> None:
        """Note through which views a node reads, or that it is one itself."""
        given = [self.views.get(each, ()) for each in node.all_input_nodes]
        views = tuple(dict.fromkeys(itertools.chain.from_iterable(given)))
        if not is_view:
            self.read_views[self.origins.origin(node).name] = views
        elif node.target is operator.getitem:
            self.views[node] = views
        elif not isinstance(node.meta.get("val"), SCALARS):
            origin = self.origins.origin(node)
            self.views[node] = (origin.name, *views)
            self.values[node] = with_view(self.values[node], origin)

    @property
    def is_decomposing(self) -> bool:
        """Whether the node at hand is part of the decomposition of another."""
        return len(self._origin) > 1

    # Layouts.

    def ranges(self, size: Sequence[Expr]) -> IndexRanges:
        """Return the ranges of ``d0``, ``d1`` … and the size symbols."""
        extents = {dimension(number).name: extent for number, extent in enumerate(size)}
        return IndexRanges(extents, symbol_intervals(self.symbols))

    def strided(self, tensor: IndexedTensor) -> BufferView | None:
        """Return a tensor as a strided view of its buffer, if it is one."""
        type = self.buffers[tensor.buffer]
        if tensor.index == dimensions(len(type.size)) and tensor.size == type.size:
            return BufferView(buffer=tensor.buffer, type=evolve(type, dtype=tensor.dtype))
        names = [dimension(number).name for number in range(len(tensor.size))]
        ranges = self.ranges(tensor.size)
        place = add(type.offset, distance(tensor.index, type.stride))
        terms = ranges.linear_terms(ranges.simplify(place), names)
        if not set(names).isdisjoint(symbols_in(terms.rest)):
            return None
        stride = tuple(terms.coefficients.get(name, 0) for name in names)
        offset = ranges.simplify(terms.rest)
        if any(isinstance(each, float) for each in (*stride, offset)):
            return None
        return BufferView(
            buffer=tensor.buffer,
            type=evolve(
                type, dtype=tensor.dtype, size=tensor.size, stride=stride, offset=offset
            ),
        )

    def laid_out(
        self, tensor: IndexedTensor, example: torch.Tensor, name: str
    ) -> BufferView:
        """Return a tensor with the strides of the example, copied if it has others.

        Strides of dimensions of one element, and of empty tensors, do not count.
        """
        found = self.strided(tensor)
        wanted = tuple(map(lower_extent, example.stride()))
        if found is not None:
            agree = [
                extent in (0, 1) or step == want
                for extent, step, want in zip(
                    tensor.size, found.type.stride, wanted, strict=True
                )
            ]
            if 0 in tensor.size:  # the place of no elements may be anywhere, even before 0
                return evolve(found, type=evolve(found.type, stride=wanted, offset=0))
            if all(agree):
                return evolve(found, type=evolve(found.type, stride=wanted))
        copied = self.allocate(name, example)
        self.copy(tensor, copied, name)
        result = self.strided(copied)
        assert result is not None
        if is_compact(example):
            return evolve(result, type=evolve(result.type, stride=wanted))
        return result

    def copy(self, source: IndexedTensor, target: IndexedTensor, name: str) -> None:
        """Append a nest that copies a tensor to another of its size."""
        builder = NestBuilder(target.size)
        builder.store(target, builder.point, builder.load(source, builder.point))
        self.add_nest(builder, name)

    # Calls.

    def call(self, node: torch.fx.Node) -> NodeValue:
        """Append a call of the node's operator; return what it returns."""
        if not is_product(node):
            lay_out_as_before(node)
        name = self.new_name(node.name)
        arguments: list[tuple[str, BufferView]] = []
        for each in node.all_input_nodes:
            arguments += self._given(each)
        results: list[str] = []

        def lower_result(example: Any) -> NodeValue:
            if isinstance(example, list | tuple):
                items: list[Any] = list(example)  # pyright: ignore[reportUnknownArgumentType]
                return tuple(lower_result(item) for item in items)
            if example is None:
                return None
            if not isinstance(example, torch.Tensor):
                return self.expr(example)
            type = self.lower_type(example)
            assert isinstance(type, TensorType)
            results.append(self.new_name(f"{name}_result"))
            return self.add_buffer(results[-1], type)

        value = lower_result(node.meta.get("val"))
        made = symbols_of(node.meta.get("val"))
        needed = symbols_of([each.meta.get("val") for each in node.all_input_nodes])
        self.items.append(
            ExternCall(
                name=name,
                arguments=tuple(arguments),
                writes=tuple(results),
                symbols=tuple(needed),
                defines=tuple(name for name in made if name not in self.known_symbols),
                origins=self.origins_at_hand(),
            )
        )
        self.known_symbols.update(made)
        self.called[name] = node
        return value

    def _given(self, node: torch.fx.Node) -> list[tuple[str, BufferView]]:
        """Return the tensors of an argument, as views that an operator can be given."""
        found: list[tuple[str, BufferView]] = []
        values = pytree.tree_leaves(self.values[node])
        examples = pytree.tree_leaves(node.meta.get("val"))
        for value, example in zip(values, examples, strict=True):
            if isinstance(value, IndexedTensor):
                found.append((node.name, self.laid_out(value, example, node.name)))
        return found


LOOP_DTYPES = frozenset(
    {
        *(DType.F64, DType.F32, DType.F16, DType.BF16, DType.BOOL),
        *(DType.I64, DType.I32, DType.I16, DType.I8, DType.U8),
        *(DType.U16, DType.U32, DType.U64),
    }
)


def is_compact(example: torch.Tensor) -> bool:
    """Say whether elements fill memory, each at its own place, but for padding of rows."""
    dense: bool = is_non_overlapping_and_dense_or_false(example)
    return dense or is_padded(example)
