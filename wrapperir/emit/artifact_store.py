"""Artifacts that are loaded from files, kept for this user under their digest."""

from pathlib import Path

from wrapperir.caching import build_cache
from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit.artifact import artifact_digest, read_artifact, write_artifact
from wrapperir.emit.contract import Artifact


def store_artifact(artifact: Artifact) -> Path:
    """Return a directory that holds the artifact; a damaged one is written anew.

    Raises:
        DiagnosticError: WIR710, there is no private directory to keep it in.
        OSError: it cannot be written.
    """
    cache, digest = build_cache("artifacts"), artifact_digest(artifact)
    directory = cache.folder() / digest
    with cache.locked(digest):
        try:
            if read_artifact(directory) == artifact:
                return directory
        except DiagnosticError:
            pass  # not there yet, or damaged
        write_artifact(artifact, directory)
    return directory
