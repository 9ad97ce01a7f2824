"""Writing output files whole or not at all."""

import errno
import os
import secrets
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TextIO

import click

from wrapperir.cli.source import STANDARD_INPUT


def write_output(path: str | None, text: str) -> None:
    """Write text to a file, or to standard output for ``None`` and ``-``.

    A file that exists is replaced once the new one is whole on disk; it is never left
    half written.

    Raises:
        OSError: it cannot be written; the error names ``path``.
    """
    if path is None or path == STANDARD_INPUT:
        stream: TextIO | None = sys.stdout
        if stream is None:  # it was closed before Python began
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), "<stdout>")
        click.echo(text, nl=False)
        return
    try:
        _replace(Path(path), text.encode())
    except OSError as error:
        cause = error.strerror or str(error)
        raise OSError(error.errno, cause, path) from error


def check_output(path: str | None) -> None:
    """Check that a file can be written with :func:`write_output`; nothing is left behind.

    Raises:
        OSError: it is a directory, or its directory is missing or not writable; the error
            names ``path``.
    """
    if path is None or path == STANDARD_INPUT:
        return
    target = Path(path)
    target = target.resolve() if target.is_symlink() else target
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    _try_directory(target.parent, path)


def check_output_directory(directory: Path) -> None:
    """Check that a directory can be created or replaced; nothing is left behind.

    Raises:
        OSError: its parent is not a writable directory; the error names ``directory``.
    """
    above = directory.parent
    while not above.exists() and above != above.parent:
        above = above.parent
    _try_directory(above, str(directory))


def _try_directory(directory: Path, path: str) -> None:
    try:
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        cause = error.strerror or str(error)
        raise OSError(error.errno, cause, path) from error


def _replace(target: Path, content: bytes) -> None:
    # A link is written through, not replaced.
    target = target.resolve() if target.is_symlink() else target
    scratch = target.parent / f".{target.name[:100]}-{secrets.token_hex(8)}"
    file = scratch.open("xb")
    try:
        with file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, scratch)
        os.replace(scratch, target)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
