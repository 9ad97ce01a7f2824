"""The lines of a text being read, and the errors reported in them."""

import gc
import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import NoReturn

from attrs import evolve

from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError, Note, Position
from wrapperir.text.cursor import Cursor, Memo
from wrapperir.text.limits import MAX_DIAGNOSTICS, Malformed


class LineSource:
    """Hands out the lines of one text.

    ``at`` is the line that is next, counted from 0.
    """

    def __init__(self, text: str) -> None:
        """Split ``text`` at line feeds only."""
        self.texts = text.split("\n")
        self.at = 0
        self.memo = Memo()
        self.diagnostics: list[Diagnostic] = []

    def next(self) -> Cursor | None:
        """Return a cursor on the next line that is not empty, or ``None`` at the end."""
        while self.at < len(self.texts):
            cursor = Cursor(self.texts[self.at], self.memo)
            self.at += 1
            if cursor.kind != "end":
                return cursor
        return None

    def report(self, error: Malformed, line: int, opened: int | None = None) -> None:
        """Report an error in a line, with a note about line ``opened`` if it is given.

        Raises:
            DiagnosticError: the limit of errors is reached.
        """
        found = error.read(line)
        if opened is not None:
            text = self.texts[opened]
            start = len(text) - len(text.lstrip())
            length = max(1, len(text.rstrip()) - start)
            position = Position(opened + 1, start + 1, length)
            note = Note(message="the block opened here", position=position)
            found = evolve(found, notes=(note,))
        self.diagnostics.append(found)
        if len(self.diagnostics) >= MAX_DIAGNOSTICS:
            self.fail()

    def fail(self) -> NoReturn:
        """Raise the reported errors, in the order of the text."""
        raise DiagnosticError(*sorted(self.diagnostics, key=_place))

    def unclosed(self, opened: int) -> NoReturn:
        """Report that the text ends in the block that line ``opened`` opens.

        Raises:
            DiagnosticError: always; it has every error found.
        """
        self.report_unclosed(opened)
        self.fail()

    def report_unclosed(self, opened: int) -> None:
        """Report that the text ends in a block, and go on."""
        last = len(self.texts) - 1
        while last > opened and not self.texts[last].strip():
            last -= 1
        end = len(self.texts[last])
        error = Malformed(
            Code.UNCLOSED_BLOCK, "the file ends before the block is closed", end, end
        )
        self.report(error, last, opened)

    def cut_short(self, cursor: Cursor, opened: int) -> None:
        """Report that a block is not closed before the statement that is next.

        Line ``opened`` opens the block.  The statement's line will be returned again.

        Raises:
            DiagnosticError: the limit of errors is reached.
        """
        self.at -= 1
        message = f"`{cursor.next}` begins before the block is closed"
        error = cursor.malformed(Code.UNCLOSED_BLOCK, message, "close it with `}`")
        self.report(error, self.at, opened)

    def close(self, cursor: Cursor) -> None:
        """Take the brace that is next on the current line, and the end of the line.

        Raises:
            DiagnosticError: the limit of errors is reached.
        """
        cursor.advance()
        try:
            cursor.expect_end()
        except Malformed as error:
            self.report(error, self.at - 1)

    def skip_opened(self, line: int) -> None:
        """Skip the block that a malformed line opens, if any."""
        if opens_block(self.texts[line]):
            self.at = line + 1
            self.skip_block(line)

    def skip_block(self, opened: int) -> None:
        """Skip to the line after the brace that closes the open block."""
        depth = 1
        while depth:
            if self.at >= len(self.texts):
                self.unclosed(opened)
            text = self.texts[self.at].strip()
            self.at += 1
            if text.startswith("|"):
                continue
            if opens_block(text):
                depth += 1
            elif text.startswith("}"):
                depth -= 1


def _place(found: Diagnostic) -> tuple[int, int]:
    assert found.position is not None
    return found.position.line, found.position.column


def check_encoding(text: str) -> None:
    """Check that UTF-8 can encode a text.

    Raises:
        DiagnosticError: it has a lone surrogate.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start)
        column = error.start - (text.rfind("\n", 0, error.start) + 1)
        found = Malformed(Code.BAD_ENCODING, "a lone surrogate", column, column + 1)
        raise DiagnosticError(found.read(line)) from None


_BEFORE_REMARK = re.compile(r'(?:[^"#]++|"(?:[^"\\]++|\\.)*+"?)*+', re.DOTALL)


def opens_block(text: str) -> bool:
    """Return whether a line, malformed or not, ends with the brace of a block."""
    if "{" not in text:
        return False
    code = _BEFORE_REMARK.match(text)
    assert code is not None
    return code[0].rstrip().endswith("{")


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
