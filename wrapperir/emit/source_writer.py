"""An indent-aware writer whose parts are fragments and escaped comments."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import LiteralString

from wrapperir.emit.fragment import Fragment, escape_comment


class SourceWriter:
    """Collects lines of target code.

    ``comment_prefix`` begins a line comment; ``indentation`` is one level of it.

    Example::

        writer = SourceWriter()
        writer.emit_line("def {}(args):", name)
        with writer.indented():
            writer.emit_line("return ({},)", value)
    """

    def __init__(
        self, *, comment_prefix: LiteralString = "# ", indentation: LiteralString = "    "
    ) -> None:
        """Start with no lines, at the left margin."""
        self._lines: list[str] = []
        self._comment_prefix = comment_prefix
        self._indentation = indentation
        self._margin = ""

    def emit_line(self, template: LiteralString, *parts: Fragment) -> None:
        """Append a line: ``template`` with each ``{}`` replaced by the next part."""
        self._lines.append(self._margin + template.format(*parts))

    def emit_blank(self, count: int = 1) -> None:
        """Append empty lines."""
        self._lines.extend([""] * count)

    def emit_comment(self, text: str) -> None:
        """Append a comment of one line; unprintable characters are escaped."""
        self._lines.append(f"{self._margin}{self._comment_prefix}{escape_comment(text)}")

    def emit_writer(self, other: "SourceWriter") -> None:
        """Append the lines of another writer, at this writer's margin."""
        if self._margin:
            self._lines.extend(f"{self._margin}{line}" for line in other._lines)
        else:
            self._lines.extend(other._lines)

    @contextmanager
    def indented(self) -> Generator[None]:
        """Indent the lines that follow by one level."""
        outer = self._margin
        self._margin = outer + self._indentation
        try:
            yield
        finally:
            self._margin = outer

    @property
    def line_count(self) -> int:
        """The number of lines so far."""
        return len(self._lines)

    def format_text(self) -> str:
        """Return all lines, each ended by a newline."""
        return "".join(f"{line}\n" for line in self._lines)
