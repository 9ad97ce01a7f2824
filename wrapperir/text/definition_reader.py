"""Reader of kernel definitions and their sources, with recovery from errors."""

from wrapperir.diagnostics import Code
from wrapperir.ir import DefinitionLine
from wrapperir.text.cursor import Cursor
from wrapperir.text.definitions import KernelParts, MultiKernelParts
from wrapperir.text.limits import Malformed
from wrapperir.text.line_source import LineSource
from wrapperir.text.positions import ProgramPlaces

_AFTER = ("kernel_definition", "multi_kernel", "program")
"""Words that begin a line after a definition."""


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
    is_kernel = cursor.accept("kernel_definition")
    if not is_kernel:
        cursor.advance()
    kind = KernelParts if is_kernel else MultiKernelParts
    try:
        parts = kind(cursor)
    except Malformed as error:
        if not lines.opens_block(opened):
            raise
        lines.report(error, opened)
        # Placeholders, so that the errors of its parts are reported too.
        parts = (
            KernelParts(Cursor("@_ opaque() {"))
            if is_kernel
            else MultiKernelParts(Cursor("@_() {"), known=False)
        )
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
                definition = parts.finish(inner)
                inner.advance()
                inner.expect_end()
                places.definitions.append((opened, placed))
                return definition
            path = parts.take(inner)
            placed[path] = line
            if path == ("source",) and isinstance(parts, KernelParts):
                parts.source = _read_source(line, lines)
        except Malformed as error:
            lines.report(error, line)
            if inner.next == "}":
                return None
            lines.skip_opened(line)


def _read_source(opened: int, lines: LineSource) -> list[str]:
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
                start = len(lines.texts[line]) - len(text) + 1
                lines.report(
                    Malformed(
                        Code.UNEXPECTED,
                        "expected a space after `|`",
                        start,
                        start + 1,
                    ),
                    line,
                )
            continue
        cursor = Cursor(lines.texts[line])
        if cursor.kind == "end":
            continue
        if cursor.next == "}" and not lines.opens_block(line):
            lines.close(cursor)
            return source
        if cursor.next in _AFTER:
            lines.at = line
            return source  # the definition is not closed either
        hint = "each line of a kernel's source begins with `| `"
        lines.report(
            cursor.malformed(
                Code.UNEXPECTED, "expected `|` or the end of the source", hint
            ),
            line,
        )
