"""Artifacts that are loaded from files, kept for this user under their digest."""

from pathlib import Path

from filelock import FileLock
from platformdirs import user_cache_path

from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError
from wrapperir.emit.artifact import artifact_digest, read_artifact, write_artifact
from wrapperir.emit.contract import Artifact
from wrapperir.private_directory import private_directory


def store_artifact(artifact: Artifact) -> Path:
    """Return a directory that holds the artifact; what was damaged is written anew.

    Raises:
        DiagnosticError: WIR710, there is no directory of this user's alone to keep it in.
        OSError: it cannot be written.
    """
    root = _store()
    directory = root / artifact_digest(artifact)
    with FileLock(root / "lock"):
        try:
            if read_artifact(directory) == artifact:
                return directory
        except DiagnosticError:
            pass  # not there yet, or damaged
        write_artifact(artifact, directory)
    return directory


def _store() -> Path:
    try:
        return private_directory(user_cache_path("wrapperir") / "artifacts")
    except OSError as error:
        raise DiagnosticError(
            Diagnostic(
                code=Code.INVALID_ARTIFACT,
                message=f"there is no place to keep what is loaded: {error.filename}:"
                f" {error.strerror or error}",
                hint="set XDG_CACHE_HOME to a directory of yours",
            )
        ) from None
