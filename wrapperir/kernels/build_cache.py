"""What is built once and kept for this user: files under a digest of what makes them."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock
from platformdirs import user_cache_path

from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError
from wrapperir.private_directory import private_directory


def digest_of(*facts: object) -> str:
    """Return a digest of strings, numbers, bytes and tuples of them."""
    return hashlib.sha256(repr(facts).encode("utf-8", "surrogatepass")).hexdigest()


def built_once(kind: str, key: str, make: Callable[[Path], None]) -> Path:
    """Return the file of a kind with this key; ``make`` writes it where there is none.

    ``make`` is given a path in a folder of its own, which is removed after.  Of several
    processes one makes the file.  What was damaged since is made anew.

    Raises:
        DiagnosticError: WIR710, there is no place to keep it; or what ``make`` raises.
    """
    root = _directory(kind)
    kept = root / key
    seal = root / f"{key}.sha256"
    if _is_whole(kept, seal):
        return kept
    # A lock a kind and first digits, so that locks do not pile up.
    with FileLock(root / f"lock-{key[:2]}"):
        if _is_whole(kept, seal):
            return kept
        scratch = Path(tempfile.mkdtemp(dir=root))
        try:
            made = scratch / "made"
            make(made)
            sealed = scratch / "seal"
            sealed.write_text(_digest(made))
            seal.unlink(missing_ok=True)
            os.replace(made, kept)
            os.replace(sealed, seal)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return kept


def _is_whole(kept: Path, seal: Path) -> bool:
    try:
        return seal.read_text() == _digest(kept)
    except (OSError, UnicodeDecodeError):
        return False


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _directory(kind: str) -> Path:
    try:
        return private_directory(user_cache_path("wrapperir") / kind)
    except OSError as error:
        raise DiagnosticError(
            Diagnostic(
                code=Code.INVALID_ARTIFACT,
                message=f"there is no place to keep what is built: {error.filename}:"
                f" {error.strerror or error}",
                hint="set XDG_CACHE_HOME to a directory of yours",
            )
        ) from None
