"""Program data as Python literals."""

import keyword
import math

from wrapperir.emit.source_text import Fragment, NameTable, fragment, joined


def format_int(value: int) -> Fragment:
    """Return a decimal literal; ``True`` is ``1``."""
    return Fragment(int.__repr__(int(value)))


def format_float(value: float) -> Fragment:
    """Return a literal of exactly this value, infinities and NaN included."""
    if math.isfinite(value):
        return Fragment(float.__repr__(float(value)))
    if math.isnan(value):
        return fragment('float("nan")')
    return fragment('float("inf")') if value > 0 else fragment('float("-inf")')


def format_string(text: str) -> Fragment:
    """Return a one-line ASCII literal of any text."""
    return Fragment(ascii(str(text)))


def format_constant(value: int | float | bool | str | None) -> Fragment:
    """Return the literal of a kernel's constant or config value."""
    if value is None or isinstance(value, bool):
        return Fragment(repr(value))
    if isinstance(value, int):
        return format_int(value)
    return format_float(value) if isinstance(value, float) else format_string(value)


def format_text(text: str) -> Fragment:
    """Return a literal of a text of many lines, raw where that is safe."""
    raw = "'''" not in text and not text.endswith(("'", "\\"))
    if raw and all(line.isprintable() for line in text.replace("\t", "").split("\n")):
        return Fragment(f"r'''{text}'''")
    lines = [format_string(line) for line in text.splitlines(keepends=True)]
    return fragment("(\n    {}\n)", joined("\n    ", lines or [format_string("")]))


def format_keyword(name: str, value: Fragment) -> Fragment:
    """Return a keyword argument; one whose name Python reserves is given by a dict.

    Raises:
        DiagnosticError: the name is not an identifier.
    """
    if keyword.iskeyword(name):  # aten.uniform's ``from``
        return fragment("**{{{}: {}}}", format_string(name), value)
    return fragment("{}={}", NameTable(()).claim(name), value)
