"""Reading programs from files, directories and standard input."""

import sys
from collections.abc import Mapping
from pathlib import Path

from attrs import evolve, field, frozen

from wrapperir.diagnostics import LinePath, Position
from wrapperir.ir.program import Program

PROGRAM_TEXT = "program.wir"
"""The name of a program's text in a directory that ``compile`` wrote."""

STANDARD_INPUT = "-"


@frozen
class Source:
    """A text that diagnostics are shown in, and where a program's parts are in it."""

    name: str
    text: str
    positions: Mapping[LinePath, Position] = field(factory=dict[LinePath, Position])


def read_source(path: str) -> Source:
    """Return the text of a file, of a compiled directory's program, or of standard input.

    Raises:
        OSError: it cannot be read.
    """
    if path == STANDARD_INPUT:
        name, content = "<stdin>", sys.stdin.buffer.read()
    else:
        file = Path(path)
        if file.is_dir():
            file = file / PROGRAM_TEXT
        name, content = str(file), file.read_bytes()
    # Bytes that are no UTF-8 become lone surrogates, which the reader places and reports.
    return Source(name, content.decode(errors="surrogateescape"))


def parse_source(source: Source) -> tuple[Program, Source]:
    """Return the program, and the text to show its diagnostics in.

    What begins with ``{`` is JSON, and its diagnostics are shown in the program's text.

    Raises:
        DiagnosticError: the text is malformed.
    """
    from wrapperir.text import format_with_positions, parse_json, parse_with_positions

    if source.text.lstrip()[:1] == "{":
        program = parse_json(source.text)
        text, positions = format_with_positions(program)
        return program, Source(f"{source.name} (as text)", text, positions)
    parsed = parse_with_positions(source.text)
    return parsed.program, evolve(source, positions=parsed.positions)


def printed(program: Program, name: str) -> Source:
    """Return a program's own text to show its diagnostics in."""
    from wrapperir.text import format_with_positions

    text, positions = format_with_positions(program)
    return Source(name, text, positions)
