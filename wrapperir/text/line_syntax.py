"""The syntax of the lines of a body, from which they are parsed and printed."""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import attrs
from attrs import frozen

from wrapperir import ir
from wrapperir.diagnostics import Code
from wrapperir.ir import BodyLine, SymbolKind, ZeroMode
from wrapperir.ir.blocks import BLOCK_FIELDS
from wrapperir.text.arguments import parse_arguments, parse_kernel_argument
from wrapperir.text.collective_syntax import (
    format_group,
    format_operation,
    parse_group,
    parse_operation,
)
from wrapperir.text.cursor import Cursor
from wrapperir.text.expressions import parse_expression
from wrapperir.text.literals import (
    format_integer,
    format_string,
    parse_integer,
    parse_string,
)
from wrapperir.text.part_printer import PartPrinter
from wrapperir.text.symbol_sources import format_source, parse_source
from wrapperir.text.type_syntax import (
    parse_device,
    parse_dotted,
    parse_placed_type,
    parse_pool_type,
    parse_tensor_type,
    parse_value_type,
)

T = TypeVar("T")

_ZERO_MODES = {mode.value: mode for mode in ZeroMode}
_SYMBOL_KINDS = {kind.value: kind for kind in SymbolKind}


@frozen
class Part:
    """One field of a line, or several fields with a tuple of values.

    ``prefix`` is printed before it, and parsed except for ``%`` and ``@`` of a name.
    Without a prefix, nothing is printed for an empty value.
    """

    fields: tuple[str, ...]
    prefix: str
    parse: Callable[[Cursor], object]
    format: Callable[[PartPrinter, Any], str]


ParseStep: TypeAlias = tuple[
    str | None, tuple[str, ...], list[str], Callable[[Cursor], object]
]
"""A part's only field or none, all its fields, the tokens before it, and its parser."""


def steps_of(parts: tuple[Part, ...]) -> tuple[ParseStep, ...]:
    """Return the parsing steps of the parts."""
    return tuple(
        (
            part.fields[0] if len(part.fields) == 1 else None,
            part.fields,
            part.prefix.strip("%@ ").split(),
            part.parse,
        )
        for part in parts
    )


def parse_steps(cursor: Cursor, steps: tuple[ParseStep, ...]) -> dict[str, Any]:
    """Take parts; return the values of their fields."""
    found: dict[str, Any] = {}
    for name, fields, words, parse in steps:
        for word in words:
            cursor.expect(word)
        value: Any = parse(cursor)
        if name is not None:
            found[name] = value
        else:
            found.update(zip(fields, value, strict=True))
    return found


Blocks: TypeAlias = tuple[tuple[str, str], ...]
"""The words that begin a line's blocks, each with the line's field for the block."""


@frozen
class LineSyntax:
    """The syntax of a line kind, from its keyword to its provenance or its blocks.

    ``least`` and ``most`` are the numbers of names that it defines.
    """

    kind: Callable[..., BodyLine]
    least: int
    most: int | None
    parts: tuple[Part, ...]
    steps: tuple[ParseStep, ...]
    blocks: Blocks


def _parse_workspace(cursor: Cursor) -> ZeroMode | None:
    if cursor.next != "workspace":
        return None
    cursor.advance()
    cursor.expect("(")
    return cursor.closed(parse_zero_mode)


def parse_zero_mode(cursor: Cursor) -> ZeroMode:
    """Take the zero mode of a workspace."""
    return cursor.word(_ZERO_MODES, "a zero mode")


def _format_workspace(_: PartPrinter, mode: ZeroMode) -> str:
    return f" workspace({mode.value})"


def _parse_number(cursor: Cursor, word: str, default: int) -> int:
    """Take ``word(3)``; without the word, return the default."""
    if cursor.next != word:
        return default
    cursor.advance()
    cursor.expect("(")
    return cursor.closed(parse_integer)


def _parse_stream(cursor: Cursor) -> int:
    return _parse_number(cursor, "stream", 0)


def _format_region(_: PartPrinter, given: tuple[int, int]) -> str:
    words = zip(("stream", "recordings"), given, (0, ir.RECORDINGS), strict=True)
    return "".join(
        [f" {word}({format_integer(n)})" for word, n, left in words if n != left]
    )


def _values(word: str) -> Part:
    """Return the part of a field with the names of arguments: ``writes(%a, %b)``."""

    def parse(cursor: Cursor) -> tuple[str, ...]:
        if cursor.next != word:
            return ()
        cursor.advance()
        cursor.expect("(")
        return cursor.listed(Cursor.value, ")")

    def format(part: PartPrinter, names: tuple[str, ...]) -> str:
        return f" {word}({part.values(names)})"

    return Part((word,), "", parse, format)


def _splits(word: str) -> Part:
    """Return the part of a field with sizes: ``read_splits(4, s0)``."""

    def parse(cursor: Cursor) -> tuple[ir.Expr, ...]:
        if not cursor.accept(word):
            return ()
        cursor.expect("(")
        return cursor.listed(parse_expression, ")")

    return Part(
        (word,), "", parse, lambda part, sizes: f" {word}({part.expressions(sizes)})"
    )


def _expressions(name: str) -> Part:
    return Part(
        (name,),
        " (",
        lambda cursor: cursor.listed(parse_expression, ")"),
        lambda part, values: f"{part.expressions(values)})",
    )


def _format_arguments(part: PartPrinter, given: tuple[Any, Any]) -> str:
    arguments, keywords = given
    shown = [part.operand(argument) for argument in arguments]
    shown += [f"{part.name(name)} = {part.operand(value)}" for name, value in keywords]
    return f"({', '.join(shown)})"


def _operands(name: str, prefix: str = " (") -> Part:
    return Part(
        (name,),
        prefix,
        lambda cursor: cursor.listed(parse_kernel_argument, ")"),
        PartPrinter.closed_operands,
    )


def _parse_indices(cursor: Cursor) -> tuple[int, ...]:
    indices: list[int] = []
    while cursor.accept("["):
        indices.append(parse_integer(cursor))
        cursor.expect("]")
    return tuple(indices)


def _parse_allocated_type(cursor: Cursor) -> ir.TensorType:
    if cursor.next == "pool":
        hint = "write `%name = allocate_pool pool[...]`"
        raise cursor.malformed(Code.UNKNOWN_WORD, "`pool` is not an element type", hint)
    return parse_tensor_type(cursor)


def _parse_result_type(cursor: Cursor) -> ir.ValueType | None:
    return parse_value_type(cursor) if cursor.accept(":") else None


def _format_result_type(part: PartPrinter, type: ir.ValueType) -> str:
    return f" : {part.type(type)}"


def _parse_message(cursor: Cursor) -> str:
    return parse_string(cursor) if cursor.kind == "string" else ""


def _format_message(_: PartPrinter, message: str) -> str:
    return f" {format_string(message)}"


def _parse_bounds(cursor: Cursor) -> tuple[int | None, int | None]:
    if cursor.next == "=":
        return None, None
    lower = None if cursor.next == ".." else parse_integer(cursor)
    cursor.expect("..")
    return lower, None if cursor.next == "=" else parse_integer(cursor)


def _format_bounds(_: PartPrinter, bounds: tuple[int | None, int | None]) -> str:
    if bounds == (None, None):
        return ""
    lower, upper = ["" if bound is None else format_integer(bound) for bound in bounds]
    return f" {lower}..{upper}"


# The table


def _value(name: str, prefix: str = " %") -> Part:
    return Part((name,), prefix, Cursor.value, PartPrinter.name)


_BUFFER = _value("buffer")
_SOURCE = _value("source")
_ON = (
    Part(("device",), "", parse_device, PartPrinter.spaced_device),
    Part(("stream",), "", _parse_stream, lambda _, n: f" stream({format_integer(n)})"),
)
_WORKSPACE = Part(("workspace",), "", _parse_workspace, _format_workspace)
_MESSAGE = Part(("message",), "", _parse_message, _format_message)
_STACKED = Part(
    ("stacked",),
    "",
    lambda cursor: cursor.accept("stacked"),
    lambda _, stacked: " stacked" if stacked else "",
)
_CALL = (Part(("name",), " @", Cursor.kernel, PartPrinter.name), _operands("operands"))
_VIEW = (_SOURCE, Part(("type",), " as ", parse_tensor_type, PartPrinter.tensor))

_PARTS: dict[type[BodyLine], tuple[Part, ...]] = {
    ir.AllocateLine: (
        Part(("type",), " ", _parse_allocated_type, PartPrinter.tensor),
        _WORKSPACE,
    ),
    ir.AllocatePoolLine: (Part(("type",), " ", parse_pool_type, PartPrinter.pool),),
    ir.PlaceLine: (
        Part(("type",), " ", parse_placed_type, PartPrinter.placed),
        _value("pool", " in %"),
        Part(("offset",), " at ", parse_expression, PartPrinter.expression),
        _WORKSPACE,
    ),
    ir.FreeLine: (_BUFFER,),
    ir.ReuseLine: _VIEW,
    ir.ReinterpretLine: _VIEW,
    ir.KernelCallLine: (
        Part(("kernel",), " @", Cursor.kernel, PartPrinter.name),
        _operands("arguments", "("),
        *_ON,
    ),
    ir.ExternKernelLine: (
        Part(
            ("operator",),
            " ",
            lambda cursor: parse_dotted(cursor, "an operator such as `aten.mm.out`"),
            PartPrinter.operator,
        ),
        Part(("arguments", "keywords"), "", parse_arguments, _format_arguments),
        _values("writes"),
        _values("aliases"),
        *_ON,
        Part(("type",), "", _parse_result_type, _format_result_type),
    ),
    ir.MultiOutputLine: (
        _SOURCE,
        Part(
            ("indices",),
            "",
            _parse_indices,
            lambda _, indices: "".join([f"[{format_integer(i)}]" for i in indices]),
        ),
        Part(("type",), " : ", parse_value_type, PartPrinter.type),
    ),
    ir.RecordEventLine: _ON,
    ir.WaitEventLine: (_value("event"), *_ON),
    ir.CollectiveLine: (
        Part(("operation", "reduction"), " ", parse_operation, format_operation),
        Part(("group", "peer"), " ", parse_group, format_group),
        _values("reads"),
        _values("writes"),
        _splits("read_splits"),
        _splits("write_splits"),
        *_ON,
    ),
    ir.WaitCollectiveLine: (_value("work"), _values("reads"), _values("writes"), *_ON),
    ir.SymbolDefinitionLine: (
        Part(
            ("symbol",),
            " ",
            lambda cursor: cursor.name("a symbol"),
            lambda part, name: part.symbols[name],
        ),
        Part(
            ("kind",),
            ": ",
            lambda cursor: cursor.word(_SYMBOL_KINDS, "a kind of symbol"),
            lambda _, kind: kind.value,
        ),
        Part(("lower", "upper"), "", _parse_bounds, _format_bounds),
        Part(("source",), " = ", parse_source, format_source),
    ),
    ir.AssertSizeStrideLine: (
        _BUFFER,
        _expressions("size"),
        _expressions("stride"),
        _MESSAGE,
    ),
    ir.AssertAlignmentLine: (
        _BUFFER,
        Part(("bytes",), " ", parse_integer, lambda _, number: format_integer(number)),
        _MESSAGE,
    ),
    ir.AssertScalarLine: (
        Part(("condition",), " ", parse_expression, PartPrinter.expression),
        _MESSAGE,
    ),
    ir.AssertNotNanLine: (_BUFFER, _MESSAGE),
    ir.CommentLine: (
        Part(("text",), " ", parse_string, lambda _, text: format_string(text)),
    ),
    ir.ConditionalLine: (
        Part(("predicate",), " ", parse_kernel_argument, PartPrinter.operand),
        _operands("operands"),
    ),
    ir.WhileLoopLine: (_STACKED, _operands("carried"), _operands("invariant")),
    ir.SubgraphCallLine: _CALL,
    ir.GraphRegionLine: (
        *_CALL,
        _ON[0],
        Part(
            ("stream", "recordings"),
            "",
            lambda c: (_parse_stream(c), _parse_number(c, "recordings", ir.RECORDINGS)),
            _format_region,
        ),
    ),
}
"""The parts of each line kind between its keyword and its provenance or results' types."""


def _syntax_of(kind: type[BodyLine]) -> LineSyntax:
    fields = attrs.fields_dict(kind)
    least, most = 0, None if "results" in fields else 0
    if "result" in fields:
        least, most = int(fields["result"].default is attrs.NOTHING), 1
    names = BLOCK_FIELDS.get(kind, ())
    blocks = tuple((name.removeprefix("on_"), name) for name in names)
    parts = _PARTS[kind]
    return LineSyntax(kind, least, most, parts, steps_of(parts), blocks)


SYNTAX = {kind: _syntax_of(kind) for kind in ir.BODY_LINES}
"""The syntax of each line kind."""
