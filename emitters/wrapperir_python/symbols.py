"""Definitions of symbols in Python."""

from wrapperir.emit import Fragment, fragment
from wrapperir.emit.number_kinds import kind_of_type
from wrapperir.emit.python.expressions import format_converted
from wrapperir.emit.python.literals import format_int
from wrapperir.ir import (
    ItemOf,
    OffsetOf,
    SizeOf,
    StrideOf,
    SymbolDefinitionLine,
    SymbolKind,
    TensorType,
    ValueOf,
    symbols_in,
)
from wrapperir_python.context import PythonContext


def emit_symbol_definition(context: PythonContext, line: SymbolDefinitionLine) -> None:
    """Append ``s0 = arg0.size(0)`` and a check of its range, if it has one."""
    symbol = context.module.symbols[line.symbol]
    context.writer.emit_line("{} = {}", symbol, _format_source(context, line))
    context.defined_symbols.add(line.symbol)
    if line.lower is None and line.upper is None:
        return
    lower = fragment("") if line.lower is None else format_int(line.lower)
    upper = fragment("") if line.upper is None else format_int(line.upper)
    if line.lower is None:
        test = fragment("{} <= {}", symbol, upper)
    elif line.upper is None:
        test = fragment("{} <= {}", lower, symbol)
    else:
        test = fragment("{} <= {} <= {}", lower, symbol, upper)
    context.writer.emit_line(
        'if not {}: raise ValueError(f"{} = {{{}}} is not in {}..{}")',
        *(test, symbol, symbol, lower, upper),
    )


def _format_source(context: PythonContext, line: SymbolDefinitionLine) -> Fragment:
    """Return the value of a symbol, as a number of its kind."""
    source, types = line.source, context.facts.types
    old: SymbolKind | None = SymbolKind.INT
    match source:
        case SizeOf(buffer, dim):
            value = fragment("{}.size({})", context.values[buffer], format_int(dim))
        case StrideOf(buffer, dim):
            value = fragment("{}.stride({})", context.values[buffer], format_int(dim))
        case OffsetOf(buffer):
            value = _format_offset(context, buffer)
        case ItemOf(buffer):
            value = fragment("{}.item()", context.values[buffer])
            old = kind_of_type(types.get(buffer))
        case ValueOf(name):
            value, old = context.values[name], kind_of_type(types.get(name))
        case _:
            return context.expressions.format_number(source, line.kind)
    return format_converted(context.module.need, value, old, line.kind)


def _format_offset(context: PythonContext, buffer: str) -> Fragment:
    # An operand or result begins its type's offset after its storage does, wherever
    # PyTorch's storage begins; unless the offset is what PyTorch is asked for.
    type = context.facts.types[buffer]
    offset = type.offset if isinstance(type, TensorType) else None
    if offset is not None and context.defined_symbols.issuperset(symbols_in(offset)):
        return context.expressions.format_index(offset)
    return fragment("{}.storage_offset()", context.values[buffer])
