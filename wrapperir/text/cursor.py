"""A cursor over the tokens of one line."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from wrapperir.diagnostics import Code, did_you_mean
from wrapperir.ir import Device, DType, Provenance, TensorType
from wrapperir.text.limits import MAX_LIST_DEPTH, MAX_NESTING, Malformed, quoted

T = TypeVar("T")

NAME = "[A-Za-z_][A-Za-z0-9_]{0,254}"
"""Pattern of an identifier, as in :mod:`wrapperir.ir.names`."""

_TOKEN = re.compile(
    r"[ \t]*(?:"
    r"(?P<name>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)"
    r"|(?P<value>%[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<at>@[A-Za-z_][A-Za-z0-9_]*(?::[0-9]+)?)"
    r"|(?P<number>[0-9]++(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+(?![A-Za-z0-9_]))"
    r'|(?P<string>"[^"\\]*+(?:\\.[^"\\]*+)*+")'
    r"|(?P<mark>\*\*|//|==|!=|<=|>=|\.\.|[-+*/%<>=(){}\[\],;:])"
    r"|(?P<end>(?:\#.*)?\Z)"
    r"|(?P<bad>.))",
    re.DOTALL,
)


class Memo:
    """Parts that the lines of one file share, by their spelling.

    A part that is spelled again is not parsed again: reading is faster, and equal types
    are one object.  ``fused`` has the lists of origins that lines refer to by number.
    """

    def __init__(self) -> None:
        """Start empty."""
        self.types: dict[tuple[DType, str], TensorType] = {}
        self.devices: dict[str, Device] = {}
        self.provenances: dict[str, Provenance] = {}
        self.fused: Sequence[tuple[str, ...]] = ()


class Cursor:
    """One token of lookahead over a line.

    ``kind`` is ``name`` (dotted or not), ``value`` (``%x``), ``at`` (``@x``, ``@x:0``),
    ``number``, ``string``, ``mark``, ``end`` or ``bad``; ``next`` is its text.
    ``height`` is the height of the expression just read.
    """

    __slots__ = (
        "end",
        "height",
        "kind",
        "lists",
        "memo",
        "nesting",
        "next",
        "start",
        "text",
    )

    def __init__(self, text: str, memo: Memo | None = None) -> None:
        """Begin at the first token of ``text``."""
        self.text = text
        self.memo = Memo() if memo is None else memo
        self.nesting = 0
        self.lists = 0
        self.height = 0
        self.end = 0
        self.advance()

    def advance(self) -> None:
        """Go to the next token."""
        match = _TOKEN.match(self.text, self.end)
        assert match is not None
        kind = match.lastgroup
        assert kind is not None
        self.kind = kind
        self.next = token = match[kind]
        self.end = end = match.end()
        self.start = end - len(token)

    def go_to(self, end: int) -> None:
        """Go to the first token from the character ``end``."""
        self.end = end
        self.advance()

    def accept(self, token: str) -> bool:
        """Skip ``token`` if it is next; return whether it was."""
        if self.next == token:
            self.advance()
            return True
        return False

    def expect(self, token: str) -> None:
        """Skip ``token``.

        Raises:
            Malformed: something else is next.
        """
        if self.next != token:
            raise self.unexpected(f"`{token}`")
        self.advance()

    def expect_end(self) -> None:
        """Check that the line ends here."""
        if self.kind != "end":
            raise self.unexpected("the end of the line")

    def is_call(self) -> bool:
        """Return whether a parenthesis directly follows the name that is next."""
        return self.text.startswith("(", self.end)

    def opens_block(self) -> bool:
        """Return whether a brace is next and ends the line."""
        if self.next != "{":
            return False
        match = _TOKEN.match(self.text, self.end)
        return match is not None and match.lastgroup == "end"

    def enter(self) -> None:
        """Count an opened parenthesis or bracket.

        Raises:
            Malformed: too many are open.
        """
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise self.malformed(Code.TOO_DEEP, "nested too deep")

    def leave(self) -> None:
        """Count a closed parenthesis or bracket."""
        self.nesting -= 1

    def closed(self, item: Callable[["Cursor"], T]) -> T:
        """Take an item and a parenthesis after it."""
        found = item(self)
        self.expect(")")
        return found

    def listed(self, item: Callable[["Cursor"], T], close: str) -> tuple[T, ...]:
        """Take items separated by commas, and the mark ``close`` after them."""
        items: list[T] = []
        if self.next != close:
            items.append(item(self))
            while self.next == ",":
                self.advance()
                items.append(item(self))
        self.expect(close)
        return tuple(items)

    def nested(self, item: Callable[["Cursor"], T], marks: str) -> tuple[T, ...]:
        """Take a list or tuple type: items between the two ``marks``.

        Raises:
            Malformed: too many are open, or an item does not parse.
        """
        self.lists += 1
        if self.lists > MAX_LIST_DEPTH:
            raise self.malformed(
                Code.TOO_DEEP, f"more than {MAX_LIST_DEPTH} lists or tuples within others"
            )
        self.expect(marks[0])
        items = self.listed(item, marks[1])
        self.lists -= 1
        return items

    def name(self, what: str) -> str:
        """Take an identifier; ``what`` describes its use in errors."""
        if self.kind != "name":
            raise self.unexpected(what)
        if "." in self.next:
            raise self.malformed(
                Code.BAD_NAME, f"{what} must be an identifier, not {quoted(self.next)}"
            )
        return self._take(0, what)

    def value(self) -> str:
        """Take ``%name``; return the bare name."""
        if self.kind != "value":
            raise self.unexpected("a value such as `%buf0`")
        return self._take(1, "a value's name")

    def kernel(self) -> str:
        """Take ``@name``; return the bare name."""
        if self.kind != "at" or ":" in self.next:
            raise self.unexpected("a name such as `@kernel`")
        return self._take(1, "a name")

    def word(self, table: Mapping[str, T], what: str) -> T:
        """Take one of the words of ``table``; return its value."""
        if self.kind != "name":
            raise self.unexpected(what)
        found = table.get(self.next)
        if found is None:
            raise self.malformed(
                Code.UNKNOWN_WORD,
                f"{quoted(self.next)} is not {what}",
                suggestion(self.next, table),
            )
        self.advance()
        return found

    def _take(self, skip: int, what: str) -> str:
        name = self.next[skip:]
        if len(name) > 255:
            raise self.malformed(Code.BAD_NAME, f"{what} is longer than 255 characters")
        self.advance()
        return name

    def malformed(self, code: Code, message: str, hint: str | None = None) -> Malformed:
        """Return an error about the token that is next."""
        return Malformed(code, message, self.start, self.end, hint)

    def unexpected(self, wanted: str) -> Malformed:
        """Return the error that something other than ``wanted`` is next."""
        if self.kind == "end":
            end = len(self.text[: self.start].rstrip())
            return Malformed(
                Code.UNEXPECTED, f"expected {wanted}, but the line ends", end, end
            )
        if self.next == '"':
            return self.malformed(
                Code.BAD_STRING,
                "the string is not closed",
                'write a quote in a string as \\" and a line break as \\n',
            )
        if self.next == "\r":
            return self.malformed(
                Code.BAD_ENCODING,
                "a carriage return; lines end with a line feed alone",
                "convert the file's line ends; kernel sources keep theirs",
            )
        return self.malformed(
            Code.UNEXPECTED, f"expected {wanted}, found {quoted(self.next)}"
        )


def suggestion(word: str, known: Iterable[str]) -> str | None:
    """Return a hint with the known word most similar to ``word``, or all known words."""
    words = list(known)
    near = did_you_mean(word, words)
    if near is not None:
        return near
    if len(words) == 1:
        return f"write `{words[0]}`"
    return "one of " + ", ".join(f"`{w}`" for w in words) if len(words) <= 24 else None
