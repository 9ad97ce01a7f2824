"""Shortcuts for lines in the printer's own spelling, which make reading fast.

For each common statement one pattern splits the line where no string, brace or nested
parenthesis is in the way, and tables map the text of types, arguments and provenance to
what they read as, so a type that a thousand lines share is read once.  The parts on
either side of a split are read by the full grammar.  A line that no shortcut takes is
read by :mod:`wrapperir.text.statements`, which also reports what is wrong with it; a test
holds the two to the same result.
"""

import re
from collections.abc import Callable
from typing import TypeVar

from wrapperir.ir.line import (
    AllocateLine,
    Argument,
    AssertAlignmentLine,
    AssertNotNanLine,
    AssertSizeStrideLine,
    BodyLine,
    BufferRef,
    CommentLine,
    ExternKernelLine,
    FreeLine,
    KernelArgument,
    KernelCallLine,
    MultiOutputLine,
    Provenance,
    ReinterpretLine,
    ReuseLine,
    SourceLocation,
    SymbolDefinitionLine,
    SymbolSource,
)
from wrapperir.ir.types import CPU, Device, TensorType, ValueType
from wrapperir.text.arguments import parse_kernel_argument, parse_operand
from wrapperir.text.cursor import NAME, Cursor
from wrapperir.text.provenance import parse_provenance
from wrapperir.text.statements import (
    SOURCES_OF_DIM,
    SOURCES_OF_VALUE,
    SYMBOL_KINDS,
    ZERO_MODES,
)
from wrapperir.text.type_syntax import parse_device, parse_value_type

T = TypeVar("T")
Shortcut = Callable[[str, int, str | None], BodyLine | None]
"""Takes a line, where its keyword ends and its result; ``None`` where it does not apply."""

_TYPE = r"([a-z0-9_]+(?:\[[^\]\"{]*\](?:@[A-Za-z0-9_:]+)?(?: \{[^}\"]*\})?)?)"
_STRING = r"(\"[^\"\\\x00-\x1f]*\")"
_FROM = r"(?: (from\(.*\)))?\Z"
_ON = r"(?: (@[A-Za-z0-9_:]+))?(?: stream\(([0-9]{1,9})\))?"
_LIST = r"\(([^()\"]*+(?:\([^()\"]*+\)[^()\"]*+)*+)\)"


def _pattern(text: str) -> Callable[[str, int], re.Match[str] | None]:
    return re.compile(text, re.DOTALL).match


HEAD = _pattern(rf" *(?:%({NAME}) = )?([a-z_]+) ")
"""The result and keyword of a line."""

_ALLOCATE = _pattern(rf"{_TYPE}(?: workspace\(([a-z_]+)\))?{_FROM}")
_FREE = _pattern(rf"%({NAME}){_FROM}")
_AS = _pattern(rf"%({NAME}) as {_TYPE}{_FROM}")
_KERNEL_CALL = _pattern(rf"@({NAME}){_LIST}{_ON}{_FROM}")
_EXTERN_KERNEL = _pattern(
    rf"([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)+){_LIST}"
    rf"(?: writes\(([^()\"]*)\))?(?: aliases\(([^()\"]*)\))?{_ON}"
    rf"(?: : (?:{_TYPE}|(\([^()\"]*\))))?{_FROM}"
)
_MULTI_OUTPUT = _pattern(rf"%({NAME})\[([0-9]{{1,9}})\] : {_TYPE}{_FROM}")
_SIZE_STRIDE = _pattern(rf"%({NAME}) \(([0-9, ]*)\) \(([0-9, ]*)\)(?: {_STRING})?{_FROM}")
_ALIGNMENT = _pattern(rf"%({NAME}) ([0-9]{{1,9}})(?: {_STRING})?{_FROM}")
_NOT_NAN = _pattern(rf"%({NAME})(?: {_STRING})?{_FROM}")
_COMMENT = _pattern(rf"{_STRING}{_FROM}")

_SYMBOL = _pattern(
    rf"({NAME}): (int|float|bool)(?: ([0-9]{{1,18}})?\.\.([0-9]{{1,18}})?)?"
    rf" = ([a-z]+)\(%({NAME})(?:, ([0-9]{{1,9}}))?\){_FROM}"
)

_ITEM = re.compile(r"(?:[^,\[\]()]|\[[^\[\]()]*\]|\([^\[\]()]*\))++")
_VALUE = re.compile(rf"%{NAME}")
_KEYWORD = re.compile(rf"({NAME}) = ")
_NUMBERS = re.compile(r"(?:[0-9]{1,18}(?:, [0-9]{1,18})*)?")


_STRINGS = r"(\"[^\"\\\x00-\x1f]*+\"(?:, \"[^\"\\\x00-\x1f]*+\")*+)"
_PROVENANCE = _pattern(
    rf"from\((?:nodes\({_STRINGS}\)(?:, (?=[oa])|(?=\))))?"
    rf"(?:operator\({_STRING}\)(?:, (?=a)|(?=\))))?"
    rf"(?:at\({_STRING}, ([0-9]{{1,18}})\))?\)\Z"
)


class _NotApplicable(Exception):  # noqa: N818 - a signal, not an error
    """A part of the line is not in the spelling that shortcuts read."""


class Shortcuts:
    """The shortcuts, with tables for one file."""

    def __init__(self) -> None:
        """Start with empty tables."""
        self._types: dict[str, ValueType] = {}
        self._operands: dict[str, Argument] = {}
        self._kernel_arguments: dict[str, KernelArgument] = {}
        self._devices: dict[str | None, Device] = {None: CPU}
        self._origins: dict[str | None, Provenance | None] = {None: None}
        self._numbers: dict[str, tuple[int, ...]] = {}
        self.by_keyword: dict[str, Shortcut] = {
            "allocate": self._allocate,
            "free": self._free,
            "reuse": self._reuse,
            "reinterpret": self._reinterpret,
            "kernel_call": self._kernel_call,
            "extern_kernel": self._extern_kernel,
            "multi_output": self._multi_output,
            "assert_size_stride": self._assert_size_stride,
            "assert_alignment": self._assert_alignment,
            "assert_not_nan": self._assert_not_nan,
            "comment": self._comment,
            "symbol_definition": self._symbol,
        }

    def read(self, text: str) -> BodyLine | None:
        """Return the line that ``text`` spells, or ``None`` where no shortcut applies.

        Raises:
            Malformed: a part of the line does not parse.
        """
        head = HEAD(text, 0)
        if head is None:
            return None
        shortcut = self.by_keyword.get(head[2])
        if shortcut is None:
            return None
        try:
            return shortcut(text, head.end(), head[1])
        except _NotApplicable:
            return None

    def read_entry_symbol(self, text: str) -> BodyLine | None:
        """Return the symbol that a line before the body defines, as :meth:`read` does."""
        head = HEAD(text, 0)
        if head is None or head[2] != "symbol":
            return None
        try:
            return self._symbol(text, head.end(), head[1])
        except _NotApplicable:
            return None

    def _type(self, text: str) -> ValueType:
        found = self._types.get(text)
        if found is None:
            found = self._types[text] = _read(parse_value_type, text)
        return found

    def _tensor(self, text: str) -> TensorType:
        found = self._types.get(text)
        if found is None:
            found = self._type(text)
        if type(found) is not TensorType:
            raise _NotApplicable
        return found

    def _origin(self, text: str | None) -> Provenance | None:
        try:
            return self._origins[text]
        except KeyError:
            assert text is not None
            found = self._origins[text] = _provenance(text)
            return found

    def _device(self, text: str | None) -> Device:
        try:
            return self._devices[text]
        except KeyError:
            assert text is not None
            found = self._devices[text] = _read(parse_device, text)
            return found

    def _operand(self, text: str) -> Argument:
        try:
            return self._operands[text]
        except KeyError:
            found = self._operands[text] = (
                BufferRef(text[1:])
                if _VALUE.fullmatch(text)
                else _read(parse_operand, text)
            )
            return found

    def _kernel_argument(self, text: str) -> KernelArgument:
        try:
            return self._kernel_arguments[text]
        except KeyError:
            found = self._kernel_arguments[text] = (
                BufferRef(text[1:])
                if _VALUE.fullmatch(text)
                else _read(parse_kernel_argument, text)
            )
            return found

    def _allocate(self, text: str, at: int, result: str | None) -> BodyLine | None:
        match = _ALLOCATE(text, at)
        if match is None or result is None:
            return None
        type, mode, origin = match.groups()
        if mode is not None and mode not in ZERO_MODES:
            return None
        return AllocateLine(
            result=result,
            type=self._tensor(type),
            workspace=None if mode is None else ZERO_MODES[mode],
            provenance=self._origin(origin),
        )

    def _free(self, text: str, at: int, result: str | None) -> BodyLine | None:
        match = _FREE(text, at)
        if match is None or result is not None:
            return None
        buffer, origin = match.groups()
        return FreeLine(buffer=buffer, provenance=self._origin(origin))

    def _reuse(self, text: str, at: int, result: str | None) -> BodyLine | None:
        match = _AS(text, at)
        if match is None or result is None:
            return None
        source, type, origin = match.groups()
        return ReuseLine(
            result=result,
            source=source,
            type=self._tensor(type),
            provenance=self._origin(origin),
        )

    def _reinterpret(self, text: str, at: int, result: str | None) -> BodyLine | None:
        match = _AS(text, at)
        if match is None or result is None:
            return None
        source, type, origin = match.groups()
        return ReinterpretLine(
            result=result,
            source=source,
            type=self._tensor(type),
            provenance=self._origin(origin),
        )

    def _kernel_call(self, text: str, at: int, result: str | None) -> BodyLine | None:
        match = _KERNEL_CALL(text, at)
        if match is None or result is not None:
            return None
        kernel, arguments, device, stream, origin = match.groups()
        return KernelCallLine(
            kernel=kernel,
            arguments=tuple([self._kernel_argument(a) for a in _items(arguments)]),
            device=self._device(device),
            stream=0 if stream is None else int(stream),
            provenance=self._origin(origin),
        )

    def _extern_kernel(self, text: str, at: int, result: str | None) -> BodyLine | None:
        match = _EXTERN_KERNEL(text, at)
        if match is None:
            return None
        operator, given, writes, aliases, device, stream, type, types, origin = (
            match.groups()
        )
        if len(operator) > 1000:
            return None
        type = type or types
        items = _items(given)
        keywords: list[tuple[str, Argument]] = []
        if " = " in given:
            while items and (keyword := _KEYWORD.match(items[-1])):
                keywords.append((keyword[1], self._operand(items.pop()[keyword.end() :])))
            keywords.reverse()
        return ExternKernelLine(
            result=result,
            type=None if type is None else self._type(type),
            operator=operator,
            arguments=tuple([self._operand(item) for item in items]),
            keywords=tuple(keywords),
            writes=() if writes is None else _names(writes),
            aliases=() if aliases is None else _names(aliases),
            device=self._device(device),
            stream=0 if stream is None else int(stream),
            provenance=self._origin(origin),
        )

    def _multi_output(self, text: str, at: int, result: str | None) -> BodyLine | None:
        match = _MULTI_OUTPUT(text, at)
        if match is None or result is None:
            return None
        source, index, type, origin = match.groups()
        return MultiOutputLine(
            result=result,
            source=source,
            indices=(int(index),),
            type=self._type(type),
            provenance=self._origin(origin),
        )

    def _extents(self, text: str) -> tuple[int, ...]:
        try:
            return self._numbers[text]
        except KeyError:
            if not _NUMBERS.fullmatch(text):
                raise _NotApplicable from None
            numbers = tuple(map(int, text.split(", "))) if text else ()
            self._numbers[text] = numbers
            return numbers

    def _assert_size_stride(
        self, text: str, at: int, result: str | None
    ) -> BodyLine | None:
        match = _SIZE_STRIDE(text, at)
        if match is None or result is not None:
            return None
        buffer, size, stride, message, origin = match.groups()
        return AssertSizeStrideLine(
            buffer=buffer,
            size=self._extents(size),
            stride=self._extents(stride),
            message="" if message is None else _text(message),
            provenance=self._origin(origin),
        )

    def _assert_alignment(self, text: str, at: int, result: str | None) -> BodyLine | None:
        match = _ALIGNMENT(text, at)
        if match is None or result is not None:
            return None
        buffer, count, message, origin = match.groups()
        return AssertAlignmentLine(
            buffer=buffer,
            bytes=int(count),
            message="" if message is None else _text(message),
            provenance=self._origin(origin),
        )

    def _assert_not_nan(self, text: str, at: int, result: str | None) -> BodyLine | None:
        match = _NOT_NAN(text, at)
        if match is None or result is not None:
            return None
        buffer, message, origin = match.groups()
        return AssertNotNanLine(
            buffer=buffer,
            message="" if message is None else _text(message),
            provenance=self._origin(origin),
        )

    def _comment(self, text: str, at: int, result: str | None) -> BodyLine | None:
        match = _COMMENT(text, at)
        if match is None or result is not None:
            return None
        remark, origin = match.groups()
        return CommentLine(text=_text(remark), provenance=self._origin(origin))

    def _symbol(self, text: str, at: int, result: str | None) -> BodyLine | None:
        match = _SYMBOL(text, at)
        if match is None or result is not None:
            return None
        symbol, kind, lower, upper, word, name, dim, origin = match.groups()
        source: SymbolSource
        if dim is None:
            if word not in SOURCES_OF_VALUE:
                return None
            source = SOURCES_OF_VALUE[word](name)
        else:
            if word not in SOURCES_OF_DIM:
                return None
            source = SOURCES_OF_DIM[word](name, int(dim))
        return SymbolDefinitionLine(
            symbol=symbol,
            kind=SYMBOL_KINDS[kind],
            lower=None if lower is None else int(lower),
            upper=None if upper is None else int(upper),
            source=source,
            provenance=self._origin(origin),
        )


def _read(parse: Callable[[Cursor], T], text: str) -> T:
    cursor = Cursor(text)
    found = parse(cursor)
    if cursor.kind != "end" or cursor.start != len(text):  # a remark: not here
        raise _NotApplicable
    return found


def _provenance(text: str) -> Provenance | None:
    match = _PROVENANCE(text, 0)
    if match is None:
        return _read(parse_provenance, text)
    nodes, operator, file, line = match.groups()
    return Provenance(
        nodes=() if nodes is None else tuple(_text(nodes).split('", "')),
        operator=None if operator is None else _text(operator),
        location=None if file is None else SourceLocation(_text(file), int(line)),
    )


def _text(literal: str) -> str:
    return literal[1:-1]


def _items(text: str) -> list[str]:
    if "(" not in text and "[" not in text:
        return text.split(", ") if text else []
    items = [item.strip(" ") for item in _ITEM.findall(text)]
    if ", ".join(items) != text:
        raise _NotApplicable
    return items


def _names(text: str) -> tuple[str, ...]:
    names = text.split(", ")
    for name in names:
        if not _VALUE.fullmatch(name):
            raise _NotApplicable
    return tuple([name[1:] for name in names])
