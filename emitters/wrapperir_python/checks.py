"""Inputs, symbols and asserts in Python: values that a call takes, and their checks."""

from pathlib import Path
from typing import LiteralString, assert_never

import wrapperir.emit
from wrapperir import ir as wir
from wrapperir.emit import Fragment, SourceWriter, fragment, joined
from wrapperir.emit.assert_messages import (
    alignment_message,
    layout_subject,
    not_nan_message,
    scalar_message,
)
from wrapperir.emit.checked_inputs import indexed_device, needs_layout_check
from wrapperir.emit.number_kinds import kind_of, kind_of_type
from wrapperir.emit.python.expressions import (
    format_converted,
    format_int,
    format_string,
    format_targets,
)
from wrapperir_python.context import PythonContext
from wrapperir_python.operators import bind_compiled
from wrapperir_python.streams import emit_actions

_CHECKS: dict[wir.SymbolKind, LiteralString] = {
    wir.SymbolKind.INT: "check_int",
    wir.SymbolKind.FLOAT: "check_float",
    wir.SymbolKind.BOOL: "check_bool",
}


def emit_inputs(
    context: PythonContext, writer: SourceWriter, program: wir.Program, *, trusted: bool
) -> None:
    """Append the taking of the inputs: their number, dtypes and devices are checked.

    Inputs that are ``trusted`` are not checked, but numbers are converted all the same.
    """
    names = [context.values[given.name] for given in program.inputs]
    if not trusted:
        check = _check(context, "check_count")
        writer.emit_line("{}(args, {})", check, format_int(len(names)))
    if names:
        writer.emit_line("{} = args", format_targets(names))
    if trusted:
        writer.emit_line("args.clear()")
    for given, name in zip(program.inputs, names, strict=True):
        if trusted and isinstance(given.type, wir.ScalarType):
            value = _format_trusted(context, name, kind_of(given.type.dtype))
            writer.emit_line("{} = {}", name, value)
        elif not trusted and isinstance(given.type, wir.TensorType | wir.ScalarType):
            writer.emit_line("{} = {}", name, _format_checked(context, given, name))
    if not trusted:
        writer.emit_line("args.clear()")


def emit_layout_checks(context: PythonContext, program: wir.Program) -> None:
    """Append checks of the sizes, strides and offsets of inputs; symbols are known."""
    for given in program.inputs:
        type = given.type
        if isinstance(type, wir.TensorType) and needs_layout_check(
            program, given.name, type
        ):
            arguments = [
                context.values[given.name],
                format_string(f"%{given.name}"),
                context.expressions.format_tuple(type.size),
                context.expressions.format_tuple(type.stride),
            ]
            if type.offset != 0:
                arguments.append(context.expressions.format_index(type.offset))
            check = _check(context, "check_layout")
            context.writer.emit_line("{}({})", check, joined(", ", arguments))


def _format_checked(context: PythonContext, given: wir.Input, name: Fragment) -> Fragment:
    type, subject = given.type, format_string(f"%{given.name}")
    if isinstance(type, wir.ScalarType):
        check = _check(context, _CHECKS[kind_of(type.dtype)])
        return fragment("{}({}, {})", check, name, subject)
    assert isinstance(type, wir.TensorType)
    arguments = [
        *(name, subject, context.arguments.format_dtype(type.dtype)),
        context.arguments.format_device(indexed_device(type.device)),
        format_int(len(type.size)),
    ]
    if type.alignment is not None and type.alignment > 1:
        arguments.append(fragment("alignment={}", format_int(type.alignment)))
    if given.mutated:
        arguments.append(fragment("mutated=True"))
    return fragment("{}({})", _check(context, "check_tensor"), joined(", ", arguments))


def _format_trusted(
    context: PythonContext, value: Fragment, kind: wir.SymbolKind
) -> Fragment:
    """Return a number that the caller gave as one of a kind; a float is never an int."""
    if kind is wir.SymbolKind.FLOAT:
        return fragment("float({})", value)
    whole = fragment("{}({})", context.module.import_from("operator", "index"), value)
    return fragment("bool({})", whole) if kind is wir.SymbolKind.BOOL else whole


def _check(context: PythonContext, function: LiteralString) -> Fragment:
    folder = Path(wrapperir.emit.__file__).parent  # without importing torch
    imported = context.module.import_file("input_check", folder)
    return context.module.import_from_file(imported, function)


def emit_symbol_definition(context: PythonContext, line: wir.SymbolDefinitionLine) -> None:
    """Append ``s0 = arg0.size(0)`` and a check of its range, if it has one."""
    if isinstance(line.source, wir.ItemOf):
        emit_actions(context, context.streams.join())
    symbol = context.module.symbols[line.symbol]
    context.writer.emit_line("{} = {}", symbol, _format_source(context, line))
    if line.lower is None and line.upper is None:
        return
    bounds: list[Fragment] = []
    if line.lower is not None:
        bounds.append(fragment("{} >= {}", symbol, format_int(line.lower)))
    if line.upper is not None:
        bounds.append(fragment("{} <= {}", symbol, format_int(line.upper)))
    wanted = joined(" and ", bounds)
    context.writer.emit_line(
        'if not ({}): raise RuntimeError(f"Expected {} but received {{{}}}")',
        *(wanted, wanted, symbol),
    )


def _format_source(context: PythonContext, line: wir.SymbolDefinitionLine) -> Fragment:
    """Return the value of a symbol, as a number of its kind."""
    source, types = line.source, context.facts.types
    old: wir.SymbolKind | None = wir.SymbolKind.INT
    match source:
        case wir.SizeOf(buffer, dim):
            value = fragment("{}.size({})", context.values[buffer], format_int(dim))
        case wir.StrideOf(buffer, dim):
            value = fragment("{}.stride({})", context.values[buffer], format_int(dim))
        case wir.OffsetOf(buffer):
            value = _format_offset(context, line.symbol, buffer)
        case wir.ItemOf(buffer):
            value = fragment("{}.item()", context.values[buffer])
            old = kind_of_type(types.get(buffer))
        case wir.ValueOf(name):
            value, old = context.values[name], kind_of_type(types.get(name))
        case int() | float() | wir.Symbol() | wir.Operation():
            return context.expressions.format_number(source, line.kind)
        case _:
            assert_never(source)
    return format_converted(context.module.need, value, old, line.kind)


def _format_offset(context: PythonContext, symbol: str, buffer: str) -> Fragment:
    if symbol in context.facts.measured_offsets:
        return fragment("{}.storage_offset()", context.values[buffer])
    return context.expressions.format_index(context.facts.tensor_type(buffer).offset)


def emit_assert_size_stride(context: PythonContext, line: wir.AssertSizeStrideLine) -> None:
    """Append a check of a layout."""
    context.writer.emit_line(
        "{}({}, {}, {}, {})",
        *(bind_compiled(context.module, "assert_layout"), context.values[line.buffer]),
        context.expressions.format_tuple(line.size),
        context.expressions.format_tuple(line.stride),
        format_string(layout_subject(line)),
    )


def emit_assert_alignment(context: PythonContext, line: wir.AssertAlignmentLine) -> None:
    """Append a check of an address."""
    # PyTorch's assert_alignment looks at the offset in the storage alone.
    context.writer.emit_line(
        "if {}.data_ptr() % {}: raise AssertionError({})",
        *(context.values[line.buffer], format_int(line.bytes)),
        format_string(alignment_message(line)),
    )


def emit_assert_scalar(context: PythonContext, line: wir.AssertScalarLine) -> None:
    """Append a check of a condition."""
    context.writer.emit_line(
        "if not ({}): raise RuntimeError({})",
        context.expressions.format_condition(line.condition),
        format_string(scalar_message(line)),
    )


def emit_assert_not_nan(context: PythonContext, line: wir.AssertNotNanLine) -> None:
    """Append a check of every element."""
    emit_actions(context, context.streams.join())
    buffer = context.values[line.buffer]
    if context.facts.tensor_type(line.buffer).dtype.value.startswith("f8"):
        buffer = fragment("{}.float()", buffer)  # isfinite takes no 8-bit floats
    context.writer.emit_line(
        "if not torch.isfinite({}).all(): raise AssertionError({})",
        *(buffer, format_string(not_nan_message(line))),
    )
