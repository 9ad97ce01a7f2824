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

from wrapperir.ir.line import (
    AllocateLine,
    AllocatePoolLine,
    Argument,
    AssertAlignmentLine,
    AssertNotNanLine,
    AssertSizeStrideLine,
    BodyLine,
    CommentLine,
    ExternKernelLine,
    FreeLine,
    KernelCallLine,
    MultiOutputLine,
    PlaceLine,
    RecordEventLine,
    ReinterpretLine,
    ReuseLine,
    SymbolDefinitionLine,
    SymbolSource,
    WaitEventLine,
)
from wrapperir.ir.types import PoolType, TensorType
from wrapperir.text.cursor import NAME
from wrapperir.text.memory_statements import ZERO_MODES
from wrapperir.text.shortcut_parts import (
    KEYWORD,
    PLAIN_STRING,
    NotApplicable,
    PartTables,
    items_of,
    names_of,
    plain_text,
)
from wrapperir.text.statements import (
    SOURCES_OF_DIM,
    SOURCES_OF_VALUE,
    SYMBOL_KINDS,
)

Shortcut = Callable[[str, int, str | None], BodyLine | None]
"""Takes a line, where its keyword ends and its result; ``None`` where it does not apply."""

_TYPE = r"([a-z0-9_]+(?:\[[^\]\"{]*\](?:@[A-Za-z0-9_:]+)?(?: \{[^}\"]*\})?)?)"
_FROM = r"(?: (from\(.*\)))?\Z"
_ON = r"(?: (@[A-Za-z0-9_:]+))?(?: stream\(([0-9]{1,9})\))?"
_TERM = r"[^ \"#]++"
_LIST = r"\(([^()\"]*+(?:\([^()\"]*+\)[^()\"]*+)*+)\)"


def _pattern(text: str) -> Callable[[str, int], re.Match[str] | None]:
    return re.compile(text, re.DOTALL).match


HEAD = _pattern(rf" *(?:%({NAME}) = )?([a-z_]+) ")
"""The result and keyword of a line."""

_ALLOCATE = _pattern(rf"{_TYPE}(?: workspace\(([a-z_]+)\))?{_FROM}")
_ALLOCATE_POOL = _pattern(rf"{_TYPE}{_FROM}")
_PLACE = _pattern(
    rf"{_TYPE} in %({NAME}) at ({_TERM}(?: (?!from\(|workspace\(){_TERM})*+)"
    rf"(?: workspace\(([a-z_]+)\))?{_FROM}"
)
_FREE = _pattern(rf"%({NAME}){_FROM}")
_AS = _pattern(rf"%({NAME}) as {_TYPE}{_FROM}")
_KERNEL_CALL = _pattern(rf"@({NAME}){_LIST}{_ON}{_FROM}")
_EXTERN_KERNEL = _pattern(
    rf"([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)+){_LIST}"
    rf"(?: writes\(([^()\"]*)\))?(?: aliases\(([^()\"]*)\))?{_ON}"
    rf"(?: : (?:{_TYPE}|(\([^()\"]*\))))?{_FROM}"
)
_RECORD_EVENT = _pattern(rf"{_ON}{_FROM}")
_WAIT_EVENT = _pattern(rf"%({NAME}){_ON}{_FROM}")
_MULTI_OUTPUT = _pattern(rf"%({NAME})\[([0-9]{{1,9}})\] : {_TYPE}{_FROM}")
_SIZE_STRIDE = _pattern(
    rf"%({NAME}) \(([0-9, ]*)\) \(([0-9, ]*)\)(?: {PLAIN_STRING})?{_FROM}"
)
_ALIGNMENT = _pattern(rf"%({NAME}) ([0-9]{{1,9}})(?: {PLAIN_STRING})?{_FROM}")
_NOT_NAN = _pattern(rf"%({NAME})(?: {PLAIN_STRING})?{_FROM}")
_COMMENT = _pattern(rf"{PLAIN_STRING}{_FROM}")

_SYMBOL = _pattern(
    rf"({NAME}): (int|float|bool)(?: ([0-9]{{1,18}})?\.\.([0-9]{{1,18}})?)?"
    rf" = ([a-z]+)\(%({NAME})(?:, ([0-9]{{1,9}}))?\){_FROM}"
)


class Shortcuts:
    """The shortcuts, with tables for one file."""

    def __init__(self) -> None:
        """Start with empty tables."""
        self._parts = parts = PartTables()
        self._type, self._tensor = parts.type, parts.tensor
        self._origin, self._device = parts.origin, parts.device
        self._operand, self._kernel_argument = parts.operand, parts.kernel_argument
        self.by_keyword: dict[str, Shortcut] = {
            "allocate": self._allocate,
            "allocate_pool": self._allocate_pool,
            "place": self._place,
            "free": self._free,
            "reuse": self._reuse,
            "reinterpret": self._reinterpret,
            "kernel_call": self._kernel_call,
            "extern_kernel": self._extern_kernel,
            "multi_output": self._multi_output,
            "record_event": self._record_event,
            "wait_event": self._wait_event,
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
        except NotApplicable:
            return None

    def read_entry_symbol(self, text: str) -> BodyLine | None:
        """Return the symbol that a line before the body defines, as :meth:`read` does."""
        head = HEAD(text, 0)
        if head is None or head[2] != "symbol":
            return None
        try:
            return self._symbol(text, head.end(), head[1])
        except NotApplicable:
            return None

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

    def _allocate_pool(self, text: str, at: int, result: str | None) -> BodyLine | None:
        match = _ALLOCATE_POOL(text, at)
        if match is None or result is None:
            return None
        type = self._type(match[1])
        if not isinstance(type, PoolType):
            return None
        return AllocatePoolLine(result=result, type=type, provenance=self._origin(match[2]))

    def _place(self, text: str, at: int, result: str | None) -> BodyLine | None:
        match = _PLACE(text, at)
        if match is None or result is None:
            return None
        spelled, pool, offset, mode, origin = match.groups()
        if mode is not None and mode not in ZERO_MODES:
            return None
        type = self._type(spelled)
        if not isinstance(type, TensorType | PoolType):
            return None
        return PlaceLine(
            result=result,
            type=type,
            pool=pool,
            offset=self._parts.expression(offset),
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
            arguments=tuple([self._kernel_argument(a) for a in items_of(arguments)]),
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
        items = items_of(given)
        keywords: list[tuple[str, Argument]] = []
        if " = " in given:
            while items and (keyword := KEYWORD.match(items[-1])):
                keywords.append((keyword[1], self._operand(items.pop()[keyword.end() :])))
            keywords.reverse()
        return ExternKernelLine(
            result=result,
            type=None if type is None else self._type(type),
            operator=operator,
            arguments=tuple([self._operand(item) for item in items]),
            keywords=tuple(keywords),
            writes=() if writes is None else names_of(writes),
            aliases=() if aliases is None else names_of(aliases),
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

    def _record_event(self, text: str, at: int, result: str | None) -> BodyLine | None:
        match = _RECORD_EVENT(text, at - 1)  # its parts each follow a space
        if match is None or result is None:
            return None
        device, stream, origin = match.groups()
        return RecordEventLine(
            result=result,
            device=self._device(device),
            stream=0 if stream is None else int(stream),
            provenance=self._origin(origin),
        )

    def _wait_event(self, text: str, at: int, result: str | None) -> BodyLine | None:
        match = _WAIT_EVENT(text, at)
        if match is None or result is not None:
            return None
        event, device, stream, origin = match.groups()
        return WaitEventLine(
            event=event,
            device=self._device(device),
            stream=0 if stream is None else int(stream),
            provenance=self._origin(origin),
        )

    def _assert_size_stride(
        self, text: str, at: int, result: str | None
    ) -> BodyLine | None:
        match = _SIZE_STRIDE(text, at)
        if match is None or result is not None:
            return None
        buffer, size, stride, message, origin = match.groups()
        return AssertSizeStrideLine(
            buffer=buffer,
            size=self._parts.extents(size),
            stride=self._parts.extents(stride),
            message="" if message is None else plain_text(message),
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
            message="" if message is None else plain_text(message),
            provenance=self._origin(origin),
        )

    def _assert_not_nan(self, text: str, at: int, result: str | None) -> BodyLine | None:
        match = _NOT_NAN(text, at)
        if match is None or result is not None:
            return None
        buffer, message, origin = match.groups()
        return AssertNotNanLine(
            buffer=buffer,
            message="" if message is None else plain_text(message),
            provenance=self._origin(origin),
        )

    def _comment(self, text: str, at: int, result: str | None) -> BodyLine | None:
        match = _COMMENT(text, at)
        if match is None or result is not None:
            return None
        remark, origin = match.groups()
        return CommentLine(text=plain_text(remark), provenance=self._origin(origin))

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
