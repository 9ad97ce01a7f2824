"""Pieces of target code that are safe to put side by side.

A :data:`Fragment` is text that is code by intention: it is made by :func:`fragment` from
a template written in the emitter's own source and from other fragments, or by a function
that validates or escapes (:class:`~wrapperir.emit.names.NameTable`, an emitter's literal
functions).  A type checker refuses a plain string where a fragment is wanted, so text
from a program cannot get into emitted code by accident.
"""

from collections.abc import Iterable
from typing import LiteralString, NewType

Fragment = NewType("Fragment", str)


def fragment(template: LiteralString, *parts: Fragment) -> Fragment:
    """Return ``template`` with each ``{}`` replaced by the next part.

    Raises:
        IndexError: there are fewer parts than ``{}``.
    """
    return Fragment(template.format(*parts))


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
    if text.isascii() and text.isprintable() and _PLAIN.isdisjoint(text):
        return Fragment(text)
    escaped = text.encode("unicode_escape").decode("ascii")
    for found, replacement in (("*/", "* /"), ("/*", "/ *"), ("??", "? ?")):
        while found in escaped:
            escaped = escaped.replace(found, replacement)
    # Compilers also join lines where only spaces follow the backslash.
    return Fragment(f"{escaped}." if escaped.rstrip().endswith("\\") else escaped)


_PLAIN = frozenset("\\*?")
