"""Tables from the text of a part of a line to what it reads as, for shortcuts.

Lines share most of their types and many of their arguments, which are read once.
"""

import re
from collections.abc import Callable
from typing import TypeVar

from wrapperir.ir.expr import Expr
from wrapperir.ir.line import (
    Argument,
    BufferRef,
    KernelArgument,
    Provenance,
    SourceLocation,
)
from wrapperir.ir.types import CPU, Device, TensorType, ValueType
from wrapperir.text.arguments import parse_kernel_argument, parse_operand
from wrapperir.text.cursor import NAME, Cursor
from wrapperir.text.expressions import parse_expression
from wrapperir.text.provenance import parse_provenance
from wrapperir.text.type_syntax import parse_device, parse_value_type

T = TypeVar("T")

PLAIN_STRING = r"(\"[^\"\\\x00-\x1f]*\")"
"""Pattern of a string literal that has no escapes."""

KEYWORD = re.compile(rf"({NAME}) = ")
"""Pattern of the beginning of a keyword argument."""

_ITEM = re.compile(r"(?:[^,\[\]()]++|\[[^\[\]()]*+\]|\([^\[\]()]*+\))++")
_VALUE = re.compile(rf"%{NAME}")
_NUMBER = re.compile(r"[0-9]{1,18}")
_NUMBERS = re.compile(r"(?:[0-9]{1,18}(?:, [0-9]{1,18})*)?")
_STRINGS = r"(\"[^\"\\\x00-\x1f]*+\"(?:, \"[^\"\\\x00-\x1f]*+\")*+)"
_PROVENANCE = re.compile(
    rf"from\((?:nodes\({_STRINGS}\)(?:, (?=[oa])|(?=\))))?"
    rf"(?:operator\({PLAIN_STRING}\)(?:, (?=a)|(?=\))))?"
    rf"(?:at\({PLAIN_STRING}, ([0-9]{{1,18}})\))?\)\Z"
)


class NotApplicable(Exception):  # noqa: N818 - a signal, not an error
    """A part of a line is not in the spelling that shortcuts read."""


class PartTables:
    """The tables of one file.

    Methods raise :class:`NotApplicable` or :class:`Malformed` for what they do not read.
    """

    def __init__(self) -> None:
        """Start with empty tables."""
        self._types: dict[str, ValueType] = {}
        self._operands: dict[str, Argument] = {}
        self._kernel_arguments: dict[str, KernelArgument] = {}
        self._devices: dict[str | None, Device] = {None: CPU}
        self._origins: dict[str | None, Provenance | None] = {None: None}
        self._expressions: dict[str, Expr] = {}
        self._numbers: dict[str, tuple[int, ...]] = {}

    def type(self, text: str) -> ValueType:
        """Read a type."""
        found = self._types.get(text)
        if found is None:
            found = self._types[text] = _read(parse_value_type, text)
        return found

    def tensor(self, text: str) -> TensorType:
        """Read a tensor's type."""
        found = self._types.get(text)
        if found is None:
            found = self.type(text)
        if type(found) is not TensorType:
            raise NotApplicable
        return found

    def origin(self, text: str | None) -> Provenance | None:
        """Read the provenance; ``None`` of ``None``."""
        try:
            return self._origins[text]
        except KeyError:
            assert text is not None
            found = self._origins[text] = _provenance(text)
            return found

    def device(self, text: str | None) -> Device:
        """Read the device; the CPU of ``None``."""
        try:
            return self._devices[text]
        except KeyError:
            assert text is not None
            found = self._devices[text] = _read(parse_device, text)
            return found

    def operand(self, text: str) -> Argument:
        """Read an argument of an operator."""
        try:
            return self._operands[text]
        except KeyError:
            found = self._operands[text] = (
                BufferRef(text[1:])
                if _VALUE.fullmatch(text)
                else _read(parse_operand, text)
            )
            return found

    def kernel_argument(self, text: str) -> KernelArgument:
        """Read an argument of a kernel."""
        try:
            return self._kernel_arguments[text]
        except KeyError:
            found = self._kernel_arguments[text] = (
                BufferRef(text[1:])
                if _VALUE.fullmatch(text)
                else _read(parse_kernel_argument, text)
            )
            return found

    def expression(self, text: str) -> Expr:
        """Read an expression."""
        if _NUMBER.fullmatch(text):
            return int(text)
        found = self._expressions.get(text)
        if found is None:
            found = self._expressions[text] = _read(parse_expression, text)
        return found

    def extents(self, text: str) -> tuple[int, ...]:
        """Read sizes or strides that are numbers."""
        try:
            return self._numbers[text]
        except KeyError:
            if not _NUMBERS.fullmatch(text):
                raise NotApplicable from None
            numbers = tuple(map(int, text.split(", "))) if text else ()
            self._numbers[text] = numbers
            return numbers


def _read(parse: Callable[[Cursor], T], text: str) -> T:
    cursor = Cursor(text)
    found = parse(cursor)
    if cursor.kind != "end" or cursor.start != len(text):  # a remark: not here
        raise NotApplicable
    return found


def _provenance(text: str) -> Provenance | None:
    match = _PROVENANCE.match(text)
    if match is None:
        return _read(parse_provenance, text)
    nodes, operator, file, line = match.groups()
    return Provenance(
        nodes=() if nodes is None else tuple(plain_text(nodes).split('", "')),
        operator=None if operator is None else plain_text(operator),
        location=None if file is None else SourceLocation(plain_text(file), int(line)),
    )


def plain_text(literal: str) -> str:
    """Return the text of a string literal that has no escapes."""
    return literal[1:-1]


def items_of(text: str) -> list[str]:
    """Split arguments at their commas, but not those within brackets."""
    if "(" not in text and "[" not in text:
        return text.split(", ") if text else []
    items = [item.strip(" ") for item in _ITEM.findall(text)]
    if ", ".join(items) != text:
        raise NotApplicable
    return items


def names_of(text: str) -> tuple[str, ...]:
    """Read values; their bare names."""
    names = text.split(", ")
    for name in names:
        if not _VALUE.fullmatch(name):
            raise NotApplicable
    return tuple([name[1:] for name in names])
