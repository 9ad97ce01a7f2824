"""Definitions of symbols in Python."""

from typing import TYPE_CHECKING

from wrapperir.emit.fragment import Fragment, fragment
from wrapperir.emit.number_kinds import kind_of
from wrapperir.emit.source_writer import SourceWriter
from wrapperir.ir.expr import Expr, symbols_in
from wrapperir.ir.line import (
    ItemOf,
    OffsetOf,
    SizeOf,
    StrideOf,
    SymbolDefinitionLine,
    SymbolKind,
    ValueOf,
)
from wrapperir.ir.types import DType, ScalarType, TensorType
from wrapperir_python.literals import format_int
from wrapperir_python.numbers import format_converted

if TYPE_CHECKING:
    from wrapperir_python.lines import PythonLines


def format_symbol_source(lines: "PythonLines", line: SymbolDefinitionLine) -> Fragment:
    """Return the value of a symbol, as a number of its kind."""
    source = line.source
    match source:
        case SizeOf(buffer, dim):
            value = fragment("{}.size({})", lines.values[buffer], format_int(dim))
            dtype: DType | None = DType.I64
        case StrideOf(buffer, dim):
            value = fragment("{}.stride({})", lines.values[buffer], format_int(dim))
            dtype = DType.I64
        case OffsetOf(buffer):
            value = _format_offset(lines, buffer)
            dtype = DType.I64
        case ItemOf(buffer):
            value = fragment("{}.item()", lines.values[buffer])
            dtype = _dtype(lines, buffer)
        case ValueOf(name):
            value, dtype = lines.values[name], _dtype(lines, name)
        case _:
            return _format_expression(lines, line.kind, source)
    return _format_as_kind(lines, line.kind, value, dtype)


def emit_range_check(
    writer: SourceWriter, symbol: Fragment, line: SymbolDefinitionLine
) -> None:
    """Append a check that a symbol is in its range, if it has one."""
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
    writer.emit_line(
        'if not {}: raise ValueError(f"{} = {{{}}} is not in {}..{}")',
        *(test, symbol, symbol, lower, upper),
    )


def _format_expression(lines: "PythonLines", kind: SymbolKind, expr: Expr) -> Fragment:
    if kind is SymbolKind.INT:
        return lines.expressions.format_index(expr)
    if kind is SymbolKind.FLOAT:
        return lines.expressions.format_real(expr)
    return lines.expressions.format_bool(expr)


def _format_offset(lines: "PythonLines", buffer: str) -> Fragment:
    # An operand or result begins its type's offset after its storage does, wherever
    # PyTorch's storage begins; unless the offset is what PyTorch is asked for.
    type = lines.types.get(buffer)
    if isinstance(type, TensorType):
        unknown = set(symbols_in(type.offset)) - lines.defined_symbols
        if not unknown:
            return lines.expressions.format_index(type.offset)
    return fragment("{}.storage_offset()", lines.values[buffer])


def _dtype(lines: "PythonLines", name: str) -> DType | None:
    type = lines.types.get(name)
    return type.dtype if isinstance(type, TensorType | ScalarType) else None


def _format_as_kind(
    lines: "PythonLines", kind: SymbolKind, value: Fragment, dtype: DType | None
) -> Fragment:
    real = dtype is not None and not dtype.value.startswith("c")
    old = kind_of(dtype) if real else None
    return format_converted(lines.module, value, old, kind)
