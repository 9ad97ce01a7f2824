"""The syntax of collectives: operation, reduction, group and peer."""

from wrapperir import ir
from wrapperir.text.cursor import Cursor
from wrapperir.text.literals import (
    format_integer,
    format_string,
    parse_integer,
    parse_string,
)
from wrapperir.text.part_printer import PartPrinter

_OPERATIONS = {operation.value: operation for operation in ir.Collective}
_REDUCTIONS = {reduction.value: reduction for reduction in ir.RankReduction}


def parse_operation(cursor: Cursor) -> tuple[ir.Collective, ir.RankReduction | None]:
    """Take ``all_reduce(sum)``."""
    operation = cursor.word(_OPERATIONS, "a collective")
    if not cursor.accept("("):
        return operation, None
    return operation, cursor.closed(lambda c: c.word(_REDUCTIONS, "a reduction"))


def format_operation(
    _: PartPrinter, given: tuple[ir.Collective, ir.RankReduction | None]
) -> str:
    """Return ``all_reduce(sum)``."""
    operation, reduction = given
    return operation.value + (f"({reduction.value})" if reduction else "")


def parse_group(cursor: Cursor) -> tuple[str, int | None]:
    """Take the name of a group, and ``peer(0)`` if it is there."""
    group = parse_string(cursor)
    if cursor.next != "peer":
        return group, None
    cursor.advance()
    cursor.expect("(")
    return group, cursor.closed(parse_integer)


def format_group(_: PartPrinter, given: tuple[str, int | None]) -> str:
    """Return the name of a group, and its peer."""
    group, peer = given
    shown = "" if peer is None else f" peer({format_integer(peer)})"
    return format_string(group) + shown
