"""Parsing of programs, expressions and types from text."""

import gc
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from attrs import frozen

from wrapperir.diagnostics import Code, DiagnosticError, LinePath, Position
from wrapperir.ir import Expr, Program, ValueType
from wrapperir.text.cursor import Cursor
from wrapperir.text.expressions import parse_expression
from wrapperir.text.limits import Malformed
from wrapperir.text.positions import Positions
from wrapperir.text.reader import Reader
from wrapperir.text.type_syntax import parse_value_type

T = TypeVar("T")


@frozen
class ParsedText:
    """A program and the positions of its parts in its text."""

    program: Program
    positions: Mapping[LinePath, Position]


def parse_program(text: str) -> Program:
    """Return the program that ``text`` spells; the time is linear in its length.

    Raises:
        DiagnosticError: ``text`` is malformed.  Every malformed line is reported, up to
            100 of them, except lines in a block that no known statement opens.
    """
    return _read(text).program


def parse_with_positions(text: str) -> ParsedText:
    """Return the program that ``text`` spells, with the positions of its parts.

    Raises:
        DiagnosticError: as :func:`parse_program`.
    """
    return _read(text)


@contextmanager
def paused_collector() -> Generator[None]:
    """Pause the cyclic garbage collector; leave it as it was found.

    Parsing allocates millions of objects that stay and form no cycles.  The collector would
    traverse them repeatedly, for two thirds of the time.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _read(text: str) -> ParsedText:
    _check_encoding(text)
    with paused_collector():
        reader = Reader(text)
        program = reader.read()
    return ParsedText(program, Positions(reader.lines.texts, reader.places))


def _check_encoding(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start)
        column = error.start - (text.rfind("\n", 0, error.start) + 1)
        found = Malformed(Code.BAD_ENCODING, "a lone surrogate", column, column + 1)
        raise DiagnosticError(found.read(line)) from None


def parse_expr(text: str) -> Expr:
    """Return the expression that ``text`` spells.

    Raises:
        DiagnosticError: ``text`` is not an expression.
    """
    return _parse_all(parse_expression, text)


def parse_type(text: str) -> ValueType:
    """Return the type that ``text`` spells.

    Raises:
        DiagnosticError: ``text`` is not a type.
    """
    return _parse_all(parse_value_type, text)


def _parse_all(parse: Callable[[Cursor], T], text: str) -> T:
    cursor = Cursor(text)
    try:
        found = parse(cursor)
        cursor.expect_end()
    except Malformed as error:
        raise DiagnosticError(error.read(0)) from None
    return found
