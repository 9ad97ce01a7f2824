"""Diagnostics as text for a terminal, with carets, and as JSON for tools.

Text looks as compilers' does::

    add.wir:14:8: error WIR201: `%buf0` is used after it was freed
     14 |   free %buf0
        |        ^~~~~
    add.wir:12:8: note: freed here
     12 |   free %buf0
        |        ^~~~~
      = hint: free it once, after its last use

Control characters are escaped, so that no file can write to the terminal that shows it.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence

from attrs import asdict

from wrapperir.diagnostics.diagnostic import Diagnostic, LinePath, Note, Position

_WIDTH = 100
_NAME_PART = "[A-Za-z0-9_%@.]"


def format_diagnostics(
    diagnostics: Sequence[Diagnostic],
    text: str,
    positions: Mapping[LinePath, Position],
    file: str,
    programs: Sequence["DiagnosticPlaces"] = (),
) -> str:
    """Return diagnostics for a reader, each with the line it is about and a caret.

    ``positions`` are the places of the program's parts in ``text``, which is the text of
    the file or the printed program.  If a part has no position, the diagnostic is shown at
    the nearest enclosing part with a position.  ``programs`` are those that notes name by
    number.  Without diagnostics the result is empty.
    """
    source = DiagnosticPlaces(text, positions, file, programs)
    return "".join(f"{line}\n" for d in diagnostics for line in source.format_diagnostic(d))


def format_diagnostics_json(
    diagnostics: Sequence[Diagnostic],
    text: str,
    positions: Mapping[LinePath, Position],
    file: str,
    programs: Sequence["DiagnosticPlaces"] = (),
) -> str:
    """Return diagnostics as a JSON array, one object a diagnostic.

    Fields: ``file``, ``code``, ``severity``, ``message``, ``path`` (of the program, or
    null), ``position`` (``line`` and ``column`` from 1 and ``length``, in characters, or
    null), ``notes`` (``file``, ``message``, ``path``, ``position``) and ``hint`` (or null).
    """
    import json  # loaded late: only tools ask for this form

    found = diagnostic_objects(diagnostics, text, positions, file, programs)
    return json.dumps(found, indent=2)


def diagnostic_objects(
    diagnostics: Sequence[Diagnostic],
    text: str,
    positions: Mapping[LinePath, Position],
    file: str,
    programs: Sequence["DiagnosticPlaces"] = (),
) -> list[dict[str, object]]:
    """Return the objects of :func:`format_diagnostics_json`."""
    source = DiagnosticPlaces(text, positions, file, programs)
    return [
        {
            "file": file,
            "code": d.code.value,
            "severity": d.severity.value,
            "message": d.message,
            **_place(d.path, source.position(d.path, d.position, d.subject)),
            "notes": [_note(source, note) for note in d.notes],
            "hint": d.hint,
            "origin": d.origin,
        }
        for d in diagnostics
    ]


def _note(source: "DiagnosticPlaces", note: Note) -> dict[str, object]:
    places = source.of_note(note)
    at = places.position(note.path, note.position)
    return {"file": places.file, "message": note.message, **_place(note.path, at)}


def _place(path: LinePath | None, position: Position | None) -> dict[str, object]:
    return {
        "path": None if path is None else list(path),
        "position": None if position is None else asdict(position),
    }


class DiagnosticPlaces:
    """The places of diagnostics in a text."""

    def __init__(
        self,
        text: str,
        positions: Mapping[LinePath, Position],
        file: str,
        programs: "Sequence[DiagnosticPlaces]" = (),
    ) -> None:
        """Keep a text, the positions of its program's parts, and the programs of notes."""
        self._lines = text.split("\n")
        self._positions = positions
        self.file = file
        self._programs = programs

    def of_note(self, note: Note) -> "DiagnosticPlaces":
        """Return the places of the program that a note is about."""
        if note.program is None:
            return self
        if note.program < len(self._programs):
            return self._programs[note.program]
        return DiagnosticPlaces("", {}, f"program {note.program}")

    def position(
        self, path: LinePath | None, position: Position | None, subject: str | None = None
    ) -> Position | None:
        """Return where a finding is: its own position, or its subject on its line."""
        if position is not None:
            return position
        if path is None:
            return None
        for length in range(len(path), -1, -1):
            found = self._positions.get(path[:length])
            if found is not None:
                return self._subject_at(found, subject)
        return None

    def _subject_at(self, position: Position, subject: str | None) -> Position:
        if not subject or not 0 < position.line <= len(self._lines):
            return position
        line = self._lines[position.line - 1]
        start = position.column - 1
        end = start + position.length
        # A whole name: `%buf1` is not the start of `%buf10`.
        before = f"(?<!{_NAME_PART})" if re.match(_NAME_PART, subject[0]) else ""
        after = f"(?!{_NAME_PART})" if re.match(_NAME_PART, subject[-1]) else ""
        whole = re.compile(before + re.escape(subject) + after).search(line, start, end)
        at = whole.start() if whole else line.find(subject, start, end)
        return position if at < 0 else Position(position.line, at + 1, len(subject))

    def format_diagnostic(self, diagnostic: Diagnostic) -> Iterator[str]:
        """Yield the lines of a diagnostic, with its excerpts, notes and hint."""
        position = self.position(diagnostic.path, diagnostic.position, diagnostic.subject)
        code, severity = diagnostic.code.value, diagnostic.severity.value
        message = _escaped(diagnostic.message)
        yield f"{self._at(position)}: {severity} {code}: {message}"
        yield from self._excerpt(position)
        for note in diagnostic.notes:
            places = self.of_note(note)
            position = places.position(note.path, note.position)
            yield f"{places._at(position)}: note: {_escaped(note.message)}"
            yield from places._excerpt(position)
        if diagnostic.origin is not None and diagnostic.path is None:
            yield f"  = from: {_escaped(diagnostic.origin)}"
        if diagnostic.hint is not None:
            yield f"  = hint: {_escaped(diagnostic.hint)}"

    def _at(self, position: Position | None) -> str:
        file = _escaped(self.file)
        return file if position is None else f"{file}:{position.line}:{position.column}"

    def _excerpt(self, position: Position | None) -> Iterator[str]:
        """Yield the line of a position and a line with a caret under it."""
        if position is None or not 0 < position.line <= len(self._lines):
            return
        line = self._lines[position.line - 1]
        start = min(max(0, position.column - 1), len(line))
        end = min(start + max(1, position.length), max(len(line), start + 1))
        first, last = _window(len(line), start)
        head, tail = "..." if first else "", "..." if last < len(line) else ""
        before = head + _escaped(line[first:start])
        marked = _escaped(line[start : min(end, last)])
        after = _escaped(line[min(end, last) : last]) + tail
        caret = "^" + "~" * (_columns(marked) - 1)
        number = f"{position.line:>4}"
        yield f"{number} | {before}{marked}{after}".rstrip()
        yield f"{' ' * len(number)} | {' ' * _columns(before)}{caret}"


def _columns(text: str) -> int:
    """Return how many columns of a terminal ``text`` takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF")
        for c in text
    )


def _window(length: int, start: int) -> tuple[int, int]:
    """Return which part of a line to show: all of a short one, what is near of a long."""
    if length <= _WIDTH:
        return 0, length
    first = max(0, min(start - _WIDTH // 3, length - _WIDTH))
    return first, min(length, first + _WIDTH)


# Escaped like a string of the text form; a tab is shown as one space, to keep the caret
# in its place.
_SHOWN_ESCAPED = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def _escaped(text: str) -> str:
    return _SHOWN_ESCAPED.sub(
        lambda match: " " if match[0] == "\t" else f"\\u{ord(match[0]):04x}", text
    )
