"""The syntax of kernel definitions, from which they are parsed and printed."""

from typing import Any

from wrapperir.diagnostics import Code
from wrapperir.ir import (
    Access,
    BufferParameter,
    Constant,
    ConstexprParameter,
    DefinitionLine,
    DescriptorParameter,
    KernelConfig,
    KernelDefinitionLine,
    Language,
    MultiKernelLine,
    Parameter,
    ScalarParameter,
    keyword,
)
from wrapperir.text.arguments import parse_constant
from wrapperir.text.cursor import Cursor
from wrapperir.text.expressions import parse_expression
from wrapperir.text.limits import Malformed
from wrapperir.text.line_source import LineSource, opens_block
from wrapperir.text.line_syntax import Part, parse_steps, steps_of
from wrapperir.text.literals import checked_text, format_string, parse_integer, parse_string
from wrapperir.text.part_printer import PartPrinter
from wrapperir.text.positions import ProgramPlaces
from wrapperir.text.provenance import parse_opening
from wrapperir.text.selections import ParameterNames, format_selection, parse_selection
from wrapperir.text.statements import unknown_statement
from wrapperir.text.type_syntax import DTYPES

_LANGUAGES = {language.value: language for language in Language}
_ACCESSES = {access.value: access for access in Access}


def _parse_parameter(cursor: Cursor) -> Parameter:
    """Take ``name: read f32*``, ``name: i32`` or ``name: constexpr``.

    A descriptor is ``name: read descriptor f32[16, 32]``.
    """
    name = cursor.name("a parameter")
    cursor.expect(":")
    if cursor.accept("constexpr"):
        return ConstexprParameter(name)
    access = _ACCESSES.get(cursor.next)
    if access is None:
        return ScalarParameter(name, cursor.word(DTYPES, "a parameter's type"))
    cursor.advance()
    is_descriptor = cursor.accept("descriptor")
    dtype = cursor.word(DTYPES, "an element type")
    if is_descriptor:
        cursor.expect("[")
        block = cursor.listed(parse_integer, "]")
        return DescriptorParameter(name, dtype, block, access)
    cursor.expect("*")
    return BufferParameter(name, dtype, access)


def _parse_binding(cursor: Cursor) -> tuple[str, Constant]:
    name = cursor.name("a name")
    cursor.expect("=")
    return name, parse_constant(cursor)


def _format_binding(part: PartPrinter, binding: tuple[str, Constant]) -> str:
    name, value = binding
    return f"{part.name(name)} = {part.constant(value)}"


def _parse_metadata(cursor: Cursor) -> tuple[str, Constant]:
    key = parse_string(cursor)
    cursor.expect("=")
    return key, parse_constant(cursor)


def _parse_config(cursor: Cursor) -> KernelConfig:
    values: list[tuple[str, int | float | bool | str]] = []
    while cursor.kind != "end":
        start, end = cursor.start, cursor.end
        name, value = _parse_binding(cursor)
        if value is None:
            message = "a config value must not be `none`"
            raise Malformed(Code.UNEXPECTED, message, start, end)
        values.append((name, value))
        if not cursor.accept(","):
            break
        if cursor.kind == "end":
            raise cursor.unexpected("a name")
    return KernelConfig(tuple(values))


def _format_config(part: PartPrinter, config: KernelConfig) -> str:
    return ", ".join([_format_binding(part, binding) for binding in config.values])


def _format_source(_: PartPrinter, source: str) -> str:
    lines = checked_text(source).split("\n")
    return "\n".join(["", *[f"    | {x}" if x else "    |" for x in lines], "  }"])


_KERNEL_PARTS = {
    "grid": Part(
        ("grid",),
        " = (",
        lambda cursor: cursor.listed(parse_expression, ")"),
        lambda part, grid: f"{part.expressions(grid)})",
    ),
    "constant": Part(("constants",), " ", _parse_binding, _format_binding),
    "config": Part(("configs",), " ", _parse_config, _format_config),
    "entry": Part(
        ("entry",),
        " = ",
        lambda cursor: cursor.name("the name of a function"),
        PartPrinter.name,
    ),
    "metadata": Part(
        ("metadata",),
        " ",
        _parse_metadata,
        lambda part, item: f"{format_string(item[0])} = {part.constant(item[1])}",
    ),
    "source": Part(("source",), " {", lambda _: "", _format_source),
}
"""The lines of a kernel definition in their order: each sets a field or adds an item."""


def _multi_kernel_parts(names: ParameterNames) -> dict[str, Part]:
    return {
        "size": Part(("sizes",), " ", names.parse_size, names.format_size),
        "choice": Part(("choices",), " ", names.parse_choice, names.format_choice),
        "select": Part(("selection",), " ", parse_selection, format_selection),
    }


_REPEATED = ("constant", "config", "metadata", "size", "choice")
_REQUIRED = ("entry", "source", "select")
_AFTER = ("kernel_definition", "multi_kernel", "program")
"""Words that begin a line after a definition."""


def format_definition(line: DefinitionLine, part: PartPrinter) -> list[str]:
    """Return the lines of a definition, at the left margin.

    Raises:
        Malformed: no text can spell this definition.
    """
    if isinstance(line, KernelDefinitionLine):
        language, parts = f" {line.language.value}", _KERNEL_PARTS
    else:
        language, parts = "", _multi_kernel_parts(ParameterNames(line.parameters))
    shown = ", ".join([part.parameter(parameter) for parameter in line.parameters])
    origin = part.origin(line.provenance)
    out = [f"{keyword(line)} @{part.name(line.name)}{language}({shown}){origin} {{"]
    for word, item in parts.items():
        value = getattr(line, item.fields[0])
        for content in value if word in _REPEATED else [value] if value != () else []:
            out.append(f"  {word}{item.prefix}{item.format(part, content)}".rstrip(" "))
    return [*out, "}"]


class _Definition:
    """A definition while its lines are read."""

    def __init__(self, cursor: Cursor, is_known: bool = True) -> None:
        """Take the line that opens it; ``is_known`` is false for a placeholder."""
        self.is_kernel = cursor.next == "kernel_definition"
        cursor.advance()
        self.fields: dict[str, Any] = {"name": cursor.kernel()}
        if self.is_kernel:
            self.fields["language"] = cursor.word(_LANGUAGES, "a kernel language")
        cursor.expect("(")
        parameters = cursor.listed(_parse_parameter, ")")
        self.fields |= {"parameters": parameters, "provenance": parse_opening(cursor)}
        names = ParameterNames(parameters, is_known)
        self.parts = _KERNEL_PARTS if self.is_kernel else _multi_kernel_parts(names)
        self.items: dict[str, list[object]] = {
            part.fields[0]: [] for word, part in self.parts.items() if word in _REPEATED
        }
        self._last: str | None = None

    def take(self, cursor: Cursor) -> tuple[str | int, ...]:
        """Take a line; return the path of the field that it sets.

        After ``("source",)`` the lines of the source follow, up to a brace.
        """
        self._check_order(cursor)
        part = self.parts[cursor.next]
        (field,) = part.fields
        cursor.advance()
        found = parse_steps(cursor, steps_of((part,)))
        cursor.expect_end()
        if field not in self.items:
            self.fields |= found
            return (field,)
        self.items[field].append(found[field])
        return (field, len(self.items[field]) - 1)

    def _check_order(self, cursor: Cursor) -> None:
        word, order = cursor.next, list(self.parts)
        if word not in self.parts:
            raise unknown_statement(cursor, order)
        last = self._last
        if word == last and word not in _REPEATED:
            raise cursor.malformed(Code.MISPLACED_STATEMENT, f"`{word}` is given twice")
        if last is not None and order.index(word) < order.index(last):
            raise cursor.malformed(
                Code.MISPLACED_STATEMENT,
                f"`{word}` comes before `{last}`",
                "the order is " + ", ".join(f"`{part}`" for part in order),
            )
        self._last = word

    def finish(self, cursor: Cursor) -> DefinitionLine:
        """Return the definition; ``cursor`` is at the brace that closes it.

        Raises:
            Malformed: a part is missing.
        """
        for word, part in self.parts.items():
            if word in _REQUIRED and part.fields[0] not in self.fields:
                kind = "kernel" if self.is_kernel else "multi-kernel"
                raise cursor.malformed(
                    Code.MISPLACED_STATEMENT,
                    f"{kind} `@{self.fields['name']}` has no `{word}`",
                    "write `select first`" if word == "select" else None,
                )
        fields = dict(self.fields)
        fields.update((name, tuple(items)) for name, items in self.items.items())
        if self.is_kernel:
            return KernelDefinitionLine(**fields)
        return MultiKernelLine(**fields)


def read_definition(
    cursor: Cursor, lines: LineSource, places: ProgramPlaces
) -> DefinitionLine | None:
    """Take a definition, up to its brace; ``None`` after an error has been reported.

    ``cursor`` is at its keyword.

    Raises:
        Malformed: its first line does not parse, and opens no block.
    """
    opened = lines.at - 1
    before = len(lines.diagnostics)
    word = cursor.next
    try:
        definition = _Definition(cursor)
    except Malformed as error:
        if not opens_block(lines.texts[opened]):
            raise
        lines.report(error, opened)
        # A placeholder, so that the errors of its parts are reported too.
        language = " opaque" if word == "kernel_definition" else ""
        definition = _Definition(Cursor(f"{word} @_{language}() {{"), is_known=False)
    placed: dict[tuple[int | str, ...], int] = {}
    while True:
        inner = lines.next()
        line = lines.at - 1
        if inner is None:
            lines.unclosed(opened)
        if inner.next in _AFTER:
            lines.cut_short(inner, opened)
            return None
        try:
            if inner.next == "}":
                if len(lines.diagnostics) > before:
                    return None  # a missing part may be one that did not parse
                found = definition.finish(inner)
                inner.advance()
                inner.expect_end()
                places.definitions.append((opened, placed))
                return found
            path = definition.take(inner)
            placed[path] = line
            if path == ("source",):
                definition.fields["source"] = _read_source(line, lines)
        except Malformed as error:
            lines.report(error, line)
            if inner.next == "}":
                return None
            lines.skip_opened(line)


def _read_source(opened: int, lines: LineSource) -> str:
    source: list[str] = []
    while True:
        if lines.at >= len(lines.texts):
            lines.unclosed(opened)
        line = lines.at
        text = lines.texts[line].lstrip(" \t")
        lines.at += 1
        if text.startswith("|"):
            source.append(text[2:])
            if len(text) > 1 and text[1] != " ":
                at = len(lines.texts[line]) - len(text) + 1
                message = "expected a space after `|`"
                lines.report(Malformed(Code.UNEXPECTED, message, at, at + 1), line)
            continue
        cursor = Cursor(lines.texts[line])
        if cursor.kind == "end":
            continue
        if cursor.next == "}" and not opens_block(lines.texts[line]):
            lines.close(cursor)
            break
        if cursor.next in _AFTER:
            lines.at = line
            break  # the definition is not closed either
        message = "expected `|` or the end of the source"
        hint = "each line of a kernel's source begins with `| `"
        lines.report(cursor.malformed(Code.UNEXPECTED, message, hint), line)
    return "\n".join(source)
