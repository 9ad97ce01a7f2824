"""The error that readers and writers raise inside this package."""

from wrapperir.diagnostics import Code, Diagnostic, LinePath, Position


class Malformed(Exception):  # noqa: N818 - it becomes a Diagnostic before it leaves
    """A part of a program that cannot be read or written.

    ``start`` and ``end`` are character offsets in the line being read; ``path`` grows
    from the inside out while the error passes through a program being written.
    """

    def __init__(
        self,
        code: Code,
        message: str,
        start: int = 0,
        end: int = 1,
        hint: str | None = None,
    ) -> None:
        """Take the error and the characters of the line that it concerns."""
        super().__init__(message)
        self.code = code
        self.message = message
        self.start = start
        self.end = end
        self.hint = hint
        self.path: LinePath = ()

    def within(self, *prefix: int | str) -> "Malformed":
        """Return the error with ``prefix`` put before its path."""
        self.path = (*prefix, *self.path)
        return self

    def read(self, line: int) -> Diagnostic:
        """Return the diagnostic for a line, counted from 0, of the file being read."""
        length = max(1, self.end - self.start)
        position = Position(line + 1, self.start + 1, length)
        return Diagnostic(self.code, self.message, position=position, hint=self.hint)

    def written(self) -> Diagnostic:
        """Return the diagnostic for the program being written."""
        return Diagnostic(self.code, self.message, path=self.path or None, hint=self.hint)


ILL_TYPED = (AssertionError, AttributeError, KeyError, TypeError, ValueError)
"""Errors raised when writing a program that holds an object of a wrong type."""


def ill_typed(error: Exception) -> Malformed:
    """Return the error that a part of a program has a wrong type."""
    detail = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    message = f"an object of a type that does not belong there ({quoted(detail)})"
    return Malformed(Code.UNWRITABLE_VALUE, message)


def quoted(text: str) -> str:
    """Return ``text`` for a message: escaped, in backquotes, and not too long."""
    shown = text if len(text) <= 40 else text[:37] + "..."
    return "`" + "".join(c if c.isprintable() else ascii(c)[1:-1] for c in shown) + "`"
