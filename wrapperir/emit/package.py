"""Packages: an artifact and its constants as one file, laid out as PyTorch's ``.pt2``.

The file is a zip archive whose files are not compressed, so each can be mapped in place.
The files that a program needs when it runs are where ``AOTIModelPackageLoader`` of PyTorch
looks for a model, so PyTorch can load packages with a library.  The artifact's manifest and
its other texts are extra files in PyTorch's sense.
"""

import hashlib
import json
import mmap
import os
import struct
import sys
import zipfile
import zlib
from collections.abc import Generator, Iterable, Mapping, Set
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

from attrs import frozen

from wrapperir.diagnostics import Code
from wrapperir.emit.artifact import (
    MANIFEST,
    FileFacts,
    Manifest,
    checked_content,
    parse_manifest,
    read_manifest,
    replacing,
)
from wrapperir.emit.constants import CONSTANTS_DATA, CONSTANTS_LIST, constants_in
from wrapperir.emit.contract import Artifact

if TYPE_CHECKING:
    import torch


ALIGNMENT = 64
"""Bytes to which PyTorch aligns each file in its archives."""

_LOCAL_HEADER = struct.Struct("<4s5H3L2H")
_LOCAL_SIGNATURE = b"PK\3\4"
# The extra field that PyTorch pads with; readers skip what they do not know.
_PADDING = struct.Struct("<2sH")
_invalid = Code.INVALID_ARTIFACT.error
_EPOCH = (1980, 1, 1, 0, 0, 0)


@frozen
class ArchiveEntry:
    """A file in an archive: ``archive[begin:begin + size]``, and its CRC-32."""

    begin: int
    size: int
    crc: int


class ArchiveWriter:
    """Adds stored files to an archive; the same files make the same bytes."""

    def __init__(self, file: zipfile.ZipFile, output: BinaryIO) -> None:
        """Write to ``file``, whose bytes go to ``output``."""
        self._file = file
        self._output = output

    def add(
        self, name: str, size: int, chunks: Iterable[bytes], alignment: int = ALIGNMENT
    ) -> None:
        """Append a file of ``size`` bytes, which begin at a multiple of ``alignment``.

        Raises:
            ValueError: the chunks have another size.
            OSError: it cannot be written.
        """
        entry = zipfile.ZipInfo(name, _EPOCH)
        entry.create_system, entry.external_attr = 3, 0o644 << 16
        entry.file_size, entry.CRC = size, 0
        # As zipfile decides it, with room for the header: sizes of 64 bits take an
        # extra field of their own.
        large = size >= zipfile.ZIP64_LIMIT // 2
        begin = self._output.tell() + len(entry.FileHeader(zip64=large)) + _PADDING.size
        padding = -begin % alignment
        entry.extra = _PADDING.pack(b"FB", padding) + b"Z" * padding
        with self._file.open(entry, "w", force_zip64=large) as target:
            for chunk in chunks:
                target.write(chunk)
        if entry.file_size != size:
            raise ValueError(f"{name} has {entry.file_size} bytes, not {size}")


@contextmanager
def writing_archive(path: Path) -> Generator[ArchiveWriter]:
    """Yield an archive to fill, which replaces ``path`` at the end.

    Raises:
        OSError: it cannot be written, and names ``path``, which is as it was before.
    """
    with (
        replacing(path, by_file=True) as new,
        new.open("wb") as output,
        zipfile.ZipFile(output, "w", zipfile.ZIP_STORED) as file,
    ):
        yield ArchiveWriter(file, output)


def find_entries(file: BinaryIO, what: str) -> dict[str, ArchiveEntry]:
    """Return where the files of an archive are, by their names; reads only its directory.

    ``what`` names the archive in messages.

    Raises:
        DiagnosticError: WIR710, it is truncated or malformed, or a file
            is compressed, named twice, outside of the archive or overlaps another.
        OSError: it cannot be read.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            infos = archive.infolist()
        found: dict[str, ArchiveEntry] = {}
        for info in infos:
            if info.filename in found:
                raise _invalid(f"{what} holds {info.filename!a} twice")
            if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 0x2041:
                raise _invalid(f"{what} holds {info.filename!a} compressed or encrypted")
            found[info.filename] = _find_bytes(file, info)
    except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error) as error:
        raise _invalid(f"{what} is not a package: {error}") from None
    _check_places(found, file.seek(0, os.SEEK_END), what)
    return found


def _find_bytes(file: BinaryIO, info: zipfile.ZipInfo) -> ArchiveEntry:
    if info.compress_size != info.file_size:
        raise ValueError(f"{info.filename!a} has two sizes")
    if info.header_offset < 0:
        raise ValueError(f"{info.filename!a} begins before the archive")
    file.seek(info.header_offset)
    signature, *_, name, extra = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    if signature != _LOCAL_SIGNATURE:
        raise ValueError(f"{info.filename!a} is not where its directory says")
    begin = info.header_offset + _LOCAL_HEADER.size + name + extra
    return ArchiveEntry(begin, info.file_size, info.CRC)


def _check_places(entries: dict[str, ArchiveEntry], size: int, what: str) -> None:
    end = 0
    for name, entry in sorted(entries.items(), key=lambda item: item[1].begin):
        if entry.begin < end or entry.begin + entry.size > size:
            raise _invalid(f"{what} is damaged: {name!a} is outside of its place")
        end = entry.begin + entry.size


_ROOT = "package/"
_MODEL = f"{_ROOT}data/aotinductor/model/"
_EXTRA = f"{_ROOT}extra/wrapperir/"
_MANIFEST = f"{_EXTRA}{MANIFEST}"
# Files that mark an archive as PyTorch's, with its version.
_MARKS = {
    f"{_ROOT}archive_format": b"pt2",
    f"{_ROOT}archive_version": b"0",
    f"{_ROOT}.data/version": b"6\n",
    f"{_ROOT}byteorder": sys.byteorder.encode(),
}
_CHUNK = 1 << 24


def write_package(directory: Path, path: Path, model: Mapping[str, str]) -> None:
    """Write the artifact in ``directory`` to the single file ``path``.

    ``model`` is what PyTorch's loaders are to know of it; they need ``AOTI_DEVICE_KEY``.

    Raises:
        DiagnosticError: WIR710, the directory holds no artifact, or it was changed.
        OSError: a file cannot be read or written; ``path`` is then as it was before.
    """
    content, manifest = read_manifest(directory)
    with writing_archive(path) as archive:
        _add(archive, _MANIFEST, content)
        facts_of_model = json.dumps(dict(model), indent=2).encode()
        _add(archive, f"{_wrapper(manifest)}_metadata.json", facts_of_model)
        # Of several libraries, older loaders take the last.
        for name in sorted(
            manifest.files, key=lambda name: (_is_main(name, manifest), name)
        ):
            facts = manifest.files[name]
            _add_file(archive, _place(name, facts, manifest), facts, directory / name)
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
        DiagnosticError: WIR710, it is not a package, or was changed after it was written.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        entries = find_entries(file, str(path))
        mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    parts = {name: mapped[at.begin : at.begin + at.size] for name, at in entries.items()}
    if _MANIFEST not in parts:
        raise _invalid(f"{path} is an archive without a program of wrapperir")
    _check_sums([_MANIFEST], parts, entries, path)
    manifest = parse_manifest(bytes(parts[_MANIFEST]), str(path))
    _check_names(manifest, entries.keys(), path)
    _check_sums([f"{_wrapper(manifest)}_metadata.json", *_MARKS], parts, entries, path)
    files: dict[str, str | bytes] = {}
    data = mapped[:0]
    for name, facts in manifest.files.items():
        part = parts[_place(name, facts, manifest)]
        if not facts.is_large:
            files[name] = checked_content(bytes(part), facts, path / name)
        elif hashlib.sha256(part).hexdigest() != facts.sha256:
            raise _invalid(f"{path / name} was changed after it was written")
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


def _is_main(name: str, manifest: Manifest) -> bool:
    """Return whether a file is the library, or the source of the host program."""
    main = PurePosixPath(manifest.entry)
    return name in {str(main.with_suffix(".cpp")), str(main.with_suffix(".so"))}


def _wrapper(manifest: Manifest) -> str:
    # By this name the loaders know the library among others, its source and its facts.
    return f"{_MODEL}{PurePosixPath(manifest.entry).with_suffix('.wrapper')}"


def _place(name: str, facts: FileFacts, manifest: Manifest) -> str:
    if _is_main(name, manifest):
        return f"{_wrapper(manifest)}{PurePosixPath(name).suffix}"
    # Extra files are read as text.
    return f"{_EXTRA if facts.is_text else _MODEL}{name}"


def _check_names(manifest: Manifest, found: Set[str], path: Path) -> None:
    wanted = {_place(name, facts, manifest) for name, facts in manifest.files.items()}
    wanted |= {_MANIFEST, f"{_wrapper(manifest)}_metadata.json", *_MARKS}
    for name in sorted(wanted ^ found):
        what = "lacks" if name in wanted else "holds, and its manifest does not name,"
        raise _invalid(f"{path} {what} {name!a}")


def _check_sums(
    names: Iterable[str],
    parts: Mapping[str, memoryview],
    entries: Mapping[str, ArchiveEntry],
    path: Path,
) -> None:
    """Check files that have no digest in the manifest."""
    for name in names:
        if zlib.crc32(parts[name]) != entries[name].crc:
            raise _invalid(f"{path / name} was changed after it was written")


def _add(archive: ArchiveWriter, name: str, content: bytes) -> None:
    archive.add(name, len(content), [content])


def _add_file(archive: ArchiveWriter, name: str, facts: FileFacts, file: Path) -> None:
    digest = hashlib.sha256()
    alignment = mmap.PAGESIZE if facts.is_large else ALIGNMENT
    try:
        source = file.open("rb")
    except OSError as error:
        raise _invalid(f"{file} cannot be read: {error.strerror}") from None
    with source:

        def chunks() -> Generator[bytes]:
            while chunk := source.read(_CHUNK):
                digest.update(chunk)
                yield chunk

        archive.add(name, os.fstat(source.fileno()).st_size, chunks(), alignment)
    if digest.hexdigest() != facts.sha256:
        raise _invalid(f"{file} was changed after it was written")


def _read_constants(
    artifact: Artifact, data: memoryview, path: Path
) -> dict[str, "torch.Tensor"]:
    listing = artifact.files.get(CONSTANTS_LIST)
    if listing is None:
        return {}
    content = listing.encode() if isinstance(listing, str) else listing
    return constants_in(data, content, str(path))
