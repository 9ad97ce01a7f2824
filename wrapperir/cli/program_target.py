"""What ``compile`` is given, where that is a program: its text, and its constants."""

from pathlib import Path

from wrapperir.cli.source import (
    PROGRAM_JSON,
    PROGRAM_TEXT,
    STANDARD_INPUT,
    Source,
    parse_source,
)
from wrapperir.cli.value_files import load_constants
from wrapperir.emit.constant_files import read_constants
from wrapperir.frontend.lowered import Lowered
from wrapperir.loading import find_artifacts


def is_program(target: str) -> bool:
    """Return whether a target names a program, and no code of Python."""
    named = target.endswith((".wir", ".json")) or target == STANDARD_INPUT
    return named or Path(target).is_dir()


def read_program(source: Source, target: str, file: str | None) -> tuple[Lowered, Source]:
    """Return a program with constants, those in ``file`` or beside it, and its text.

    Raises:
        DiagnosticError: the text is malformed; WIR904, the file is no dict of tensors; or
            WIR710, the constants beside the program are malformed.
        OSError: a file cannot be read.
    """
    program, source = parse_source(source)
    if file is not None:
        return Lowered(program, load_constants(file)), source
    folder = _folder(target)
    beside = find_artifacts(folder) if folder is not None else ()
    for artifact in beside:
        if found := read_constants(artifact):
            return Lowered(program, found), source
    return Lowered(program, {}), source


def _folder(target: str) -> Path | None:
    """Return the folder that ``compile`` wrote the program to, if it did."""
    path = Path(target)
    if target != STANDARD_INPUT and path.is_dir():
        return path
    return path.parent if path.name in {PROGRAM_TEXT, PROGRAM_JSON} else None
