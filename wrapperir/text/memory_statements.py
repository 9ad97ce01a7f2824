"""The lines that allocate, place, name and drop memory, read from text."""

from collections.abc import Callable

from wrapperir.diagnostics import Code
from wrapperir.ir.line import (
    AllocateLine,
    AllocatePoolLine,
    BodyLine,
    FreeLine,
    PlaceLine,
    ReinterpretLine,
    ReuseLine,
    ZeroMode,
)
from wrapperir.text.cursor import Cursor
from wrapperir.text.expressions import parse_expression
from wrapperir.text.provenance import parse_ending
from wrapperir.text.type_syntax import (
    parse_placed_type,
    parse_pool_type,
    parse_tensor_type,
)

ZERO_MODES = {mode.value: mode for mode in ZeroMode}


def _workspace(cursor: Cursor) -> ZeroMode | None:
    if not cursor.accept("workspace"):
        return None
    cursor.expect("(")
    mode = cursor.word(ZERO_MODES, "a zero mode")
    cursor.expect(")")
    return mode


def _allocate(cursor: Cursor, result: str) -> BodyLine:
    if cursor.next == "pool":
        raise cursor.malformed(
            Code.UNKNOWN_WORD,
            "`pool` is not an element type",
            f"write `%{result} = allocate_pool pool[...]`",
        )
    type = parse_tensor_type(cursor)
    workspace = _workspace(cursor)
    return AllocateLine(
        result=result, type=type, workspace=workspace, provenance=parse_ending(cursor)
    )


def _allocate_pool(cursor: Cursor, result: str) -> BodyLine:
    type = parse_pool_type(cursor)
    return AllocatePoolLine(result=result, type=type, provenance=parse_ending(cursor))


def _place(cursor: Cursor, result: str) -> BodyLine:
    type = parse_placed_type(cursor)
    cursor.expect("in")
    pool = cursor.value()
    cursor.expect("at")
    offset = parse_expression(cursor)
    workspace = _workspace(cursor)
    return PlaceLine(
        result=result,
        type=type,
        pool=pool,
        offset=offset,
        workspace=workspace,
        provenance=parse_ending(cursor),
    )


def _reuse(cursor: Cursor, result: str) -> BodyLine:
    source = cursor.value()
    cursor.expect("as")
    type = parse_tensor_type(cursor)
    return ReuseLine(
        result=result, source=source, type=type, provenance=parse_ending(cursor)
    )


def _reinterpret(cursor: Cursor, result: str) -> BodyLine:
    source = cursor.value()
    cursor.expect("as")
    type = parse_tensor_type(cursor)
    return ReinterpretLine(
        result=result, source=source, type=type, provenance=parse_ending(cursor)
    )


def _free(cursor: Cursor) -> BodyLine:
    return FreeLine(buffer=cursor.value(), provenance=parse_ending(cursor))


MEMORY_ONE: dict[str, Callable[[Cursor, str], BodyLine]] = {
    "allocate": _allocate,
    "allocate_pool": _allocate_pool,
    "place": _place,
    "reuse": _reuse,
    "reinterpret": _reinterpret,
}
"""Statements about memory that define one value."""

MEMORY_NONE: dict[str, Callable[[Cursor], BodyLine]] = {"free": _free}
"""Statements about memory that define no value."""
