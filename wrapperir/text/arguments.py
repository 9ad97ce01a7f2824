"""Parsers of arguments and of kernels' constants."""

import re
from collections.abc import Callable

from wrapperir.diagnostics import Code
from wrapperir.ir import (
    TORCH_ENUM_NAMES,
    Argument,
    BufferRef,
    ComplexLiteral,
    Constant,
    KernelArgument,
    TorchEnum,
)
from wrapperir.text.cursor import Cursor
from wrapperir.text.expressions import parse_expression
from wrapperir.text.literals import parse_signed_number, parse_string
from wrapperir.text.type_syntax import DTYPES, parse_bare_device

_KEYWORD = re.compile(r"[ \t]*=(?!=)")

TORCH_ENUMS = tuple(TORCH_ENUM_NAMES)
"""The kinds of :class:`TorchEnum` that text can spell."""


def parse_kernel_argument(cursor: Cursor) -> KernelArgument:
    """Take ``%name`` or an expression."""
    if cursor.kind == "value":
        return BufferRef(cursor.value())
    return parse_expression(cursor)


def parse_operand(cursor: Cursor) -> Argument:
    """Take one argument of an operator.

    Raises:
        Malformed: no argument follows.
    """
    if cursor.kind == "value":
        return BufferRef(cursor.value())
    if cursor.kind == "string":
        return parse_string(cursor)
    word = cursor.next
    if word == "[":
        return cursor.nested(parse_operand, "[]")
    if word == "none":
        cursor.advance()
        return None
    if cursor.kind == "name" and cursor.is_call():
        special = _SPECIAL.get(word)
        if special is not None:
            cursor.advance()
            cursor.advance()
            argument = special(cursor)
            cursor.expect(")")
            return argument
    return parse_expression(cursor)


def _parse_complex(cursor: Cursor) -> ComplexLiteral:
    real = parse_signed_number(cursor)
    cursor.expect(",")
    return ComplexLiteral(real, parse_signed_number(cursor))


_SPECIAL: dict[str, Callable[[Cursor], Argument]] = {
    "dtype": lambda cursor: cursor.word(DTYPES, "an element type"),
    "device": parse_bare_device,
    "complex": _parse_complex,
    "layout": lambda cursor: TorchEnum("layout", cursor.name("a layout")),
    "memory_format": lambda cursor: TorchEnum(
        "memory_format", cursor.name("a memory format")
    ),
    "quantized_dtype": lambda cursor: TorchEnum(
        "quantized_dtype", cursor.name("a quantized dtype")
    ),
}


def parse_arguments(
    cursor: Cursor,
) -> tuple[tuple[Argument, ...], tuple[tuple[str, Argument], ...]]:
    """Take positional arguments, then keywords, between parentheses."""
    arguments: list[Argument] = []
    keywords: list[tuple[str, Argument]] = []

    def take(cursor: Cursor) -> None:
        if cursor.kind == "name" and _KEYWORD.match(cursor.text, cursor.end):
            name = cursor.name("a keyword")
            cursor.expect("=")
            keywords.append((name, parse_operand(cursor)))
        elif keywords:
            raise cursor.malformed(
                Code.MISPLACED_STATEMENT, "a positional argument after a keyword"
            )
        else:
            arguments.append(parse_operand(cursor))

    cursor.expect("(")
    cursor.listed(take, ")")
    return tuple(arguments), tuple(keywords)


def parse_constant(cursor: Cursor) -> Constant:
    """Take a number, boolean, string or ``none``."""
    if cursor.kind == "string":
        return parse_string(cursor)
    if cursor.accept("none"):
        return None
    if cursor.accept("true"):
        return True
    if cursor.accept("false"):
        return False
    return parse_signed_number(cursor)
