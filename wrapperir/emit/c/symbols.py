"""Symbols in C: where their values come from, and checks of their ranges."""

from wrapperir import ir as wir
from wrapperir.emit.assert_messages import format_range
from wrapperir.emit.c.context import CContext
from wrapperir.emit.c.expressions import (
    C_KINDS,
    element_type,
    format_float,
    format_int,
    format_string,
)
from wrapperir.emit.source_text import Fragment, fragment, joined


def item_type(dtype: wir.DType) -> Fragment | None:
    """Return the C type of an element that the host can read as a number."""
    if dtype is wir.DType.U64:
        return None
    return element_type(wir.DType.U8 if dtype is wir.DType.BOOL else dtype)


def converted(value: Fragment, dtype: wir.DType, kind: wir.SymbolKind) -> Fragment:
    """Return an element or a scalar of ``dtype`` as a number of a kind."""
    if kind is wir.SymbolKind.BOOL:
        return fragment("({} != 0)", value)
    if kind is wir.SymbolKind.INT and dtype.is_float:
        return fragment("wir_whole({}, &r->fault)", value)
    return value


def emit_symbol(context: CContext, line: wir.SymbolDefinitionLine, value: Fragment) -> None:
    """Append the variable of a symbol, and the check of its range."""
    name = context.symbols[line.symbol]
    context.writer.emit_line("{} {} = {};", fragment(C_KINDS[line.kind]), name, value)
    _emit_range(context, line)


def format_source(context: CContext, line: wir.SymbolDefinitionLine) -> Fragment:
    """Return the value of a symbol, by the types of tensors."""
    format_number = context.expressions.format_number
    match line.source:
        case wir.SizeOf(name, dim):
            return format_number(context.facts.tensor_type(name).size[dim], line.kind)
        case wir.StrideOf(name, dim):
            return format_number(context.facts.tensor_type(name).stride[dim], line.kind)
        case wir.OffsetOf(name):
            return format_number(context.facts.tensor_type(name).offset, line.kind)
        case wir.ValueOf(name):
            type = context.facts.types[name]
            assert isinstance(type, wir.ScalarType)  # verified
            return converted(context.values[name], type.dtype, line.kind)
        case wir.ItemOf(name):
            return _item(context, name, line.kind)
        case int() | float() | wir.Symbol() | wir.Operation() as expr:
            return format_number(expr, line.kind)


def _item(context: CContext, name: str, kind: wir.SymbolKind) -> Fragment:
    type = context.facts.tensor_type(name)
    spelled = item_type(type.dtype)
    if spelled is None:
        context.report(f"the host cannot read an element of {type.dtype.value}", name)
        return fragment("0")
    item = context.names.claim(f"{name}_item")
    context.writer.emit_line("{} {} = 0;", spelled, item)
    parts = (context.values[name], item, item)
    context.emit_step("wir_item(r, &{}, sizeof {}, &{})", *parts)
    return converted(item, type.dtype, kind)


def _emit_range(context: CContext, line: wir.SymbolDefinitionLine) -> None:
    """Append the check of a symbol's range; without one, that it has a value."""
    low, high = line.lower, line.upper
    symbol = context.symbols[line.symbol]
    if low is None and high is None:
        context.emit_step('wir_check(r, 1, "")')
        return
    said = f"Expected {format_range(line.symbol, low, high)} but received "
    if line.kind is wir.SymbolKind.FLOAT:
        limits = (low is None and "-inf") or low, (high is None and "inf") or high
        ends = [format_float(float(end or 0)) for end in limits]
        function = fragment("wir_check_real")
    else:
        least = -(2**63) if low is None else max(low, -(2**63))
        most = 2**63 - 1 if high is None else min(high, 2**63 - 1)
        ends = [format_int(least), format_int(most)]
        function = fragment("wir_check_whole")
    parts = (function, format_string(said), symbol, joined(", ", ends))
    context.emit_step("{}(r, {}, {}, {})", *parts)
