"""Archives that are given where a program or an exported model belongs."""

import zipfile
from pathlib import Path
from typing import BinaryIO

from wrapperir.diagnostics import Code, DiagnosticError

_BEGIN = b"PK\3\4"

_KINDS = (
    (
        "extra/wrapperir/manifest.json",
        "a package that wrapperir package wrote",
        "wrapperir.load of Python loads it; to compile its program again, give the"
        " directory that it was made of, or its text, extra/wrapperir/program.wir in it",
    ),
    (
        "data/aotinductor/",
        "a package that AOTInductor compiled",
        "torch._inductor.aoti_load_package loads it; wrapperir compile takes what"
        " torch.export.save wrote",
    ),
    (
        "models/",
        "an exported program",
        "wrapperir compile takes it if its name ends in .pt2",
    ),
    (
        "data.pkl",
        "a file that torch.save wrote",
        "wrapperir compile takes what torch.export.save wrote; --inputs and --constants"
        " take tensors",
    ),
)
"""A part of a name in each kind of archive, what it is, and what to do with it."""

_EXPORTED = 2
"""The kind that torch.export.save writes."""


def is_archive(content: bytes) -> bool:
    """Return whether a file that begins with these bytes is an archive."""
    return content.startswith(_BEGIN)


def check_exported(path: Path) -> None:
    """Check that an archive is not known to be something else than an exported program.

    Raises:
        DiagnosticError: WIR908, it is; the message says what.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        if _kind_of(file) not in (None, _EXPORTED):
            raise archive_error(str(path), file)


def archive_error(name: str, file: BinaryIO) -> DiagnosticError:
    """Return the error that an archive, which it describes, is not what is wanted."""
    kind = _kind_of(file)
    if kind is None:
        what, hint = "an archive", "wrapperir compile takes what torch.export.save wrote"
    else:
        _, what, hint = _KINDS[kind]
    return Code.NO_PROGRAM.error(f"{name} is {what}, not a program's text", hint=hint)


def _kind_of(file: BinaryIO) -> int | None:
    """Return the kind of an archive by the names in it; no content is read."""
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        return None
    for kind, (part, _, _) in enumerate(_KINDS):
        if any(part in name for name in names):
            return kind
    return None
