"""Sources of symbols, such as `size(%x, 0)`, as they are parsed and printed."""

from typing import Any

import attrs

from wrapperir import ir
from wrapperir.ir import SymbolSource
from wrapperir.text.cursor import Cursor
from wrapperir.text.expressions import parse_expression
from wrapperir.text.literals import format_integer, parse_integer
from wrapperir.text.part_printer import PartPrinter

_SOURCES: dict[str, type[Any]] = {
    "size": ir.SizeOf,
    "stride": ir.StrideOf,
    "offset": ir.OffsetOf,
    "value": ir.ValueOf,
    "item": ir.ItemOf,
}
"""The sources of symbols by their words."""
_SOURCE_WORDS = {kind: word for word, kind in _SOURCES.items()}


def parse_source(cursor: Cursor) -> SymbolSource:
    """Take an expression, or a fact of a value."""
    kind = _SOURCES.get(cursor.next)
    if kind is None or not cursor.is_call():
        return parse_expression(cursor)
    cursor.advance()
    cursor.expect("(")
    given: list[str | int] = [cursor.value()]
    if "dim" in attrs.fields_dict(kind):
        cursor.expect(",")
        given.append(parse_integer(cursor))
    cursor.expect(")")
    source: SymbolSource = kind(*given)
    return source


def format_source(part: PartPrinter, source: Any) -> str:
    """Return the text of a source."""
    word = _SOURCE_WORDS.get(source.__class__)
    if word is None:
        return part.expression(source)
    name, *dims = attrs.astuple(source)
    dim = "".join([f", {format_integer(dim)}" for dim in dims])
    return f"{word}(%{part.name(name)}{dim})"
