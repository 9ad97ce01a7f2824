"""Begin and end of a call: inputs, constants, checks and outputs."""

from attrs import evolve

from wrapperir.emit import Fragment, fragment
from wrapperir.emit.number_kinds import kind_of
from wrapperir.ir import (
    Argument,
    BufferRef,
    Expr,
    Operation,
    Program,
    ScalarType,
    SizeOf,
    StrideOf,
    Symbol,
    SymbolKind,
    SymbolSource,
    TensorType,
)
from wrapperir_cpp.context import Context
from wrapperir_cpp.literals import format_int, format_string
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
    """Append checks of types that have symbols, once the program's symbols are defined.

    Types without symbols are checked before the call.
    """
    for constant in program.constants:
        make_changed(context, constant.name)
    for name, type in (
        *((given.name, given.type) for given in program.inputs),
        *((constant.name, constant.type) for constant in program.constants),
    ):
        if isinstance(type, TensorType):
            _emit_check(context, program, name, type)
            if not isinstance(type.offset, int):
                offset = context.expressions.format_index(type.offset)
                parts = tensor_handle(context, name), offset, format_string(name)
                context.writer.emit_line("check_offset({}, {}, {});", *parts)


def _emit_check(context: Context, program: Program, name: str, type: TensorType) -> None:
    """Append a check of sizes and strides, unless symbols were just read from them."""
    sources: dict[Expr, SymbolSource] = {
        Symbol(line.symbol): line.source for line in program.symbols
    }
    for dim, size in enumerate(type.size):
        if not isinstance(size, int) and sources.get(size) != SizeOf(name, dim):
            break
    else:
        for dim, stride in enumerate(type.stride):
            if not isinstance(stride, int) and sources.get(stride) != StrideOf(name, dim):
                break
        else:
            return
    context.writer.emit_line(
        "check_layout({}, {}, {}, {});",
        tensor_handle(context, name),
        context.format_ints(type.size),
        context.format_ints(type.stride),
        format_string(name),
    )


def emit_outputs(context: Context, program: Program) -> None:
    """Append the outputs: tensors are moved where nothing else holds them."""
    tensors: dict[int, Fragment] = {}
    for index, output in enumerate(program.outputs):
        context.at(("outputs",), index)
        if isinstance(output, BufferRef) and not _is_number(context, output.name):
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


def _is_number(context: Context, name: str) -> bool:
    return isinstance(context.facts.types[name], ScalarType)


def _format_number(context: Context, output: Argument) -> Fragment:
    if isinstance(output, BufferRef) and _is_number(context, output.name):
        return context.values.scalar(output.name)
    if isinstance(output, int | float | Symbol | Operation):
        return _format_expression(context, output)
    return fragment("nullptr")


def _format_expression(context: Context, expr: Expr) -> Fragment:
    if isinstance(expr, bool):
        return fragment("true") if expr else fragment("false")
    match context.expressions.kind(expr):
        case SymbolKind.INT:
            return fragment("int64_t({})", context.expressions.format_index(expr))
        case SymbolKind.FLOAT:
            return context.expressions.format_real(expr)
        case SymbolKind.BOOL:
            return context.expressions.format_bool(expr)
        case None:
            return context.expressions.format_any(expr)
