"""Formatting of programs, lines, expressions and types as text."""

from collections.abc import Callable, Mapping

from wrapperir.diagnostics import Code, DiagnosticError, LinePath, Position
from wrapperir.ir import AnyLine, Expr, Program, ValueType
from wrapperir.text.limits import WRITE_ERRORS, Malformed, placed
from wrapperir.text.parse import parse_with_positions
from wrapperir.text.part_printer import PartPrinter
from wrapperir.text.printer import Printer


def format_program(program: Program) -> str:
    """Return the text of a program; equal programs have equal text.

    A program need not be valid to be printed.

    Raises:
        DiagnosticError: the program holds something that text cannot spell, such as a name
            that is not an identifier; ``path`` says where.
    """
    return _checked(lambda: _format_program(program))


def _format_program(program: Program) -> str:
    printer = Printer()
    printer.program(program)
    text = "\n".join(printer.lines)
    for index, line in enumerate(program.definitions):
        if not _encodable(getattr(line, "source", "")):
            error = Malformed(Code.BAD_STRING, "a kernel's source with a lone surrogate")
            raise error.within("definitions", index)
    return text


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def format_with_positions(program: Program) -> tuple[str, Mapping[LinePath, Position]]:
    """Return the text of a program and the positions of its parts.

    The positions come from parsing the text.

    Raises:
        DiagnosticError: as :func:`format_program`.
    """
    text = format_program(program)
    return text, parse_with_positions(text).positions


def format_line(line: AnyLine) -> str:
    """Return the text of one line, with its blocks if it has any, at the left margin.

    Raises:
        DiagnosticError: as :func:`format_program`.
    """

    def write() -> str:
        printer = Printer()
        printer.visit(line)
        return "\n".join(printer.lines)

    return _checked(write)


def format_expr(expr: Expr) -> str:
    """Return the text of an expression.

    Raises:
        DiagnosticError: as :func:`format_program`.
    """
    return _checked(lambda: PartPrinter().expression(expr))


def format_type(type: ValueType) -> str:
    """Return the text of a type.

    Raises:
        DiagnosticError: as :func:`format_program`.
    """
    return _checked(lambda: PartPrinter().type(type))


def _checked(write: Callable[[], str]) -> str:
    try:
        return write()
    except WRITE_ERRORS as error:
        raise DiagnosticError(placed(error).written()) from None
