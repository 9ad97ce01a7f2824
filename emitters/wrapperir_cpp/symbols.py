"""Definitions of symbols in C++."""

import math

from wrapperir.emit import Fragment, fragment
from wrapperir.emit.number_kinds import kind_of
from wrapperir.ir import (
    DType,
    ItemOf,
    OffsetOf,
    Operation,
    ScalarType,
    SizeOf,
    StrideOf,
    Symbol,
    SymbolDefinitionLine,
    SymbolKind,
    TensorType,
    ValueOf,
    product,
    symbols_in,
)
from wrapperir_cpp.context import Context
from wrapperir_cpp.literals import (
    format_converted,
    format_dtype,
    format_float,
    format_int,
    format_string,
)
from wrapperir_cpp.memory import tensor_handle, tensor_pointer

_LEAST, _MOST = -(2**63), 2**63 - 1


def emit_symbol_definition(context: Context, line: SymbolDefinitionLine) -> None:
    """Append ``c.s0 = num::size_of(c.t[x].get(), 0, 3);`` and the check of its range."""
    symbol = context.symbols[line.symbol]
    value = _format_source(context, line)
    context.writer.emit_line("{} = {};", symbol, value)
    context.defined_symbols.add(line.symbol)
    _emit_range_check(context, symbol, line)


def _format_source(context: Context, line: SymbolDefinitionLine) -> Fragment:
    """Return the value of a symbol, as a number of its kind."""
    number = context.line_number()
    old = SymbolKind.INT
    match line.source:
        case SizeOf(buffer, dim):
            handle = tensor_handle(context, buffer)
            value = fragment("num::size_of({}, {}, {})", handle, format_int(dim), number)
        case StrideOf(buffer, dim):
            handle = tensor_handle(context, buffer)
            value = fragment("num::stride_of({}, {}, {})", handle, format_int(dim), number)
        case OffsetOf(buffer):
            value = _format_offset(context, buffer)
        case ItemOf(buffer):
            return _format_item(context, buffer, line.kind)
        case ValueOf(name):
            type = context.facts.types[name]
            assert isinstance(type, ScalarType)  # verified
            value, old = context.values.scalar(name), kind_of(type.dtype)
        case Symbol() | Operation() | int() | float():
            return context.expressions.format_number(line.source, line.kind)
    return format_converted(value, old, line.kind)


def _format_offset(context: Context, buffer: str) -> Fragment:
    # An operand or result begins its type's offset after its storage does, wherever
    # PyTorch's storage begins; unless the offset is what PyTorch is asked for.
    type = context.facts.tensor_type(buffer)
    if context.defined_symbols.issuperset(symbols_in(type.offset)):
        return context.expressions.format_index(type.offset)
    return fragment(
        "num::offset_of({}, {})", tensor_handle(context, buffer), context.line_number()
    )


def _format_item(context: Context, buffer: str, kind: SymbolKind) -> Fragment:
    type = context.facts.tensor_type(buffer)
    dtype, c_type = type.dtype, _c_type(type.dtype)
    on_cpu = type.device.kind == "cpu"
    if c_type is None or (_is_small_float(dtype) and dtype.itemsize == 1 and not on_cpu):
        context.report(f"an element of {dtype} on {type.device} cannot be read", buffer)
        return fragment("0")
    if on_cpu:
        value = _format_element(context, buffer, type, c_type)
    else:
        value = _format_read(context, buffer, dtype, c_type)
    if _is_small_float(dtype):
        value = fragment("num::small_float({}, {})", format_dtype(dtype), value)
    if dtype is DType.U64 and kind is SymbolKind.INT:
        return fragment("num::signed_int({}, {})", value, context.line_number())
    old = kind_of(dtype)
    return value if old is kind else format_converted(value, old, kind)


def _is_small_float(dtype: DType) -> bool:
    return dtype.is_float and dtype.itemsize < 4


def _c_type(dtype: DType) -> Fragment | None:
    """Return the C++ type of an element that can be read; a small float is its bits."""
    if dtype is DType.F4E2M1FN_X2 or not (dtype.is_float or dtype.is_integer):
        return None
    if _is_small_float(dtype):
        return fragment("uint16_t") if dtype.itemsize == 2 else fragment("uint8_t")
    return fragment(dtype.cpp_type)


def _format_element(
    context: Context, buffer: str, type: TensorType, c_type: Fragment
) -> Fragment:
    """Return the element, out of the CPU's memory."""
    elements = product(type.size)
    if elements != 1:
        context.writer.emit_line(
            "num::check_one({}, {}, {});",
            context.expressions.format_index(elements),
            format_string(f"%{buffer}"),
            context.line_number(),
        )
    return fragment("*{}", tensor_pointer(context, buffer, c_type))


def _format_read(context: Context, buffer: str, dtype: DType, c_type: Fragment) -> Fragment:
    """Return the element as PyTorch reads it, from any device."""
    function = fragment("aoti_torch_item_{}", fragment(dtype.torch_name))
    context.module.declare(
        fragment("AOTITorchError {}(AtenTensorHandle, {}*)", function, c_type)
    )
    handle = tensor_handle(context, buffer)
    return fragment("num::item_of({}, {}, {})", function, handle, context.line_number())


def _emit_range_check(
    context: Context, symbol: Fragment, line: SymbolDefinitionLine
) -> None:
    lower, upper = line.lower, line.upper
    if lower is None and upper is None:
        return
    shown = f"{'' if lower is None else lower}..{'' if upper is None else upper}"
    if line.kind is SymbolKind.FLOAT:
        bounds = (_float_bound(lower, -math.inf), _float_bound(upper, math.inf))
    else:
        bounds = _int_bounds(lower, upper)
    value = fragment("int64_t({})", symbol) if line.kind is SymbolKind.BOOL else symbol
    context.writer.emit_line(
        "num::check_range({}, {}, {}, {}, {}, {});",
        *(value, *bounds, format_string(line.symbol), format_string(shown)),
        context.line_number(),
    )


def _int_bounds(lower: int | None, upper: int | None) -> tuple[Fragment, Fragment]:
    least = _LEAST if lower is None else max(lower, _LEAST)
    most = _MOST if upper is None else min(upper, _MOST)
    if least > _MOST or most < _LEAST:
        least, most = 1, 0  # nothing is in it
    return format_int(least), format_int(most)


def _float_bound(bound: int | None, unbounded: float) -> Fragment:
    """Return the outermost float inside a bound."""
    if bound is None:
        return format_float(unbounded)
    try:
        nearest = float(bound)
    except OverflowError:
        nearest = math.copysign(math.inf, bound)
    if (nearest > bound) if unbounded > 0 else (nearest < bound):
        nearest = math.nextafter(nearest, -unbounded)
    return format_float(nearest)
