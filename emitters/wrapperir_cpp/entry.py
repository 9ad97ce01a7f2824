"""Inputs, constants, symbols and outputs of a call in C++, and their checks."""

import math

from attrs import evolve

from wrapperir import ir as wir
from wrapperir.emit import Fragment, fragment
from wrapperir.emit.assert_messages import format_range
from wrapperir.emit.checked_inputs import unread_numbers
from wrapperir.emit.number_kinds import kind_of
from wrapperir_cpp.context import Context
from wrapperir_cpp.literals import (
    format_bool,
    format_converted,
    format_dtype,
    format_float,
    format_int,
    format_string,
)
from wrapperir_cpp.memory import (
    add_constant,
    define_value,
    format_owned,
    make_changed,
    tensor_handle,
    tensor_pointer,
)
from wrapperir_cpp.value_storage import bytes_of

_LEAST, _MOST = -(2**63), 2**63 - 1


def emit_inputs(context: Context, program: wir.Program) -> None:
    """Append the taking of inputs, and add the constants."""
    for index, given in enumerate(program.inputs):
        context.at(("inputs",), index)
        position = format_int(index)
        if isinstance(given.type, wir.TensorType):
            slot = define_value(context, given.name)
            view = context.values[given.name]
            context.values.put(given.name, evolve(view, room=bytes_of(given.type)))
            context.writer.emit_line("{}.reset(take(c.inputs[{}]));", slot, position)
        elif isinstance(given.type, wir.ScalarType):
            number = define_value(context, given.name)
            is_real = kind_of(given.type.dtype) is wir.SymbolKind.FLOAT
            member = "real" if is_real else "integer"
            context.writer.emit_line(
                "{} = c.inputs[{}].as.{};", number, position, Fragment(member)
            )
        else:
            context.report("an input is neither a tensor nor a number", given.name)
    for index, constant in enumerate(program.constants):
        add_constant(context, constant.name, constant.type, index)


def emit_input_checks(context: Context, program: wir.Program) -> None:
    """Append checks of types with symbols, after the program's symbols are defined.

    The runtime checks static sizes, strides and offsets before the call.
    """
    for constant in program.constants:
        make_changed(context, constant.name)
    tensors = [
        *((f"WIR801: %{given.name}", given.name, given.type) for given in program.inputs),
        *((f"%{given.name}", given.name, given.type) for given in program.constants),
    ]
    for subject, name, type in tensors:
        if not isinstance(type, wir.TensorType):
            continue
        what = format_string(subject)
        unread = unread_numbers(program, name, type)
        if not all(isinstance(number, int) for number in unread):
            layout = context.format_ints(type.size), context.format_ints(type.stride)
            handle = tensor_handle(context, name)
            context.writer.emit_line("check_layout({}, {}, {}, {});", handle, *layout, what)
        if not isinstance(type.offset, int):
            offset = context.expressions.format_index(type.offset)
            handle = tensor_handle(context, name)
            context.writer.emit_line("check_offset({}, {}, {});", handle, offset, what)


def emit_outputs(context: Context, program: wir.Program) -> None:
    """Append the outputs; a tensor is moved if nothing else holds it."""
    tensors: dict[int, Fragment] = {}
    for index, output in enumerate(program.outputs):
        context.at(("outputs",), index)
        if not isinstance(output, wir.BufferRef):
            continue
        if not isinstance(context.facts.types[output.name], wir.ScalarType):
            if output.name in context.values:
                tensors[index] = tensor_handle(context, output.name)
            else:
                context.report("an output is a tuple", output.name)
    owned = format_owned(context, list(tensors.values()), keeps=False)
    handles = dict(zip(tensors, owned, strict=True))
    for index, output in enumerate(program.outputs):
        value = handles.get(index)
        if value is None:
            value = _format_number(context, output)
        context.writer.emit_line("c.outputs[{}] = output({});", format_int(index), value)


def _format_number(context: Context, output: wir.Argument) -> Fragment:
    expressions = context.expressions
    if isinstance(output, wir.BufferRef):
        is_number = isinstance(context.facts.types[output.name], wir.ScalarType)
        return context.values.scalar(output.name) if is_number else fragment("nullptr")
    if isinstance(output, bool):
        return format_bool(output)
    if not isinstance(output, int | float | wir.Symbol | wir.Operation):
        return fragment("nullptr")
    kind = expressions.kind(output)
    if kind is wir.SymbolKind.INT:
        return fragment("int64_t({})", expressions.format_index(output))
    return expressions.format_number(output, kind)


def emit_symbol_definition(context: Context, line: wir.SymbolDefinitionLine) -> None:
    """Append ``c.s0 = num::size_of(c.t[x].get(), 0, 3);`` and the check of its range."""
    symbol = context.symbols[line.symbol]
    value = _format_source(context, line)
    context.writer.emit_line("{} = {};", symbol, value)
    _emit_range_check(context, symbol, line)


def _format_source(context: Context, line: wir.SymbolDefinitionLine) -> Fragment:
    """Return the value of a symbol, as a number of its kind."""
    number = context.line_number()
    old = wir.SymbolKind.INT
    match line.source:
        case wir.SizeOf(buffer, dim):
            handle = tensor_handle(context, buffer)
            value = fragment("num::size_of({}, {}, {})", handle, format_int(dim), number)
        case wir.StrideOf(buffer, dim):
            handle = tensor_handle(context, buffer)
            value = fragment("num::stride_of({}, {}, {})", handle, format_int(dim), number)
        case wir.OffsetOf(buffer):
            value = _format_offset(context, line.symbol, buffer)
        case wir.ItemOf(buffer):
            return _format_item(context, buffer, line.kind)
        case wir.ValueOf(name):
            type = context.facts.types[name]
            assert isinstance(type, wir.ScalarType)  # verified
            value, old = context.values.scalar(name), kind_of(type.dtype)
        case wir.Symbol() | wir.Operation() | int() | float():
            return context.expressions.format_number(line.source, line.kind)
    return format_converted(value, old, line.kind)


def _format_offset(context: Context, symbol: str, buffer: str) -> Fragment:
    if symbol not in context.facts.measured_offsets:
        return context.expressions.format_index(context.facts.tensor_type(buffer).offset)
    return fragment(
        "num::offset_of({}, {})", tensor_handle(context, buffer), context.line_number()
    )


def _format_item(context: Context, buffer: str, kind: wir.SymbolKind) -> Fragment:
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
    if dtype is wir.DType.U64 and kind is wir.SymbolKind.INT:
        return fragment("num::signed_int({}, {})", value, context.line_number())
    old = kind_of(dtype)
    return value if old is kind else format_converted(value, old, kind)


def _is_small_float(dtype: wir.DType) -> bool:
    return dtype.is_float and dtype.itemsize < 4


def _c_type(dtype: wir.DType) -> Fragment | None:
    """Return the C++ type of a readable element; for a small float, that of its bits."""
    if dtype is wir.DType.F4E2M1FN_X2 or not (dtype.is_float or dtype.is_integer):
        return None
    if _is_small_float(dtype):
        return fragment("uint16_t") if dtype.itemsize == 2 else fragment("uint8_t")
    return fragment(dtype.cpp_type)


def _format_element(
    context: Context, buffer: str, type: wir.TensorType, c_type: Fragment
) -> Fragment:
    """Return the element, from the CPU's memory."""
    elements = wir.product(type.size)
    if elements != 1:
        context.writer.emit_line(
            "num::check_one({}, {}, {});",
            context.expressions.format_index(elements),
            format_string(f"%{buffer}"),
            context.line_number(),
        )
    return fragment("*{}", tensor_pointer(context, buffer, c_type))


def _format_read(
    context: Context, buffer: str, dtype: wir.DType, c_type: Fragment
) -> Fragment:
    """Return the element as PyTorch reads it, from any device."""
    function = fragment("aoti_torch_item_{}", fragment(dtype.torch_name))
    context.module.declare(
        fragment("AOTITorchError {}(AtenTensorHandle, {}*)", function, c_type)
    )
    handle = tensor_handle(context, buffer)
    return fragment("num::item_of({}, {}, {})", function, handle, context.line_number())


def _emit_range_check(
    context: Context, symbol: Fragment, line: wir.SymbolDefinitionLine
) -> None:
    lower, upper = line.lower, line.upper
    if lower is None and upper is None:
        return
    if line.kind is wir.SymbolKind.FLOAT:
        bounds = (_float_bound(lower, -math.inf), _float_bound(upper, math.inf))
    else:
        bounds = _int_bounds(lower, upper)
    value = fragment("int64_t({})", symbol) if line.kind is wir.SymbolKind.BOOL else symbol
    context.writer.emit_line(
        "num::check_range({}, {}, {}, {}, {});",
        *(value, *bounds, format_string(format_range(line.symbol, lower, upper))),
        context.line_number(),
    )


def _int_bounds(lower: int | None, upper: int | None) -> tuple[Fragment, Fragment]:
    least = _LEAST if lower is None else max(lower, _LEAST)
    most = _MOST if upper is None else min(upper, _MOST)
    if least > _MOST or most < _LEAST:
        least, most = 1, 0  # an empty range
    return format_int(least), format_int(most)


def _float_bound(bound: int | None, unbounded: float) -> Fragment:
    """Return the outermost float that a bound allows."""
    if bound is None:
        return format_float(unbounded)
    try:
        nearest = float(bound)
    except OverflowError:
        nearest = math.copysign(math.inf, bound)
    if (nearest > bound) if unbounded > 0 else (nearest < bound):
        nearest = math.nextafter(nearest, -unbounded)
    return format_float(nearest)
