"""Operands and results of blocks as PyTorch's higher-order operators take them.

They take and return tensors and ints, called leaves here.  A float becomes a tensor with
one double, a tuple becomes its elements; an opaque value is returned and never taken.
Graph regions are not higher-order operators: they take floats as they are.
"""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import torch
from attrs import frozen
from torch.fx import Node
from torch.fx.node import Argument as FxArgument

from wrapperir import ir as wir
from wrapperir.emit.number_kinds import kind_of
from wrapperir.fx import block_functions
from wrapperir_fx.context import GraphContext
from wrapperir_fx.number_nodes import CONVERSIONS

_aten = torch.ops.aten
_CELL = wir.tensor(wir.DType.F64, ())
_DTYPES: Mapping[wir.SymbolKind, wir.DType] = {
    wir.SymbolKind.INT: wir.DType.I64,
    wir.SymbolKind.FLOAT: wir.DType.F64,
    wir.SymbolKind.BOOL: wir.DType.BOOL,
}

Take: TypeAlias = Callable[[str | None, object], Node]
"""Appends the node of the next leaf, with a name and a fake value."""


@frozen(eq=False)
class PassedOperand:
    """An operand of a block: its leaves, and the type of the whole.

    ``roots`` are the roots of a named value; a number has none.
    """

    leaves: tuple[FxArgument, ...]
    type: wir.ValueType
    roots: frozenset[str] = frozenset()


def pass_operand(
    graph: GraphContext,
    argument: wir.Argument,
    types: Sequence[wir.ValueType],
    *,
    boxed: bool = True,
) -> PassedOperand:
    """Append nodes that split an operand into leaves; blocks declare ``types``.

    A number is converted to the declared kind, where all blocks declare the same.
    """
    if isinstance(argument, wir.BufferRef):
        value = graph.values[argument.name]
        if _has_opaque(value.type):
            graph.report(
                "a block is given a value that is neither tensor nor number", argument.name
            )
        leaves = leaves_of(graph, argument, value.type, boxed=boxed)
        return PassedOperand(leaves, value.type, value.roots)
    assert isinstance(argument, int | float | wir.Symbol | wir.Operation)  # verified
    kinds = {kind_of(type.dtype) for type in types if isinstance(type, wir.ScalarType)}
    dtype = graph.facts.kinds.dtype(argument)
    type = wir.ScalarType(_DTYPES[kinds.pop()] if len(kinds) == 1 else dtype)
    return PassedOperand(leaves_of(graph, argument, type, boxed=boxed), type)


def leaves_of(
    graph: GraphContext,
    argument: wir.Argument,
    type: wir.ValueType,
    *,
    boxed: bool = True,
) -> tuple[FxArgument, ...]:
    """Append nodes that split a value of ``type`` into leaves; numbers are converted."""
    if isinstance(type, wir.ScalarType):
        kind = kind_of(type.dtype)
        if isinstance(argument, wir.BufferRef):
            value = graph.values[argument.name]
            number: FxArgument = _converted(graph, value.node, value.type, type)
        else:
            assert isinstance(
                argument, int | float | wir.Symbol | wir.Operation
            )  # verified
            number = graph.numbers.of_kind(argument, kind)
        boxed = boxed and kind is wir.SymbolKind.FLOAT
        return (_boxed(graph, number) if boxed else number,)
    if isinstance(argument, wir.BufferRef):
        return tuple(_spread(graph, graph.values[argument.name].node, type))
    assert argument is None  # verified: the only opaque value without a name
    return (None,)


def gather(
    graph: GraphContext,
    name: str,
    type: wir.ValueType,
    take: Take,
    given: wir.ValueType | None = None,
    *,
    boxed: bool = True,
    lay_out: bool = False,
) -> Node:
    """Append nodes that make a value from its leaves, and return it.

    ``given`` is the type of the leaves where it may be another kind of number; with
    ``lay_out``, tensors may have another layout than ``type``.
    """
    look: object
    match type:
        case wir.ScalarType():
            given = type if given is None else given
            assert isinstance(given, wir.ScalarType)  # verified
            same = kind_of(given.dtype) is kind_of(type.dtype)
            look = graph.fakes.of(given, name if same else f"{name} as given")
            if boxed and kind_of(given.dtype) is wir.SymbolKind.FLOAT:
                cell = take(f"{name}_cell", graph.fakes.of(_CELL))
                node = graph.nodes.call(_aten.item.default, (cell,), name=name, val=look)
            else:
                node = take(name, look)
            return _converted(graph, node, given, type, graph.fakes.of(type, name))
        case wir.TupleType(elements):
            nodes = [
                gather(graph, f"{name}_{index}", element, take, lay_out=lay_out)
                for index, element in enumerate(elements)
            ]
            val = tuple([node.meta.get("val") for node in nodes])
            return graph.nodes.call(
                block_functions.packed, tuple(nodes), name=name, val=val
            )
        case wir.TensorType() if lay_out and not _is_plain(type):
            node = take(None, graph.fakes.of(type))
            indices = graph.numbers.indices
            layout = indices(type.size), indices(type.stride), indices((type.offset,))[0]
            keywords: dict[str, FxArgument] = {"pinned": True} if type.pinned else {}
            look = graph.fakes.of(type)
            target = block_functions.laid_out
            return graph.nodes.call(target, (node, *layout), keywords, name=name, val=look)
        case wir.TensorType() | wir.OpaqueType() | wir.PoolType() | wir.EventType():
            return take(name, graph.fakes.of(type, name))


def pass_symbol(graph: GraphContext, name: str, *, boxed: bool) -> FxArgument:
    """Append the leaf of a symbol, and return it."""
    number = graph.numbers.symbols[name]
    return _boxed(graph, number) if boxed and _is_float(graph, name) else number


def take_symbol(graph: GraphContext, name: str, take: Take, *, boxed: bool) -> Node:
    """Append nodes that make a symbol from its leaf, and return it."""
    val = graph.fakes.number(wir.Symbol(name))
    if not (boxed and _is_float(graph, name)):
        return take(name, val)
    cell = take(f"{name}_cell", graph.fakes.of(_CELL))
    return graph.nodes.call(_aten.item.default, (cell,), name=name, val=val)


def _is_float(graph: GraphContext, symbol: str) -> bool:
    return graph.facts.kinds.symbols.get(symbol) is wir.SymbolKind.FLOAT


def _spread(graph: GraphContext, node: Node, type: wir.ValueType) -> Iterable[FxArgument]:
    if isinstance(type, wir.TupleType):
        for index, element in enumerate(type.elements):
            val = None if isinstance(element, wir.ScalarType) else graph.fakes.of(element)
            item = graph.nodes.call(operator.getitem, (node, index), val=val)
            yield from _spread(graph, item, element)
    elif isinstance(type, wir.ScalarType) and kind_of(type.dtype) is wir.SymbolKind.FLOAT:
        yield _boxed(graph, node)
    else:
        yield node


def _boxed(graph: GraphContext, number: FxArgument) -> Node:
    keywords: dict[str, FxArgument] = {"dtype": torch.float64}
    val = graph.fakes.of(_CELL)
    return graph.nodes.call(_aten.scalar_tensor.default, (number,), keywords, val=val)


def _converted(
    graph: GraphContext,
    node: Node,
    given: wir.ValueType,
    type: wir.ScalarType,
    val: object = None,
) -> Node:
    assert isinstance(given, wir.ScalarType)  # verified
    kind = kind_of(type.dtype)
    if kind is kind_of(given.dtype):
        return node
    return graph.nodes.call(CONVERSIONS[kind], (node,), val=val)


def _has_opaque(type: wir.ValueType) -> bool:
    if isinstance(type, wir.TupleType):
        return any(map(_has_opaque, type.elements))
    return isinstance(type, wir.OpaqueType)


def _is_plain(type: wir.TensorType) -> bool:
    """Return whether a copy that PyTorch makes surely has the layout of ``type``."""
    if type.offset != 0 or type.pinned:
        return False
    if type.stride == wir.contiguous_stride(type.size):
        return True
    step = 1
    for stride, size in sorted(zip(type.stride, type.size, strict=True), key=_by_stride):
        if size == 1:
            continue
        if not isinstance(size, int) or stride != step:
            return False
        step *= size
    return True


def _by_stride(pair: tuple[wir.Expr, wir.Expr]) -> tuple[bool, int]:
    stride, _ = pair
    return not isinstance(stride, int), stride if isinstance(stride, int) else 0
