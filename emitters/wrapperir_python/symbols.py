"""Definitions of symbols in Python."""

from typing import TYPE_CHECKING

from wrapperir.emit.fragment import Fragment, fragment
from wrapperir.emit.source_writer import SourceWriter
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

if TYPE_CHECKING:
    from wrapperir_python.lines import PythonLines


def format_symbol_source(lines: "PythonLines", line: SymbolDefinitionLine) -> Fragment:
    """Return the value of a symbol, as a number of its kind."""
    source = line.source
    match source:
        case SizeOf(buffer, dim):
            return fragment("{}.size({})", lines.values[buffer], format_int(dim))
        case StrideOf(buffer, dim):
            return fragment("{}.stride({})", lines.values[buffer], format_int(dim))
        case OffsetOf(buffer):
            return fragment("{}.storage_offset()", lines.values[buffer])
        case ItemOf(buffer):
            item = fragment("{}.item()", lines.values[buffer])
            return _format_as_kind(lines, line.kind, item, _dtype(lines, buffer))
        case ValueOf(name):
            value = lines.values[name]
            return _format_as_kind(lines, line.kind, value, _dtype(lines, name))
        case _:
            if line.kind is SymbolKind.INT:
                return lines.expressions.format_index(source)
            if line.kind is SymbolKind.FLOAT:
                return lines.expressions.format_real(source)
            condition = lines.expressions.format_condition(source)
            return fragment("bool({})", condition)


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


def _dtype(lines: "PythonLines", name: str) -> DType | None:
    type = lines.types.get(name)
    return type.dtype if isinstance(type, TensorType | ScalarType) else None


def _format_as_kind(
    lines: "PythonLines", kind: SymbolKind, value: Fragment, dtype: DType | None
) -> Fragment:
    if kind is SymbolKind.BOOL:
        return value if dtype is DType.BOOL else fragment("bool({})", value)
    is_float = dtype is None or dtype.value.startswith(("f", "bf"))
    if kind is SymbolKind.FLOAT:
        return value if is_float and dtype is not None else fragment("float({})", value)
    if dtype is DType.BOOL:
        return fragment("int({})", value)
    if is_float:
        return fragment("{}({})", lines.module.need("whole"), value)
    return value
