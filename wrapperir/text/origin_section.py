"""The section after a program that lists places, lists of origins, and origins."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from attrs import define, field

from wrapperir.diagnostics import Code
from wrapperir.ir import NodeOrigin, Program, SourcePlace, is_operator
from wrapperir.text.cursor import Cursor
from wrapperir.text.limits import WRITE_ERRORS, Malformed, placed
from wrapperir.text.line_source import LineSource
from wrapperir.text.literals import (
    format_integer,
    format_string,
    parse_integer,
    parse_string,
)
from wrapperir.text.part_printer import PartPrinter
from wrapperir.text.positions import ProgramPlaces, Span
from wrapperir.text.provenance import is_numbered, parse_origin

T = TypeVar("T")

ORIGINS = "origins"
"""The word that opens the section."""


def format_origins(program: Program, part: PartPrinter) -> list[str]:
    """Return the lines of the section, after an empty one; none if nothing is listed.

    Raises:
        Malformed: no text can spell a place or an origin.
    """
    fused = part.fused or {}
    if not (program.places or fused or program.origins):
        return []
    return [
        *("", f"{ORIGINS} {{"),
        *[f"  {x}" for x in _rows("places", enumerate(program.places), _format_place)],
        *[f"  fused {number}: {part.origin_list(each)}" for each, number in fused.items()],
        *_origin_rows(program.origins, part),
        "}",
    ]


def _origin_rows(origins: Sequence[NodeOrigin], part: PartPrinter) -> list[str]:
    """Return a line for each run of origins that differ in their names alone."""
    names = _rows("origins", origins, lambda each: part.origin_names[each.name])
    facts = _rows("origins", origins, _format_facts)
    rows: list[str] = []
    for fact, run in itertools.groupby(range(len(origins)), facts.__getitem__):
        rows.append(f"  {', '.join([names[index] for index in run])}:{fact}")
    return rows


def _rows(field: str, items: Iterable[T], format: Callable[[T], str]) -> list[str]:
    rows: list[str] = []
    try:
        for item in items:
            rows.append(format(item))
    except WRITE_ERRORS as error:
        raise placed(error, field, len(rows)) from None
    return rows


def _format_place(numbered: tuple[int, SourcePlace]) -> str:
    number, place = numbered
    text = f"place {number}: {format_string(place.file)} {format_integer(place.line)}"
    if place.function is not None:
        text += f" {format_string(place.function)}"
    if place.caller is not None:
        text += f" from {format_integer(place.caller)}"
    return text


def _format_facts(origin: NodeOrigin) -> str:
    text = ""
    if origin.operator is not None:
        is_plain = is_operator(origin.operator)
        text += f" {origin.operator if is_plain else format_string(origin.operator)}"
    if origin.module is not None:
        text += f" in {format_string(origin.module)}"
    if origin.place is not None:
        text += f" at {format_integer(origin.place)}"
    return text


@define
class OriginSection:
    """The section of a text: its first line, the line after it, and what it lists.

    A text without one has an empty section that no line begins.
    """

    begin: int = -1
    end: int = -1
    places: list[SourcePlace] = field(factory=list[SourcePlace])
    fused: list[tuple[str, ...]] = field(factory=list[tuple[str, ...]])
    origins: list[NodeOrigin] = field(factory=list[NodeOrigin])


def read_origins(lines: LineSource, positions: ProgramPlaces) -> OriginSection:
    """Return the section of a text.

    It is read before the program, whose lines refer to it.  Malformed lines are reported.
    """
    section = OriginSection(_find_section(lines.texts))
    if section.begin >= 0:
        before, lines.at = lines.at, section.begin
        _read_section(lines, section, positions)
        section.end, lines.at = lines.at, before
        lines.memo.fused = section.fused
    return section


def _find_section(texts: list[str]) -> int:
    """Return the last line that opens a section, if it comes after the program's."""
    for index in range(len(texts) - 1, -1, -1):
        word = texts[index].lstrip(" \t")
        if word.startswith(ORIGINS) and Cursor(word).next == ORIGINS:
            return index
        if word.startswith("program"):
            break
    return -1


def _read_section(
    lines: LineSource, section: OriginSection, positions: ProgramPlaces
) -> None:
    opening = lines.next()
    assert opening is not None
    opening.advance()
    try:
        opening.expect("{")
        opening.expect_end()
    except Malformed as error:
        lines.report(error, section.begin)
    while (cursor := lines.next()) is not None:
        line = lines.at - 1
        if cursor.next == "}":
            lines.close(cursor)
            return
        try:
            _read_row(cursor, section, positions, line)
        except Malformed as error:
            lines.report(error, line)
    lines.report_unclosed(section.begin)


def _read_row(
    cursor: Cursor, section: OriginSection, positions: ProgramPlaces, line: int
) -> None:
    """Take one line; a malformed one that has a number still counts."""
    if is_numbered(cursor, "place"):
        positions.places.append(line)
        section.places.append(SourcePlace(file="", line=0))
        _take_number(cursor, len(section.places) - 1)
        section.places[-1] = _parse_place(cursor)
    elif is_numbered(cursor, "fused"):
        section.fused.append(())
        _take_number(cursor, len(section.fused) - 1)
        section.fused[-1] = _parse_list(cursor)
    else:
        spans: list[Span] = []
        section.origins += _parse_origins(cursor, line, spans)
        positions.origins += spans
    cursor.expect_end()


def _take_number(cursor: Cursor, number: int) -> None:
    word = cursor.next
    cursor.advance()
    if cursor.next != str(number):
        hint = "the numbers begin at 0 and leave none out"
        message = f"expected `{word} {number}`"
        raise cursor.malformed(Code.MISPLACED_STATEMENT, message, hint)
    cursor.advance()
    cursor.expect(":")


def _parse_list(cursor: Cursor) -> tuple[str, ...]:
    names = [parse_origin(cursor)]
    while cursor.accept(","):
        names.append(parse_origin(cursor))
    return tuple(names)


def _parse_place(cursor: Cursor) -> SourcePlace:
    file, line = parse_string(cursor), parse_integer(cursor)
    function = parse_string(cursor) if cursor.kind == "string" else None
    caller = parse_integer(cursor) if cursor.accept("from") else None
    return SourcePlace(file=file, line=line, function=function, caller=caller)


def _parse_origins(cursor: Cursor, line: int, spans: list[Span]) -> list[NodeOrigin]:
    """Take the names of origins, what is known of all of them, and the names' places."""
    names: list[str] = []
    while not names or cursor.accept(","):
        start, end = cursor.start, cursor.end
        names.append(parse_origin(cursor))
        spans.append((line, start, end))
    cursor.expect(":")
    operator = None
    if cursor.kind == "string":
        operator = parse_string(cursor)
    elif is_operator(cursor.next):
        operator = cursor.next
        cursor.advance()
    module = parse_string(cursor) if cursor.accept("in") else None
    place = parse_integer(cursor) if cursor.accept("at") else None
    return [
        NodeOrigin(name=name, operator=operator, module=module, place=place)
        for name in names
    ]
