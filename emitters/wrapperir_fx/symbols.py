"""Definitions of symbols as nodes."""

# torch says little of its types.
# pyright: reportUnknownMemberType=false

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch

from wrapperir.emit.number_kinds import kind_of
from wrapperir.ir.expr import Symbol, symbols_in
from wrapperir.ir.line import (
    ItemOf,
    OffsetOf,
    SizeOf,
    StrideOf,
    SymbolDefinitionLine,
    SymbolKind,
    ValueOf,
)
from wrapperir.ir.types import ScalarType, TensorType
from wrapperir_fx import functions
from wrapperir_fx.nodes import Number

if TYPE_CHECKING:
    from wrapperir_fx.lines import FxLines

_aten = torch.ops.aten
_CONVERSIONS: Mapping[SymbolKind, Callable[..., object]] = {
    SymbolKind.INT: functions.whole,
    SymbolKind.FLOAT: functions.real,
    SymbolKind.BOOL: functions.truth,
}


def emit_symbol(lines: "FxLines", line: SymbolDefinitionLine) -> None:
    """Append what reads a symbol's value, makes it one of its kind and checks its range."""
    value = _source(lines, line)
    if line.lower is not None or line.upper is not None:
        val = lines.fakes.number(Symbol(line.symbol))
        args = (value, line.lower, line.upper, line.symbol)
        value = lines.nodes.call(functions.check_range, args, name=line.symbol, val=val)
    lines.kinds.symbols[line.symbol] = line.kind
    lines.numbers.symbols[line.symbol] = value


def _source(lines: "FxLines", line: SymbolDefinitionLine) -> Number:
    val = lines.fakes.number(Symbol(line.symbol))
    old: SymbolKind | None = SymbolKind.INT
    match line.source:
        case SizeOf(buffer, dim):
            args = (lines.values[buffer].node, dim)
            value = lines.nodes.call(_aten.sym_size.int, args, name=line.symbol, val=val)
        case StrideOf(buffer, dim):
            args = (lines.values[buffer].node, dim)
            value = lines.nodes.call(_aten.sym_stride.int, args, name=line.symbol, val=val)
        case OffsetOf(buffer):
            type = lines.values[buffer].tensor_type
            # Unless the offset is what PyTorch is asked for, it is that of the type.
            if lines.numbers.symbols.keys() >= set(symbols_in(type.offset)):
                return lines.numbers.of_kind(type.offset, line.kind)
            value = lines.nodes.call(
                _aten.sym_storage_offset.default,
                (lines.values[buffer].node,),
                name=line.symbol,
                val=val,
            )
        case ItemOf(buffer):
            lines.streams.wait_for_all()
            old = _kind(lines.values[buffer].type)
            node = lines.values[buffer].node
            value = lines.nodes.call(_aten.item.default, (node,), name=line.symbol, val=val)
        case ValueOf(name):
            old = _kind(lines.values[name].type)
            value = lines.values[name].node
        case _:
            return lines.numbers.of_kind(line.source, line.kind)
    if old is line.kind:
        return value
    return lines.nodes.call(_CONVERSIONS[line.kind], (value,), name=line.symbol, val=val)


def _kind(type: object) -> SymbolKind | None:
    """Return the kind of the numbers of a type; ``None`` for complex ones."""
    assert isinstance(type, TensorType | ScalarType)
    return None if type.dtype.value.startswith("c") else kind_of(type.dtype)


def convert_input(lines: "FxLines", name: str, type: ScalarType) -> None:
    """Append the conversion of a number that the caller gives."""
    given = lines.values[name]
    functions_of: Mapping[SymbolKind, Callable[..., object]] = {
        SymbolKind.INT: functions.given_int,
        SymbolKind.FLOAT: functions.real,
        SymbolKind.BOOL: functions.given_bool,
    }
    target = functions_of[kind_of(type.dtype)]
    given.node = lines.nodes.call(target, (given.node,), val=given.node.meta.get("val"))
