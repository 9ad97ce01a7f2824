"""Diagnostics as a SARIF log, which code hosts and editors show beside the lines.

The form is that of SARIF 2.1.0: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from attrs import frozen

from wrapperir.diagnostics.codes import Code
from wrapperir.diagnostics.diagnostic import Diagnostic, LinePath, Position
from wrapperir.diagnostics.rendering import DiagnosticPlaces

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_PAGES = {
    "0": "reading",
    **dict.fromkeys("12345", "verify"),
    "6": "frontends",
    "7": "plugins",
    "8": "running",
    "9": "cli",
}
"""The page of a code in ``docs/reference/diagnostics``, by the code's first digit."""


@frozen
class CheckedFile:
    """A file, its text, and what was found in it; ``positions`` are those of its parts."""

    name: str
    text: str
    positions: Mapping[LinePath, Position]
    diagnostics: tuple[Diagnostic, ...]


def format_diagnostics_sarif(files: Sequence[CheckedFile], version: str) -> str:
    """Return the diagnostics of files as the log of one run of wrapperir ``version``.

    Results are in the order of the files, and notes name them by their numbers.  Columns
    count characters, as those of the text form do.
    """
    import json  # loaded late: only tools ask for this form

    files = tuple(files)
    names = {name: i for i, name in enumerate(dict.fromkeys(x.name for x in files))}
    programs = [DiagnosticPlaces(x.text, x.positions, x.name) for x in files]
    codes = sorted({each.code for file in files for each in file.diagnostics})
    rules = {code: index for index, code in enumerate(codes)}
    driver = {
        "name": "wrapperir",
        "semanticVersion": version,
        "rules": [_rule(code) for code in codes],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "artifacts": [{"location": _location(name)} for name in names],
        "results": [
            result for file in files for result in _results(file, programs, names, rules)
        ],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _rule(code: Code) -> dict[str, object]:
    words = code.name.lower().split("_")
    page = f"docs/reference/diagnostics/{_PAGES[code.value[3]]}.md"
    return {
        "id": code.value,
        "name": "".join(word.capitalize() for word in words),
        "shortDescription": {"text": " ".join(words)},
        "help": {"text": f"{code.value} in {page}"},
    }


def _location(name: str) -> dict[str, object]:
    """Return where a file is: relative to the working directory, or absolute."""
    path = Path(name)
    return {"uri": path.as_uri() if path.is_absolute() else quote(path.as_posix())}


def _results(
    file: CheckedFile,
    programs: Sequence[DiagnosticPlaces],
    names: Mapping[str, int],
    rules: Mapping[Code, int],
) -> Iterator[dict[str, object]]:
    places = DiagnosticPlaces(file.text, file.positions, file.name, programs)
    for diagnostic in file.diagnostics:
        at = places.position(diagnostic.path, diagnostic.position, diagnostic.subject)
        hint = "" if diagnostic.hint is None else f" (hint: {diagnostic.hint})"
        origin = "" if diagnostic.origin is None else f" (from {diagnostic.origin})"
        related: list[dict[str, object]] = []
        for note in diagnostic.notes:
            there = places.of_note(note)
            at_note = there.position(note.path, note.position)
            related.append(_place(there.file, names, at_note, note.message))
        yield {
            "ruleId": diagnostic.code.value,
            "ruleIndex": rules[diagnostic.code],
            "level": diagnostic.severity.value,
            "message": {"text": f"{diagnostic.message}{origin}{hint}"},
            "locations": [_place(file.name, names, at)],
            **({"relatedLocations": _numbered(related)} if related else {}),
        }


def _numbered(places: Iterable[dict[str, object]]) -> list[dict[str, object]]:
    return [{"id": number, **place} for number, place in enumerate(places, start=1)]


def _place(
    file: str, names: Mapping[str, int], at: Position | None, message: str | None = None
) -> dict[str, object]:
    region = {} if at is None else {"region": _region(at)}
    index = {"index": names[file]} if file in names else {}
    where = {"artifactLocation": {**_location(file), **index}, **region}
    said = {} if message is None else {"message": {"text": message}}
    return {"physicalLocation": where, **said}


def _region(at: Position) -> dict[str, int]:
    return {
        "startLine": at.line,
        "startColumn": at.column,
        "endLine": at.line,
        "endColumn": at.column + max(1, at.length),
    }
