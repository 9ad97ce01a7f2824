"""Packages: a built artifact as one file, which PyTorch's own loaders load as well.

The file is a zip archive of stored files, laid out as PyTorch's ``.pt2`` archives are.
What the program needs when it runs is where ``AOTIModelPackageLoader`` looks for a model;
the artifact's manifest and its texts are extra files.
"""

import hashlib
import json
import mmap
import platform
import sys
import zlib
from collections.abc import Generator, Mapping, Set
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen

from wrapperir import __version__
from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError
from wrapperir.emit.artifact import (
    MANIFEST,
    FileFacts,
    Manifest,
    checked_content,
    parse_manifest,
)
from wrapperir.emit.constant_files import CONSTANTS_DATA, CONSTANTS_LIST, constants_in
from wrapperir.emit.contract import Artifact
from wrapperir_cpp.archive import (
    ALIGNMENT,
    ArchiveWriter,
    find_entries,
    invalid,
    writing_archive,
)
from wrapperir_cpp.build import BUILD_FACTS, LIBRARY

if TYPE_CHECKING:
    import torch

_ROOT = "package/"
_MODEL = f"{_ROOT}data/aotinductor/model/"
_EXTRA = f"{_ROOT}extra/wrapperir/"
# The loaders find the library and its source by their suffixes, and what is known of the
# model by a name that ends so; it is the source's name with another ending.
_NAMES = {
    "program.cpp": f"{_MODEL}program.wrapper.cpp",
    LIBRARY: f"{_MODEL}program.wrapper.so",
}
_MODEL_FACTS = f"{_MODEL}program.wrapper_metadata.json"
_MANIFEST = f"{_EXTRA}{MANIFEST}"
# What says that an archive is PyTorch's, and of which version.
_MARKS = {
    f"{_ROOT}archive_format": b"pt2",
    f"{_ROOT}archive_version": b"0",
    f"{_ROOT}.data/version": b"6\n",
    f"{_ROOT}byteorder": sys.byteorder.encode(),
}
# What the manifest has no digest of.
_UNLISTED = frozenset({_MANIFEST, _MODEL_FACTS, *_MARKS})
_CHUNK = 1 << 24


def write_package(directory: Path, path: Path) -> None:
    """Write the built artifact in ``directory`` to the single file ``path``.

    Raises:
        DiagnosticError: WIR705, the artifact is of an emitter without packages; WIR710, it
            is none, is not built, or was changed.
        OSError: a file cannot be read or written; ``path`` is then as it was before.
    """
    try:
        content = (directory / MANIFEST).read_bytes()
    except OSError as error:
        raise invalid(f"{directory} has no readable {MANIFEST}: {error}") from None
    manifest = parse_manifest(content, str(directory))
    _check_packable(manifest, directory)
    with writing_archive(path) as archive:
        _add(archive, _MANIFEST, content)
        _add(archive, _MODEL_FACTS, _format_model_facts(manifest, directory))
        # The loaders take the last library and the last source that they see.
        for name in sorted(manifest.files, key=lambda name: (name in _NAMES, name)):
            _add_file(archive, name, manifest.files[name], directory / name)
        for name, mark in _MARKS.items():
            _add(archive, name, mark)


@frozen
class Package:
    """An artifact and its constants, read from a package.

    The constants are mapped from the file: what is used is read then, and what a program
    writes to them does not reach the file.
    """

    artifact: Artifact
    constants: Mapping[str, "torch.Tensor"]


def read_package(path: Path) -> Package:
    """Read a package; executes nothing in it, and writes nothing.

    Raises:
        DiagnosticError: WIR710, it is no package, or was changed after it was written.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        entries = find_entries(file, str(path))
        mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    parts = {name: mapped[at.begin : at.begin + at.size] for name, at in entries.items()}
    if _MANIFEST not in parts:
        raise invalid(f"{path} is an archive without a program of wrapperir")
    for name in _UNLISTED & entries.keys():
        if zlib.crc32(parts[name]) != entries[name].crc:
            raise invalid(f"{path}: {name} was changed after it was written")
    manifest = parse_manifest(bytes(parts[_MANIFEST]), str(path))
    _check_names(manifest, entries.keys(), path)
    files: dict[str, str | bytes] = {}
    data = mapped[:0]
    for name, facts in manifest.files.items():
        part = parts[_archive_name(name, facts)]
        if not facts.is_large:
            files[name] = checked_content(bytes(part), facts, path / name)
        elif hashlib.sha256(part).hexdigest() != facts.sha256:
            raise invalid(f"{path / name} was changed after it was written")
        elif name == CONSTANTS_DATA:
            data = part
    artifact = Artifact(manifest.emitter, files, manifest.entry, manifest.metadata)
    return Package(artifact, _read_constants(artifact, data, path))


def is_package(path: Path) -> bool:
    """Return whether ``path`` is a file that begins as packages do."""
    try:
        with path.open("rb") as file:
            return file.read(4) == b"PK\3\4"
    except OSError:
        return False


def _check_packable(manifest: Manifest, directory: Path) -> None:
    if manifest.emitter != "cpp":
        raise DiagnosticError(
            Diagnostic(
                code=Code.UNSUPPORTED_FEATURE,
                message=f"{directory} was made by the {manifest.emitter} emitter, which has"
                " no packages",
                hint="compile with --emitter cpp",
            )
        )
    if LIBRARY not in manifest.files:
        raise invalid(f"{directory} has no {LIBRARY}: it was emitted, but not built")


def _archive_name(name: str, facts: FileFacts) -> str:
    return _NAMES.get(name) or f"{_EXTRA if facts.is_text else _MODEL}{name}"


def _check_names(manifest: Manifest, found: Set[str], path: Path) -> None:
    wanted = {_archive_name(name, facts) for name, facts in manifest.files.items()}
    wanted |= _UNLISTED
    for name in sorted(wanted ^ found):
        what = "lacks" if name in wanted else "holds, and its manifest does not name,"
        raise invalid(f"{path} {what} {name!a}")


def _format_model_facts(manifest: Manifest, directory: Path) -> bytes:
    """Return what PyTorch's loaders ask of a model; they compare the machine's facts."""
    facts = {
        "AOTI_DEVICE_KEY": _device(manifest, directory),
        "AOTI_PLATFORM": sys.platform,
        "AOTI_MACHINE": platform.machine(),
        "WRAPPERIR": __version__,
    }
    return json.dumps(facts, indent=2).encode()


def _device(manifest: Manifest, directory: Path) -> str:
    if BUILD_FACTS not in manifest.files:
        raise invalid(f"{directory} lacks {BUILD_FACTS}")
    file = directory / BUILD_FACTS
    content = checked_content(file.read_bytes(), manifest.files[BUILD_FACTS], file)
    return "cuda" if "cuda" in json.loads(content)["devices"] else "cpu"


def _add(archive: ArchiveWriter, name: str, content: bytes) -> None:
    archive.add(name, len(content), [content])


def _add_file(archive: ArchiveWriter, name: str, facts: FileFacts, file: Path) -> None:
    digest = hashlib.sha256()

    def chunks() -> Generator[bytes]:
        with file.open("rb") as source:
            while chunk := source.read(_CHUNK):
                digest.update(chunk)
                yield chunk

    alignment = mmap.PAGESIZE if facts.is_large else ALIGNMENT
    try:
        archive.add(_archive_name(name, facts), file.stat().st_size, chunks(), alignment)
    except FileNotFoundError:
        raise invalid(f"{file} is missing") from None
    if digest.hexdigest() != facts.sha256:
        raise invalid(f"{file} was changed after it was written")


def _read_constants(
    artifact: Artifact, data: memoryview, path: Path
) -> dict[str, "torch.Tensor"]:
    listing = artifact.files.get(CONSTANTS_LIST)
    if listing is None:
        return {}
    content = listing.encode() if isinstance(listing, str) else listing
    return constants_in(data, content, str(path))
