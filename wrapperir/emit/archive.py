"""Zip archives of stored files, as PyTorch writes them: each can be mapped in place.

Nothing is compressed, so no archive needs more memory than it has bytes.
"""

import os
import struct
import tempfile
import zipfile
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from attrs import frozen

from wrapperir.diagnostics import Code, DiagnosticError

ALIGNMENT = 64
"""Bytes to which PyTorch aligns each file in its archives."""

_LOCAL_HEADER = struct.Struct("<4s5H3L2H")
_LOCAL_SIGNATURE = b"PK\3\4"
# The extra field that PyTorch pads with; readers skip what they do not know.
_PADDING = struct.Struct("<2sH")
_EPOCH = (1980, 1, 1, 0, 0, 0)


@frozen
class Entry:
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
    """Give an archive to fill, which takes the place of ``path`` at the end.

    Raises:
        OSError: it cannot be written, and names ``path``, which is as it was before.
    """
    scratch: str | None = None
    try:
        prefix = f".{path.name[:100]}-"
        descriptor, scratch = tempfile.mkstemp(prefix=prefix, dir=path.parent)
        with (
            os.fdopen(descriptor, "wb") as output,
            zipfile.ZipFile(output, "w", zipfile.ZIP_STORED) as file,
        ):
            yield ArchiveWriter(file, output)
        os.chmod(scratch, 0o666 & ~_umask())
        os.replace(scratch, path)
        scratch = None
    except OSError as error:
        cause = error.strerror or str(error)
        raise OSError(error.errno, cause, str(path)) from error
    finally:
        if scratch is not None:
            os.unlink(scratch)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def find_entries(file: BinaryIO, what: str) -> dict[str, Entry]:
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
        found: dict[str, Entry] = {}
        for info in infos:
            if info.filename in found:
                raise invalid(f"{what} holds {info.filename!a} twice")
            if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 0x2041:
                raise invalid(f"{what} holds {info.filename!a} compressed or encrypted")
            found[info.filename] = _find_bytes(file, info)
    except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error) as error:
        raise invalid(f"{what} is not a package: {error}") from None
    _check_places(found, file.seek(0, os.SEEK_END), what)
    return found


def invalid(message: str) -> DiagnosticError:
    """Return the error for a file that is not a package, or a damaged one."""
    return Code.INVALID_ARTIFACT.error(message)


def _find_bytes(file: BinaryIO, info: zipfile.ZipInfo) -> Entry:
    if info.compress_size != info.file_size:
        raise ValueError(f"{info.filename!a} has two sizes")
    if info.header_offset < 0:
        raise ValueError(f"{info.filename!a} begins before the archive")
    file.seek(info.header_offset)
    signature, *_, name, extra = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    if signature != _LOCAL_SIGNATURE:
        raise ValueError(f"{info.filename!a} is not where its directory says")
    begin = info.header_offset + _LOCAL_HEADER.size + name + extra
    return Entry(begin, info.file_size, info.CRC)


def _check_places(entries: dict[str, Entry], size: int, what: str) -> None:
    end = 0
    for name, entry in sorted(entries.items(), key=lambda item: item[1].begin):
        if entry.begin < end or entry.begin + entry.size > size:
            raise invalid(f"{what} is damaged: {name!a} is outside of its place")
        end = entry.begin + entry.size
