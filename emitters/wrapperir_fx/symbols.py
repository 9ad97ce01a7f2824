"""Definitions of symbols as nodes."""

from collections.abc import Callable, Mapping

import torch
from torch.fx import Node
from torch.fx.node import Argument

from wrapperir.emit.number_kinds import kind_of, kind_of_type
from wrapperir.fx import functions
from wrapperir.ir import (
    ItemOf,
    OffsetOf,
    ScalarType,
    SizeOf,
    StrideOf,
    Symbol,
    SymbolDefinitionLine,
    SymbolKind,
    ValueOf,
    symbols_in,
)
from wrapperir_fx.context import GraphContext
from wrapperir_fx.nodes import GraphNumber
from wrapperir_fx.number_nodes import CONVERSIONS
from wrapperir_fx.streams import wait_for_all

_aten = torch.ops.aten


def emit_symbol(graph: GraphContext, line: SymbolDefinitionLine) -> None:
    """Append nodes that read a symbol's value, convert it to its kind and check its range.

    The last of these nodes has the symbol's name.
    """
    val = graph.fakes.number(Symbol(line.symbol))
    checked = line.lower is not None or line.upper is not None
    value = _source(graph, line, None if checked else line.symbol, val)
    if checked:
        args = (value, line.lower, line.upper, line.symbol)
        value = graph.nodes.call(functions.check_range, args, name=line.symbol, val=val)
    graph.numbers.symbols[line.symbol] = value


def _source(
    graph: GraphContext, line: SymbolDefinitionLine, name: str | None, val: object
) -> GraphNumber:
    """Return a symbol's value as a number of its kind."""
    kind: SymbolKind | None = SymbolKind.INT
    target: Callable[..., object]
    args: tuple[Argument, ...]
    match line.source:
        case SizeOf(buffer, dim):
            target, args = _aten.sym_size.int, (graph.values[buffer].node, dim)
        case StrideOf(buffer, dim):
            target, args = _aten.sym_stride.int, (graph.values[buffer].node, dim)
        case OffsetOf(buffer):
            # Known from the type, unless it defines one of its own symbols.
            offset = graph.values[buffer].tensor_type.offset
            if graph.numbers.symbols.keys() >= set(symbols_in(offset)):
                return graph.numbers.of_kind(offset, line.kind)
            target = _aten.sym_storage_offset.default
            args = (graph.values[buffer].node,)
        case ItemOf(buffer):
            wait_for_all(graph)
            kind = kind_of_type(graph.values[buffer].type)
            target, args = _aten.item.default, (graph.values[buffer].node,)
        case ValueOf(scalar):
            value = graph.values[scalar]
            kind = kind_of_type(value.type)
            return _converted(graph, line, value.node, kind, name, val)
        case expr:
            return graph.numbers.of_kind(expr, line.kind)
    if kind is line.kind:
        return graph.nodes.call(target, args, name=name, val=val)
    fake = None if kind is None else graph.fakes.unknown(kind)  # complex ones have none
    number = graph.nodes.call(target, args, val=fake)
    return _converted(graph, line, number, kind, name, val)


def _converted(
    graph: GraphContext,
    line: SymbolDefinitionLine,
    number: Node,
    kind: SymbolKind | None,
    name: str | None,
    val: object,
) -> Node:
    if kind is line.kind:
        number.meta["val"] = val  # an element of a tuple has another value
        return number
    return graph.nodes.call(CONVERSIONS[line.kind], (number,), name=name, val=val)


def convert_input(graph: GraphContext, name: str, type: ScalarType) -> None:
    """Append the conversion of a number that the caller gives."""
    given = graph.values[name]
    functions_of: Mapping[SymbolKind, Callable[..., object]] = {
        SymbolKind.INT: functions.given_int,
        SymbolKind.FLOAT: functions.real,
        SymbolKind.BOOL: functions.given_bool,
    }
    target = functions_of[kind_of(type.dtype)]
    given.node = graph.nodes.call(target, (given.node,), val=given.node.meta.get("val"))
