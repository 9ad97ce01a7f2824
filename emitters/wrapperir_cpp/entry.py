"""Begin and end of a call: inputs, constants, checks and outputs."""

from attrs import evolve

from wrapperir.emit import Fragment, fragment
from wrapperir.emit.checked_inputs import unread_numbers
from wrapperir.emit.number_kinds import kind_of
from wrapperir.ir import (
    Argument,
    BufferRef,
    Operation,
    Program,
    ScalarType,
    Symbol,
    SymbolKind,
    TensorType,
)
from wrapperir_cpp.context import Context
from wrapperir_cpp.literals import format_bool, format_int, format_string
from wrapperir_cpp.memory import (
    add_constant,
    add_slot,
    define_scalar,
    format_owned,
    make_changed,
    tensor_handle,
)
from wrapperir_cpp.value_storage import bytes_of


def emit_inputs(context: Context, program: Program) -> None:
    """Append the taking of inputs, and add the constants."""
    for index, given in enumerate(program.inputs):
        context.at(("inputs",), index)
        position = format_int(index)
        if isinstance(given.type, TensorType):
            slot = add_slot(context, given.name, given.type)
            view = context.values[given.name]
            context.values.put(given.name, evolve(view, room=bytes_of(given.type)))
            context.writer.emit_line("{}.reset(take(c.inputs[{}]));", slot, position)
        elif isinstance(given.type, ScalarType):
            kind = kind_of(given.type.dtype)
            number = define_scalar(context, given.name, kind)
            member = "real" if kind is SymbolKind.FLOAT else "integer"
            context.writer.emit_line(
                "{} = c.inputs[{}].as.{};", number, position, Fragment(member)
            )
        else:
            context.report("an input is neither a tensor nor a number", given.name)
    for index, constant in enumerate(program.constants):
        add_constant(context, constant.name, constant.type, index)


def emit_input_checks(context: Context, program: Program) -> None:
    """Append checks of types with symbols, after the program's symbols are defined.

    The runtime checks static sizes, strides and offsets before the call.
    """
    for constant in program.constants:
        make_changed(context, constant.name)
    inputs = {f"WIR801: %{given.name}": given for given in program.inputs}
    constants = {f"%{constant.name}": constant for constant in program.constants}
    for subject, given in {**inputs, **constants}.items():
        if not isinstance(given.type, TensorType):
            continue
        name, type, what = given.name, given.type, format_string(subject)
        unread = unread_numbers(program, name, type)
        if not all(isinstance(number, int) for number in unread):
            layout = context.format_ints(type.size), context.format_ints(type.stride)
            handle = tensor_handle(context, name)
            context.writer.emit_line("check_layout({}, {}, {}, {});", handle, *layout, what)
        if not isinstance(type.offset, int):
            offset = context.expressions.format_index(type.offset)
            handle = tensor_handle(context, name)
            context.writer.emit_line("check_offset({}, {}, {});", handle, offset, what)


def emit_outputs(context: Context, program: Program) -> None:
    """Append the outputs; a tensor is moved if nothing else holds it."""
    tensors: dict[int, Fragment] = {}
    for index, output in enumerate(program.outputs):
        context.at(("outputs",), index)
        if not isinstance(output, BufferRef):
            continue
        if not isinstance(context.facts.types[output.name], ScalarType):
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


def _format_number(context: Context, output: Argument) -> Fragment:
    expressions = context.expressions
    if isinstance(output, BufferRef):
        is_number = isinstance(context.facts.types[output.name], ScalarType)
        return context.values.scalar(output.name) if is_number else fragment("nullptr")
    if isinstance(output, bool):
        return format_bool(output)
    if not isinstance(output, int | float | Symbol | Operation):
        return fragment("nullptr")
    match expressions.kind(output):
        case SymbolKind.INT:
            return fragment("int64_t({})", expressions.format_index(output))
        case kind:
            return expressions.format_number(output, kind)
