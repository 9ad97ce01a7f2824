"""Target code: safe fragments, identifiers, and a writer of lines."""

import functools
import re
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import LiteralString, NewType

from wrapperir.diagnostics import Code, LinePath
from wrapperir.emit.line_record import active_record
from wrapperir.ir import is_identifier

Fragment = NewType("Fragment", str)
"""Text that is code by intention.

It is made by :func:`fragment` from a template in the emitter's own source and from other
fragments, or by a function that validates or escapes, such as :meth:`NameTable.claim`.  A
type checker refuses a plain string where a fragment is wanted, so text from a program
cannot get into emitted code by accident.
"""


def fragment(template: LiteralString, *parts: Fragment) -> Fragment:
    """Return ``template`` with each ``{}`` replaced by the next part.

    Other braces stand for themselves; ``{{`` and ``}}`` stand for one brace each, so that
    ``{{}}`` is ``{}``.

    Raises:
        ValueError: there are fewer or more parts than ``{}``.
    """
    return Fragment(_filled(template, parts))


def _filled(template: str, parts: Sequence[Fragment]) -> str:
    text, count = _for_format(template)
    if count != len(parts):
        raise ValueError(f"{template!r} has {count} of {{}}, and {len(parts)} parts")
    return text.format(*parts)


@functools.lru_cache(maxsize=4096)
def _for_format(template: str) -> tuple[str, int]:
    """Return a template as ``str.format`` takes it, and the number of its ``{}``."""
    pieces = re.split(r"(\{\{|\}\}|\{\}|[{}])", template)
    return "".join(_LONE.get(piece, piece) for piece in pieces), pieces.count("{}")


_LONE = {"{": "{{", "}": "}}"}


def joined(separator: LiteralString, parts: Iterable[Fragment]) -> Fragment:
    """Return the parts with ``separator`` between them."""
    return Fragment(separator.join(parts))


def escape_comment(text: str) -> Fragment:
    r"""Return ``text`` as the inside of a one-line comment in any language.

    The result is printable ASCII on one line: other characters and backslashes are
    written as escapes.  It neither opens nor closes a block comment, holds no trigraph
    (``??/`` is a backslash to old C++), and does not end in a backslash, which would
    continue a C++ line comment on the next line.
    """
    if text.isascii() and text.isprintable() and not _ESCAPED.search(text):
        return Fragment(text)
    escaped = text.encode("unicode_escape").decode("ascii")
    for found, replacement in (("*/", "* /"), ("/*", "/ *"), ("??", "? ?")):
        while found in escaped:
            escaped = escaped.replace(found, replacement)
    # Compilers also join lines where only spaces follow the backslash.
    return Fragment(f"{escaped}." if escaped.rstrip().endswith("\\") else escaped)


_ESCAPED = re.compile(r"[\\*?]")


class Namespace(dict[str, Fragment]):
    """The target's identifier for each name of one kind, such as values or symbols.

    Looking a name up for the first time claims an identifier for it.
    """

    def __init__(self, table: "NameTable") -> None:
        """Start with no names; identifiers are claimed from ``table``."""
        super().__init__()
        self._table = table

    def __missing__(self, name: str) -> Fragment:
        """Claim an identifier.

        Raises:
            DiagnosticError: ``name`` is not an identifier.
        """
        identifier = self[name] = self._table.claim(name)
        return identifier


class NameTable:
    """The identifiers of one scope of target code.

    A name keeps its spelling unless that is reserved or taken; then underscores are
    added until it is free.  The outcome depends only on the order of the claims.
    """

    def __init__(self, reserved: Iterable[str]) -> None:
        """Start with the target language's keywords and the names its emitter uses."""
        self._taken = set(reserved)

    def claim(self, name: str) -> Fragment:
        """Return an identifier like ``name`` that nothing else in this table has.

        Raises:
            DiagnosticError: ``name`` is not an identifier.
        """
        if not is_identifier(name):
            message = f"{name[:80]!a} is not an identifier"
            hint = "names are ASCII letters, digits and _, and begin with no digit"
            raise Code.NAME_NOT_EMITTABLE.error(message, hint=hint)
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return Fragment(name)


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
        self._record = active_record()
        self._paths: list[LinePath] = []  # one an item of ``_lines``, where recorded
        self._comment_prefix = comment_prefix
        self._indentation = indentation
        self._margin = ""

    def emit_line(self, template: LiteralString, *parts: Fragment) -> None:
        """Append a line: a template and its parts, as :func:`fragment` takes them."""
        self._append(self._margin + _filled(template, parts))

    def emit_blank(self, count: int = 1) -> None:
        """Append empty lines."""
        for _ in range(count):
            self._append("")

    def emit_comment(self, text: str) -> None:
        """Append a comment of one line; unprintable characters are escaped."""
        self._append(f"{self._margin}{self._comment_prefix}{escape_comment(text)}")

    def _append(self, line: str) -> None:
        self._lines.append(line)
        if self._record is not None:
            self._paths.append(self._record.path)

    def emit_writer(self, other: "SourceWriter") -> None:
        """Append the lines of another writer, at this writer's margin."""
        if self._margin:
            self._lines += [self._margin + line for line in other._lines]
        else:
            self._lines.extend(other._lines)
        self._paths.extend(other._paths)

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
        text = "\n".join([*self._lines, ""])
        if self._record is not None:
            pairs = zip(self._lines, self._paths, strict=True)
            self._record.keep(text, [p for line, p in pairs for _ in line.split("\n")])
        return text
