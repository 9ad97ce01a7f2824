"""Pipelines as text, such as ``insert_frees, plan_memory(planned = "both")``."""

import math
from typing import TypeAlias

from attrs import field, frozen

from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError, Position
from wrapperir.text.cursor import Cursor
from wrapperir.text.limits import Malformed
from wrapperir.text.literals import (
    SPECIAL_FLOATS,
    format_number,
    format_string,
    parse_signed_number,
    parse_string,
)

PassArgument: TypeAlias = bool | int | float | str
"""A value that a pass may be given."""

_BOOLEANS = {"true": True, "false": False}


@frozen
class PassCall:
    """A pass or a pipeline by its name, and the arguments that it is given by name.

    ``position`` is its place in the text that was parsed; comparisons leave it out.
    """

    name: str
    arguments: tuple[tuple[str, PassArgument], ...] = ()
    position: Position | None = field(default=None, eq=False)


def parse_pipeline(text: str) -> tuple[PassCall, ...]:
    """Return the calls that a pipeline's text names, in order; a blank text has none.

    Raises:
        DiagnosticError: WIR741, the text is malformed.
    """
    cursor = Cursor(text)
    try:
        if cursor.kind == "end":
            return ()
        calls = [_parse_call(cursor)]
        while cursor.accept(","):
            calls.append(_parse_call(cursor))
        if cursor.kind != "end":
            raise cursor.unexpected("a comma or the end")
    except Malformed as error:
        found = error.read(0)
        raise DiagnosticError(
            Diagnostic(
                Code.BAD_PIPELINE, found.message, position=found.position, hint=found.hint
            )
        ) from None
    return tuple(calls)


def format_pipeline(calls: tuple[PassCall, ...]) -> str:
    """Return the text of calls; :func:`parse_pipeline` returns them again."""
    return ", ".join(map(format_call, calls))


def format_call(call: PassCall) -> str:
    """Return the text of one call."""
    if not call.arguments:
        return call.name
    given = (f"{name} = {format_argument(value)}" for name, value in call.arguments)
    return f"{call.name}({', '.join(given)})"


def format_argument(value: PassArgument) -> str:
    """Return the literal of an argument."""
    return format_string(value) if isinstance(value, str) else format_number(value)


def _parse_call(cursor: Cursor) -> PassCall:
    start = cursor.start
    name = cursor.name("the name of a pass")
    position = Position(1, start + 1, len(name))
    arguments: tuple[tuple[str, PassArgument], ...] = ()
    if cursor.accept("("):
        arguments = cursor.listed(_parse_named, ")")
    return PassCall(name, arguments, position)


def _parse_named(cursor: Cursor) -> tuple[str, PassArgument]:
    name = cursor.name("the name of an argument")
    cursor.expect("=")
    return name, _parse_argument(cursor)


def _parse_argument(cursor: Cursor) -> PassArgument:
    if cursor.kind == "string":
        return parse_string(cursor)
    if cursor.next in _BOOLEANS:
        return cursor.word(_BOOLEANS, "a literal")
    if cursor.kind == "number" or cursor.next in ("-", *SPECIAL_FLOATS):
        start = cursor.start
        value = parse_signed_number(cursor)
        if math.isnan(value):
            message = "an argument cannot be `nan`"
            raise Malformed(Code.BAD_PIPELINE, message, start, start + 3)
        return value
    raise cursor.unexpected("a number, a string, `true` or `false`")
