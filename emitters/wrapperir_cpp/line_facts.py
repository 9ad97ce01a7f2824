"""Where a program's lines are in its text, for messages: static data of the library."""

from collections.abc import Sequence

from attrs import frozen

from wrapperir.ir import Program
from wrapperir.text import format_line

_LONGEST = 80


@frozen
class LineFact:
    """The number of a line in ``program.wir``, counted from 1, and what it does."""

    number: int
    text: str


def find_lines(program: Program, text: str) -> Sequence[LineFact]:
    """Return where each top-level line is in ``text``, the program as it prints."""
    printed = [format_line(line).split("\n") for line in program.lines]
    # After them are the outputs and a brace, a line each.
    number = len(text.splitlines()) - 1 - sum(map(len, printed))
    found: list[LineFact] = []
    for lines in printed:
        found.append(LineFact(number, _shorten(lines[0])))
        number += len(lines)
    return found


def _shorten(line: str) -> str:
    """Return what a line does and to whom: neither its results nor its arguments."""
    name, equals, value = line.partition(" = ")
    if equals and name.startswith("%") and "(" not in name:
        line = value
    return line.partition("(")[0].strip()[:_LONGEST]
