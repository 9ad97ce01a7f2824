"""The text of ``program.cpp``: tables, the call's members, functions, the description."""

from collections.abc import Sequence, Set
from typing import LiteralString, TypeAlias

from wrapperir.emit import Fragment, SourceWriter, fragment, joined
from wrapperir.emit.arena import ALIGNMENT, Region
from wrapperir.emit.constants import place_constants
from wrapperir.emit.number_kinds import kind_of
from wrapperir.ir import (
    CPU,
    ONEDNN_LAYOUT,
    Expr,
    ExternKernelLine,
    Program,
    ScalarType,
    TensorType,
    ValueType,
)
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.line_effects import LineEffects
from wrapperir.ir.mentions import buffers_in
from wrapperir.text import format_with_positions
from wrapperir_cpp.context import Context, format_declaration
from wrapperir_cpp.debugged_values import emit_pointers
from wrapperir_cpp.literals import format_bool, format_dtype, format_int, format_string
from wrapperir_cpp.module_text import emit_rows, source_writer
from wrapperir_cpp.streams import emit_begin, emit_end, emit_guards, emit_plans

_ANY = -(2**63)
_MOST_ON_STACK = 16 * 1024  # bytes of a call
_LONGEST_LINE = 80


LineFact: TypeAlias = tuple[int, str]
"""The number of a line in ``program.wir``, counted from 1, and its first words."""


def find_lines(program: Program) -> tuple[str, list[LineFact]]:
    """Return the program as text, and the fact of each top-level line."""
    text, positions = format_with_positions(program)
    numbers = [positions["lines", index].line for index in range(len(program.lines))]
    lines = text.split("\n")
    return text, [(number, _shorten(lines[number - 1])) for number in numbers]


def _shorten(line: str) -> str:
    """Return a printed line without its results and arguments."""
    name, equals, value = line.strip().partition(" = ")
    if equals and name.startswith("%") and "(" not in name:
        line = value
    return line.partition("(")[0].strip()[:_LONGEST_LINE]


def format_program(
    program: Program,
    context: Context,
    places: Sequence[LineFact],
    headers: Sequence[Fragment],
    remarks: Sequence[str],
) -> str:
    """Return the source file, once all lines have been emitted.

    ``places`` are the facts of the top-level lines.
    """
    module, call = context.module, context.call
    facts = source_writer()
    _emit_facts(facts, program, context, places)
    writer = source_writer()
    for remark in remarks:
        writer.emit_comment(remark)
    for header in headers:
        writer.emit_line('#include "{}"', header)
    writer.emit_blank()
    writer.emit_line("using namespace wrapperir;")
    writer.emit_blank()
    module.emit_declarations(writer)
    writer.emit_blank()
    writer.emit_line("namespace {{")
    module.emit_tables(writer)
    writer.emit_writer(module.statics)
    emit_plans(context, writer)
    _emit_call(writer, program, context)
    writer.emit_writer(context.module.functions)
    writer.emit_line("void run(const Context& context) {{")
    with writer.indented():
        emit_begin(context, writer)
        count = 2 * len(call.slots) + len(call.numbers) + len(context.symbols)
        if 8 * count > _MOST_ON_STACK:
            writer.emit_line("Owner<Call> call(new Call(context));")
            writer.emit_line("Call& c = *call.owned;")
        else:
            writer.emit_line("Call c(context);")
        emit_guards(context, writer)
        writer.emit_writer(context.writer)
        emit_end(context, writer)
    writer.emit_line("}}")
    writer.emit_blank()
    writer.emit_writer(facts)
    return writer.format_text()


def _emit_call(writer: SourceWriter, program: Program, context: Context) -> None:
    """Append the enumerators of tensors, and ``struct Call``."""
    call, values = context.call, context.module.values
    constants = [values[constant.name] for constant in program.constants]
    _emit_enum(writer, "Slot", "Tensors of the call, in c.t", list(call.slots))
    _emit_enum(writer, "Constant", "Tensors in c.constants", constants)
    fixed: list[Fragment] = []
    for first, *others in call.fixed.values():
        fixed += [first, *(fragment("{} = {}", other, first) for other in others)]
    _emit_enum(writer, "Fixed", "Tensors in c.fixed, which each frame holds", fixed)
    writer.emit_blank()
    writer.emit_line("struct Call : Context {{")
    with writer.indented():
        writer.emit_line("explicit Call(const Context& context) : Context(context) {{}}")
        if call.slots:
            count = format_int(len(call.slots))
            writer.emit_line("Tensor t[{}];", count)
            writer.emit_line("char* p[{}];  // addresses of the tensors' data", count)
        symbols = [
            format_declaration(kind, context.module.symbols[name])
            for name, kind in context.facts.kinds.symbols.items()
        ]
        numbers = [*call.numbers, *symbols]
        members = [
            *(fragment("DeviceCall* {}", name) for name in context.device_names.values()),
            *(fragment("Products {}", name) for name in context.product_states.values()),
            *([fragment("char* const* places")] if context.regions else []),
        ]
        for number in (*members, *numbers):
            writer.emit_line("{};", number)
        emit_pointers(writer, context)
    writer.emit_line("}};")
    writer.emit_blank()


def _emit_enum(
    writer: SourceWriter, name: LiteralString, remark: str, members: list[Fragment]
) -> None:
    if not members:
        return
    writer.emit_comment(remark)
    writer.emit_line("enum {} : int {{", fragment(name))
    with writer.indented():
        for begin in range(0, len(members), 10):
            writer.emit_line("{},", joined(", ", members[begin : begin + 10]))
    writer.emit_line("}};")


def _emit_facts(
    writer: SourceWriter, program: Program, context: Context, places: Sequence[LineFact]
) -> None:
    """Append the tables of the description, the end of the namespace, the description."""
    table = context.module.table
    loose = _taken_by_operators(program)
    inputs = [
        (
            *(format_string(given.name), _format_kind(given.type)),
            *(_format_tensor(context, given.type), format_bool(given.mutated)),
            format_bool(given.name in loose),
        )
        for given in program.inputs
    ]
    constants = [
        (
            *(format_string(constant.name), format_string(constant.key)),
            _format_tensor(context, constant.type),
            *map(format_int, (place.begin, place.bytes) if place else (0, -1)),
        )
        for constant, place in zip(program.constants, place_constants(program), strict=True)
    ]
    fixed = [
        (
            *(format_int(key.constant), format_int(key.offset), format_dtype(key.dtype)),
            *(format_int(len(key.size)), table(key.size), table(key.stride)),
        )
        for key in context.call.fixed
    ]
    region = context.arena.regions.get(CPU, Region(0, ALIGNMENT))
    zeroed = [tuple(map(format_int, part)) for part in region.zeroed]
    lines = [(format_int(number), format_string(text)) for number, text in places]
    timed = [(fragment("&{}", choice),) for choice in context.choices.fastest.values()]
    arena = joined(", ", map(format_int, (region.bytes, region.alignment)))
    rows: list[tuple[LiteralString, Fragment]] = [
        ("name", format_string(program.name)),
        ("inputs", _emit_table(writer, "InputFact", "inputs", inputs)),
        ("outputs", format_int(len(program.outputs))),
        ("constants", _emit_table(writer, "ConstantFact", "constants", constants)),
        ("arena: bytes, alignment", arena),
        ("fixed tensors", _emit_table(writer, "FixedTensor", "fixed", fixed)),
        ("zero parts of the arena", _emit_table(writer, "ZeroedRange", "zeroed", zeroed)),
        ("lines of program.wir", _emit_table(writer, "LineFact", "lines", lines)),
        ("numbers that frames keep", format_int(context.choices.recent)),
        ("graph regions", format_int(len(context.regions))),
        ("timed choices", _emit_table(writer, "Fastest*", "timed", timed)),
        ("function", fragment("run")),
    ]
    writer.emit_line("}}  // namespace")
    writer.emit_blank()
    writer.emit_line("const Description wrapperir_description = {{")
    with writer.indented():
        for remark, value in rows:
            writer.emit_line("{},  // {}", value, fragment(remark))
    writer.emit_line("}};")


def _emit_table(
    writer: SourceWriter,
    type: LiteralString,
    name: LiteralString,
    rows: Sequence[Sequence[Fragment]],
) -> Fragment:
    """Return the length and name of a table of rows, and append it unless it is empty."""
    if not rows:
        return fragment("0, nullptr")
    head = fragment("constexpr {} {}_[]", fragment(type), fragment(name))
    emit_rows(writer, head, [joined(", ", row) for row in rows])
    return fragment("{}, {}_", format_int(len(rows)), fragment(name))


def _taken_by_operators(program: Program) -> Set[str]:
    """Return inputs without dimensions that only operators take, and nothing changes."""
    found = {
        given.name
        for given in program.inputs
        if isinstance(given.type, TensorType) and not given.type.size and not given.mutated
    }
    effects = LineEffects(None)
    for line in walk_lines(program.lines) if found else ():
        if isinstance(line, ExternKernelLine):
            found.difference_update(line.writes, line.aliases)
            continue
        of_line = effects.visit(line)
        if of_line.launches or of_line.definitions or of_line.symbol:
            found.difference_update(of_line.uses)
    return found.difference(name for each in program.outputs for name in buffers_in(each))


def _format_kind(type: ValueType) -> Fragment:
    name = kind_of(type.dtype).value if isinstance(type, ScalarType) else "tensor"
    return fragment("WRAPPERIR_{}", Fragment(name.upper()))


_ONEDNN_NUMBER = 3
"""PyTorch's number of the layout of tensors that oneDNN laid out."""


def _format_tensor(context: Context, type: ValueType) -> Fragment:
    """Return the type of a tensor that the caller gives; symbols are any number."""
    if not isinstance(type, TensorType):
        return fragment("{{}}")
    device, offset = context.tables[type.device.kind].enumerator, type.offset
    parts = [
        *(format_dtype(type.dtype), fragment("Device::{}", fragment(device))),
        *(format_int(type.device.index or 0), format_int(len(type.size))),
        *(_format_known(context, type.size), _format_known(context, type.stride)),
        format_int(type.alignment or 0),
        format_int(offset if isinstance(offset, int) else _ANY),
        format_int(_ONEDNN_NUMBER if type.layout == ONEDNN_LAYOUT else 0),
    ]
    return fragment("{{{}}}", joined(", ", parts))


def _format_known(context: Context, values: Sequence[Expr]) -> Fragment:
    return context.module.table([n if isinstance(n, int) else _ANY for n in values])
