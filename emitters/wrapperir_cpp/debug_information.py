"""Debug information of a program: line directives, and the fact that its build reads."""

import json
from collections.abc import Sequence

from attrs import evolve

from wrapperir.diagnostics import LinePath, Position
from wrapperir.emit import Artifact, DebugSource
from wrapperir.emit.artifact import keep_files
from wrapperir.emit.line_record import LineRecord
from wrapperir.ir import Program
from wrapperir_cpp.layout import BUILD_FACTS, PROGRAM, TEXT

_FACT = "debug_info"


def add_debug_information(
    artifact: Artifact, program: Program, source: DebugSource, record: LineRecord
) -> Artifact:
    """Return an emitted artifact that is built with debug information.

    For the source ``"program"``, each line of ``program.cpp`` is one of ``program.wir``, as
    far as ``record`` has a line of the program for it.
    """
    facts = {**json.loads(artifact.files[BUILD_FACTS]), _FACT: source}
    files = {**artifact.files, BUILD_FACTS: json.dumps(facts)}
    if source == "program":
        # Imported late: a library that is kept needs nothing that reads programs.
        from wrapperir.text import format_with_positions

        text = str(artifact.files[PROGRAM])
        paths = (*record.paths(text), ())
        _, positions = format_with_positions(program)
        kernels: dict[LinePath, Position] = {  # a record has their names
            ("definitions", line.name): positions["definitions", index]
            for index, line in enumerate(program.definitions)
        }
        places = [
            kernels.get(path) or positions.get(path) if path else None for path in paths
        ]
        lines = [None if place is None else place.line for place in places]
        marked = with_line_directives(text.split("\n"), lines)
        files[PROGRAM] = new = "\n".join(code for code, _ in marked)
        record.keep(new, [paths[index] for _, index in marked[:-1]])
    return evolve(artifact, files=files)


def with_line_directives(
    code: Sequence[str], lines: Sequence[int | None]
) -> Sequence[tuple[str, int]]:
    """Return ``program.cpp`` with ``#line`` where a compiler would count other lines.

    ``lines`` has the line of ``program.wir`` for each line of the code; where it is
    ``None``, the place is that of the result itself.  Each line of the result has the index
    of the line that it is or precedes.
    """
    result: list[tuple[str, int]] = []
    expected = (PROGRAM, 1)  # where a compiler takes the next line to be
    for index, (text, line) in enumerate(zip(code, lines, strict=True)):
        place = (TEXT, line) if line is not None else (PROGRAM, len(result) + 1)
        if place != expected:
            if line is None:
                place = (PROGRAM, len(result) + 2)
            result.append((f'#line {place[1]} "{place[0]}"', index))
        result.append((text, index))
        expected = (place[0], place[1] + 1)
    return result


def with_shown_sources(artifact: Artifact) -> Artifact:
    """Return an artifact whose folder has the files that debug information names.

    One without debug information needs none.

    Raises:
        DiagnosticError: WIR710, the user has no private cache directory.
        OSError: it cannot be written.
    """
    return keep_files(artifact) if has_debug_information(artifact) else artifact


def has_debug_information(artifact: Artifact) -> bool:
    """Return whether an artifact is built with debug information."""
    return _FACT in json.loads(artifact.files[BUILD_FACTS])
