"""Where a call of a program begins and ends: inputs, symbols and outputs."""

from typing import TYPE_CHECKING

from attrs import evolve

from wrapperir.emit.fragment import Fragment, fragment
from wrapperir.emit.number_kinds import kind_of
from wrapperir.ir.expr import Expr, Operation, Symbol
from wrapperir.ir.line import (
    Argument,
    BufferRef,
    SizeOf,
    StrideOf,
    SymbolKind,
    SymbolSource,
)
from wrapperir.ir.program import Program
from wrapperir.ir.types import ScalarType, TensorType
from wrapperir_cpp.bounds import bytes_of
from wrapperir_cpp.literals import format_int, format_string

if TYPE_CHECKING:
    from wrapperir_cpp.lines import CppLines


def emit_entry(lines: "CppLines", program: Program) -> None:
    """Append the taking of inputs and symbols, and checks of types that have symbols.

    Types without symbols are checked before the call.
    """
    for index, given in enumerate(program.inputs):
        lines.at(("inputs",), index)
        lines.types[given.name] = given.type
        position = format_int(index)
        if isinstance(given.type, TensorType):
            slot = lines.memory.add_slot(given.name, given.type)
            home = lines.homes[given.name]
            lines.homes.put(given.name, evolve(home, room=bytes_of(given.type)))
            lines.writer.emit_line("{}.reset(take(c.inputs[{}]));", slot, position)
        elif isinstance(given.type, ScalarType):
            kind = kind_of(given.type.dtype)
            number = lines.define_scalar(given.name, kind)
            member = "real" if kind is SymbolKind.FLOAT else "integer"
            lines.writer.emit_line(
                "{} = c.inputs[{}].as.{};", number, position, Fragment(member)
            )
        else:
            lines.report("an input is neither a tensor nor a number", given.name)
    for index, constant in enumerate(program.constants):
        lines.types[constant.name] = constant.type
        lines.memory.add_constant(constant.name, constant.type, index)
    lines.emit_symbols(program.symbols)
    for constant in program.constants:
        lines.memory.make_changed(constant.name)
    for name, type in (
        *((given.name, given.type) for given in program.inputs),
        *((constant.name, constant.type) for constant in program.constants),
    ):
        if isinstance(type, TensorType):
            _emit_check(lines, program, name, type)
            if not isinstance(type.offset, int):
                offset = lines.expressions.format_index(type.offset)
                parts = lines.handle(name), offset, format_string(name)
                lines.writer.emit_line("check_offset({}, {}, {});", *parts)


def _emit_check(lines: "CppLines", program: Program, name: str, type: TensorType) -> None:
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
    lines.writer.emit_line(
        "check_layout({}, {}, {}, {});",
        lines.handle(name),
        lines.memory.format_ints(type.size),
        lines.memory.format_ints(type.stride),
        format_string(name),
    )


def emit_outputs(lines: "CppLines", program: Program) -> None:
    """Append the outputs: tensors are moved where nothing else holds them."""
    tensors: dict[int, Fragment] = {}
    for index, output in enumerate(program.outputs):
        lines.at(("outputs",), index)
        if isinstance(output, BufferRef) and not _is_number(lines, output.name):
            if output.name in lines.homes:
                tensors[index] = lines.handle(output.name)
            else:
                lines.report("an output is a tuple", output.name)
    owned = lines.memory.format_owned(list(tensors.values()), keeps=False)
    handles = dict(zip(tensors, owned, strict=True))
    for index, output in enumerate(program.outputs):
        value = handles.get(index)
        if value is None:
            value = _format_number(lines, output)
        lines.writer.emit_line("c.outputs[{}] = output({});", format_int(index), value)


def _is_number(lines: "CppLines", name: str) -> bool:
    return isinstance(lines.types[name], ScalarType)


def _format_number(lines: "CppLines", output: Argument) -> Fragment:
    if isinstance(output, BufferRef) and _is_number(lines, output.name):
        return lines.scalar(output.name)
    if isinstance(output, int | float | Symbol | Operation):
        return _format_expression(lines, output)
    return fragment("nullptr")


def _format_expression(lines: "CppLines", expr: Expr) -> Fragment:
    if isinstance(expr, bool):
        return fragment("true") if expr else fragment("false")
    match lines.expressions.kind(expr):
        case SymbolKind.INT:
            return fragment("int64_t({})", lines.expressions.format_index(expr))
        case SymbolKind.FLOAT:
            return lines.expressions.format_real(expr)
        case SymbolKind.BOOL:
            return lines.expressions.format_bool(expr)
        case None:
            return lines.expressions.format_any(expr)
