"""Artifacts on disk: written whole or not at all, and checked when read back."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import cast

from attrs import evolve, frozen

from wrapperir.caching import build_cache
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit.contract import Artifact

MANIFEST = "manifest.json"
MANIFEST_VERSION = 1
_invalid = Code.INVALID_ARTIFACT.error


@frozen
class FileFacts:
    """The entry of a file in a manifest: its SHA-256 in hex, and whether it is text.

    A file that ``is_large`` is not held in memory: it stays on disk when others are read.
    """

    sha256: str
    is_text: bool
    is_large: bool = False


@frozen
class Manifest:
    """The facts of an artifact, without its files' content."""

    emitter: str
    entry: str
    metadata: Mapping[str, str]
    files: Mapping[str, FileFacts]


def artifact_digest(artifact: Artifact) -> str:
    """Return the SHA-256, in hex, of everything in an artifact."""
    return hashlib.sha256(_format_manifest(artifact, {}).encode()).hexdigest()


def write_artifact(
    artifact: Artifact,
    directory: Path,
    large: Mapping[str, Iterable[bytes | memoryview]] = MappingProxyType({}),
) -> None:
    """Write an artifact and its manifest to ``directory``.

    The files are written beside it and moved there at once; an older artifact there is
    replaced.  ``large`` are files too large to be held in memory, as their parts; the
    artifact is read without them.

    Raises:
        DiagnosticError: a file's path leaves the directory, or the directory exists and
            holds something other than an artifact.
        OSError: the files cannot be written.
    """
    for path in (artifact.entry, *artifact.files, *large):
        _check_path(path)
    if directory.exists() and not _replaceable(directory):
        raise _invalid(f"{directory} exists and is not an artifact, so it is not replaced")
    with replacing(directory) as new:
        for path, content in artifact.files.items():
            target = new / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(_encoded(content))
        digests = {path: _write_parts(new / path, parts) for path, parts in large.items()}
        (new / MANIFEST).write_bytes(_format_manifest(artifact, digests).encode())


def read_artifact(directory: Path) -> Artifact:
    """Read an artifact that :func:`write_artifact` wrote; executes nothing.

    Raises:
        DiagnosticError: there is no manifest, its version is unknown, or a file is
            missing or was changed.
    """
    _, manifest = read_manifest(directory)
    try:
        files = {
            path: checked_content((directory / path).read_bytes(), facts, directory / path)
            for path, facts in manifest.files.items()
            if not facts.is_large
        }
        for path, facts in manifest.files.items():
            if facts.is_large:
                _check_large(directory / path, facts)
    except OSError as error:
        raise _invalid(f"{directory} lacks a file of its manifest: {error}") from None
    folder = directory.absolute()
    return Artifact(
        manifest.emitter, files, manifest.entry, manifest.metadata, folder=folder
    )


def read_manifest(directory: Path) -> tuple[bytes, Manifest]:
    """Return the manifest of the artifact in a directory, as bytes and parsed.

    Raises:
        DiagnosticError: WIR710, there is none, or it is malformed.
    """
    try:
        content = (directory / MANIFEST).read_bytes()
    except OSError as error:
        message = f"{directory} has no readable {MANIFEST}: {error}"
        raise _invalid(message) from None
    return content, parse_manifest(content, str(directory))


def parse_manifest(content: bytes, where: str) -> Manifest:
    """Parse the manifest of an artifact that messages call ``where``.

    Raises:
        DiagnosticError: WIR710, it is malformed or of another version, or a path in it
            leaves the artifact.
    """
    try:
        fields = _object(json.loads(content))
        version = fields["wrapperir_artifact"]
        if version != MANIFEST_VERSION:
            raise _invalid(f"{where} is an artifact of version {version!r}, not 1")
        files: dict[str, FileFacts] = {}
        for path, entry in _object(fields["files"]).items():
            _check_path(path)
            facts = _object(entry)
            is_large = facts.get("large") is True
            files[path] = FileFacts(_text(facts["sha256"]), facts["text"] is True, is_large)
        main = _text(fields["entry"])
        if main not in files or files[main].is_large:
            raise _invalid(f"{where} lacks its entry {main!a}")
        metadata = {k: _text(value) for k, value in _object(fields["metadata"]).items()}
        return Manifest(_text(fields["emitter"]), main, metadata, files)
    except (ValueError, RecursionError) as error:
        raise _invalid(f"{where} has no readable {MANIFEST}: {error}") from None
    except (KeyError, TypeError) as error:
        raise _invalid(
            f"{MANIFEST} of {where} is malformed: {type(error).__name__} {error}"
        ) from None


def checked_content(content: bytes, facts: FileFacts, where: Path) -> str | bytes:
    """Return a file's content as its artifact has it, held against the manifest.

    Raises:
        DiagnosticError: WIR710, it is not what was written.
    """
    if hashlib.sha256(content).hexdigest() != facts.sha256:
        raise _invalid(f"{where} was changed after it was written")
    try:
        return content.decode() if facts.is_text else content
    except UnicodeDecodeError as error:
        raise _invalid(f"{where} is not text: {error}") from None


def _write_parts(path: Path, parts: Iterable[bytes | memoryview]) -> str:
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for part in parts:
            file.write(part)
            digest.update(part)
    return digest.hexdigest()


def _check_large(path: Path, facts: FileFacts) -> None:
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != facts.sha256:
            raise _invalid(f"{path} was changed after it was written")


def _format_manifest(artifact: Artifact, large: Mapping[str, str]) -> str:
    files: dict[str, object] = {
        path: {
            "sha256": hashlib.sha256(_encoded(content)).hexdigest(),
            "text": isinstance(content, str),
        }
        for path, content in sorted(artifact.files.items())
    }
    for path, digest in large.items():
        files[path] = {"sha256": digest, "text": False, "large": True}
    manifest: dict[str, object] = {
        "wrapperir_artifact": MANIFEST_VERSION,
        "emitter": artifact.emitter,
        "entry": artifact.entry,
        "metadata": dict(sorted(artifact.metadata.items())),
        "files": files,
    }
    return json.dumps(manifest, indent=2) + "\n"


def _object(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise TypeError("an object was expected")
    return cast(Mapping[str, object], value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a string was expected")
    return value


def _encoded(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


def _check_path(path: str) -> None:
    # Only names that mean the same on every file system, inside the directory.
    pure = PurePosixPath(path)
    plain = all(c.isascii() and (c.isalnum() or c in "._-/") for c in path)
    inside = str(pure) == path and not pure.is_absolute() and ".." not in pure.parts
    if not pure.parts or not plain or not inside:
        raise _invalid(f"{path!a} is not a relative path inside an artifact")
    if path == MANIFEST:
        raise _invalid(f"{MANIFEST} is the artifact's own")


def _replaceable(directory: Path) -> bool:
    return directory.is_dir() and (
        (directory / MANIFEST).is_file() or not any(directory.iterdir())
    )


def store_artifact(artifact: Artifact) -> Path:
    """Return a directory that holds the artifact; a damaged one is written anew.

    Raises:
        DiagnosticError: WIR710, the user has no private cache directory.
        OSError: it cannot be written.
    """
    cache, digest = build_cache("artifacts"), artifact_digest(artifact)
    with cache.locked(digest) as folder:
        directory = folder / digest
        try:
            if read_artifact(directory) == artifact:
                return directory
        except DiagnosticError:
            pass  # not there yet, or damaged
        write_artifact(artifact, directory)
        return directory


def keep_files(artifact: Artifact) -> Artifact:
    """Return an artifact with a folder, in the user's cache unless it has one.

    Raises:
        DiagnosticError: WIR710, the user has no private cache directory.
        OSError: it cannot be written.
    """
    if artifact.folder is not None:
        return artifact
    return evolve(artifact, folder=store_artifact(artifact))


@contextmanager
def replacing(path: Path, *, by_file: bool = False) -> Generator[Path]:
    """Yield an empty folder to fill, which replaces ``path`` at the end.

    It is made beside ``path``, and removed if the block raises; ``path`` is then as it was
    before.  With ``by_file``, the block writes a file at the path that it is given.

    Raises:
        OSError: something cannot be written; it names ``path``.
    """
    scratch: Path | None = None
    try:
        if not by_file:
            path.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{path.name[:100]}-", dir=path.parent))
        new, old = scratch / "new", scratch / "old"
        if not by_file:
            new.mkdir()
        yield new
        try:
            if not by_file and path.exists():  # a file replaces a file in one step
                os.replace(path, old)
            os.replace(new, path)
        except BaseException:
            if old.exists() and not path.exists():
                os.replace(old, path)
            raise
    except OSError as error:
        cause = error.strerror or str(error)
        raise OSError(error.errno, cause, str(path)) from error
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)


def dump_folder(root: Path, role: str) -> Path:
    """Create and return a new folder for one program: ``forward-0``, ``backward-1``.

    The number counts programs in ``root``; another process never gets the same folder.
    """
    root.mkdir(parents=True, exist_ok=True)
    number = sum(1 for _ in root.iterdir())
    while True:
        folder = root / f"{role}-{number}"
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
        else:
            return folder
