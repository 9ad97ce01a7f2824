"""The text of ``program.cpp``: tables, the call's members, functions, the description."""

from collections.abc import Sequence
from typing import LiteralString

from attrs import frozen

from wrapperir.emit import Fragment, SourceWriter, fragment, joined
from wrapperir.emit.arena import ALIGNMENT, Region
from wrapperir.emit.constants import place_constants
from wrapperir.emit.number_kinds import kind_of
from wrapperir.ir import CPU, Expr, Program, ScalarType, SymbolKind, TensorType, ValueType
from wrapperir.text import format_line
from wrapperir_cpp.context import Context, format_declaration
from wrapperir_cpp.literals import format_bool, format_dtype, format_int, format_string
from wrapperir_cpp.module_text import source_writer
from wrapperir_cpp.streams import emit_begin, emit_end, emit_guards, emit_plans

_ANY = -(2**63)
_MOST_ON_STACK = 16 * 1024
_LONGEST_LINE = 80
_KINDS = {
    SymbolKind.INT: fragment("WRAPPERIR_INT"),
    SymbolKind.FLOAT: fragment("WRAPPERIR_FLOAT"),
    SymbolKind.BOOL: fragment("WRAPPERIR_BOOL"),
}


@frozen
class LineFact:
    """The number of a line in ``program.wir``, counted from 1, and what it does."""

    number: int
    text: str


def find_lines(program: Program, text: str) -> Sequence[LineFact]:
    """Return where each top-level line is in ``text``, the program as it prints."""
    printed = [format_line(line).split("\n") for line in program.lines]
    # After them are the outputs and a brace, a line each.
    number = len(text.splitlines()) - 1 - sum(map(len, printed))
    found: list[LineFact] = []
    for lines in printed:
        found.append(LineFact(number, _shorten(lines[0])))
        number += len(lines)
    return found


def _shorten(line: str) -> str:
    """Return what a line does and to whom: neither its results nor its arguments."""
    name, equals, value = line.partition(" = ")
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

    ``places`` says where each line is in the program's text.
    """
    module = context.module
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
        if _is_large(context):
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


def _is_large(context: Context) -> bool:
    """Say whether a call's values are too many for the stack of any thread."""
    call = context.call
    values = 2 * len(call.slots) + len(call.numbers) + len(context.symbols)
    return 8 * values > _MOST_ON_STACK


def _emit_call(writer: SourceWriter, program: Program, context: Context) -> None:
    """Append the enumerators of tensors, and ``struct Call``."""
    call, values = context.call, context.module.values
    constants = [values[constant.name] for constant in program.constants]
    _emit_enum(writer, "Slot", "Tensors of a call's own, in c.t", list(call.slots))
    _emit_enum(writer, "Constant", "Those in c.constants", constants)
    fixed: list[Fragment] = []
    for first, *others in call.fixed.values():
        fixed += [first, *(fragment("{} = {}", other, first) for other in others)]
    _emit_enum(writer, "Fixed", "Those in c.fixed, ready in each frame", fixed)
    writer.emit_blank()
    writer.emit_line("struct Call : Context {{")
    with writer.indented():
        writer.emit_line("explicit Call(const Context& context) : Context(context) {{}}")
        if call.slots:
            count = format_int(len(call.slots))
            writer.emit_line("Tensor t[{}];", count)
            writer.emit_line("char* p[{}];  // where the tensors' data begins", count)
        symbols = [
            format_declaration(kind, context.module.symbols[name])
            for name, kind in context.facts.kinds.symbols.items()
        ]
        numbers = [*call.numbers, *symbols]
        members = [
            fragment("DeviceCall* {}", name) for name in context.device_names.values()
        ]
        for number in (*members, *numbers):
            writer.emit_line("{};", number)
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
    """Append the description, the tables it is made of, and the end of the namespace."""
    inputs = [
        [
            format_string(given.name),
            _format_kind(given.type),
            _format_tensor(context, given.type),
            format_bool(given.mutated),
        ]
        for given in program.inputs
    ]
    constants = [
        [
            *(format_string(constant.name), format_string(constant.key)),
            _format_tensor(context, constant.type),
            format_int(0 if place is None else place.begin),
            format_int(-1 if place is None else place.bytes),
        ]
        for constant, place in zip(program.constants, place_constants(program), strict=True)
    ]
    fixed = [
        [
            *(format_int(key.constant), format_int(key.offset), format_dtype(key.dtype)),
            format_int(len(key.size)),
            *(context.module.table(key.size), context.module.table(key.stride)),
        ]
        for key in context.call.fixed
    ]
    region = context.arena.regions.get(CPU, Region(0, ALIGNMENT))
    zeroed = [[format_int(begin), format_int(bytes)] for begin, bytes in region.zeroed]
    lines_of_text = [
        [format_int(place.number), format_string(place.text)] for place in places
    ]
    timed = [*context.choices.fastest.values()]
    tables = [
        _emit_table(writer, "InputFact", "inputs", inputs),
        _emit_table(writer, "ConstantFact", "constants", constants),
        _emit_table(writer, "FixedTensor", "fixed", fixed),
        _emit_table(writer, "ZeroedRange", "zeroed", zeroed),
        _emit_table(writer, "LineFact", "lines", lines_of_text),
        _emit_timed(writer, timed),
    ]
    writer.emit_line("}}  // namespace")
    writer.emit_blank()
    rows: list[tuple[LiteralString, list[Fragment]]] = [
        ("name", [format_string(program.name)]),
        ("inputs", [format_int(len(inputs)), tables[0]]),
        ("outputs", [format_int(len(program.outputs))]),
        ("constants", [format_int(len(constants)), tables[1]]),
        ("arena: bytes, alignment", [*map(format_int, (region.bytes, region.alignment))]),
        ("fixed tensors", [format_int(len(fixed)), tables[2]]),
        ("parts of the arena that begin as zero", [format_int(len(zeroed)), tables[3]]),
        ("lines of program.wir", [format_int(len(places)), tables[4]]),
        ("numbers that frames keep", [format_int(context.choices.recent)]),
        ("choices that are timed", [format_int(len(timed)), tables[5]]),
        ("function", [fragment("run")]),
    ]
    writer.emit_line("const Description wrapperir_description = {{")
    with writer.indented():
        for remark, values in rows:
            writer.emit_line("{},  // {}", joined(", ", values), fragment(remark))
    writer.emit_line("}};")


def _emit_table(
    writer: SourceWriter,
    type: LiteralString,
    name: LiteralString,
    rows: Sequence[Sequence[Fragment]],
) -> Fragment:
    """Append a table, and return its name; there is none without rows."""
    if not rows:
        return fragment("nullptr")
    writer.emit_line("constexpr {} {}_[] = {{", fragment(type), fragment(name))
    with writer.indented():
        for row in rows:
            writer.emit_line("{{{}}},", joined(", ", row))
    writer.emit_line("}};")
    return fragment("{}_", fragment(name))


def _emit_timed(writer: SourceWriter, timed: Sequence[Fragment]) -> Fragment:
    """Append the table of choices that are timed, and return its name."""
    if not timed:
        return fragment("nullptr")
    addresses = [fragment("&{}", choice) for choice in timed]
    writer.emit_line("Fastest* const timed_[] = {{{}}};", joined(", ", addresses))
    return fragment("timed_")


def _format_kind(type: ValueType) -> Fragment:
    if isinstance(type, ScalarType):
        return _KINDS[kind_of(type.dtype)]
    return fragment("WRAPPERIR_TENSOR")


def _format_tensor(context: Context, type: ValueType) -> Fragment:
    """Return what the caller is to give; what has symbols is any number."""
    if not isinstance(type, TensorType):
        return fragment("{{}}")
    device = fragment(context.tables[type.device.kind].enumerator)
    numbers = joined(
        ", ",
        [
            format_dtype(type.dtype),
            fragment("Device::{}", device),
            format_int(type.device.index or 0),
            format_int(len(type.size)),
            _format_known(context, type.size),
            _format_known(context, type.stride),
            format_int(type.alignment or 0),
            format_int(type.offset if isinstance(type.offset, int) else _ANY),
        ],
    )
    return fragment("{{{}}}", numbers)


def _format_known(context: Context, values: Sequence[Expr]) -> Fragment:
    return context.module.table([n if isinstance(n, int) else _ANY for n in values])
