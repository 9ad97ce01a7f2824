"""Parsers of arguments, of kernels' constants, and of provenance at the end of a line."""

import re
from collections.abc import Callable
from typing import Any

from wrapperir.diagnostics import Code
from wrapperir.ir import (
    TORCH_ENUM_NAMES,
    Argument,
    BufferRef,
    ComplexLiteral,
    Constant,
    KernelArgument,
    Provenance,
    SourceLocation,
    TorchEnum,
)
from wrapperir.text.cursor import Cursor
from wrapperir.text.expressions import parse_expression
from wrapperir.text.literals import parse_integer, parse_signed_number, parse_string
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


# The end of a line


def parse_ending(cursor: Cursor) -> Provenance | None:
    """Take the provenance, if any, and the end of the line."""
    if cursor.next != "from":
        cursor.expect_end()
        return None
    spelling = cursor.text[cursor.start :]
    provenances = cursor.memo.provenances
    provenance = provenances.get(spelling)
    if provenance is None:
        provenance = _parse_provenance(cursor)
        cursor.expect_end()
        provenances[spelling] = provenance
    return provenance


def parse_opening(cursor: Cursor) -> Provenance | None:
    """Take the provenance, if any, the brace of a block and the end of the line."""
    provenance = _parse_provenance(cursor) if cursor.next == "from" else None
    cursor.expect("{")
    cursor.expect_end()
    return provenance


def _parse_provenance(cursor: Cursor) -> Provenance:
    """Take ``from(nodes("a"), operator("b"), at("file.py", 1))``."""
    cursor.advance()
    cursor.expect("(")
    found: dict[str, Any] = {}
    parts = list(_PROVENANCE)
    while cursor.next != ")" or found:
        word = cursor.next
        if word not in parts:
            raise cursor.unexpected(" or ".join(f"`{part}`" for part in parts) or "`)`")
        del parts[: parts.index(word) + 1]
        cursor.advance()
        cursor.expect("(")
        name, parse = _PROVENANCE[word]
        found[name] = parse(cursor)
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return Provenance(**found)


def _parse_operator(cursor: Cursor) -> str:
    operator = parse_string(cursor)
    cursor.expect(")")
    return operator


def _parse_location(cursor: Cursor) -> SourceLocation:
    file = parse_string(cursor)
    cursor.expect(",")
    line = parse_integer(cursor)
    cursor.expect(")")
    return SourceLocation(file, line)


_PROVENANCE: dict[str, tuple[str, Callable[[Cursor], object]]] = {
    "nodes": ("nodes", lambda cursor: cursor.listed(parse_string, ")")),
    "operator": ("operator", _parse_operator),
    "at": ("location", _parse_location),
}
"""The parts of a provenance in order, each with its field."""
