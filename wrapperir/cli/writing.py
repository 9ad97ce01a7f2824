"""Writing output files whole or not at all."""

import os
import tempfile
from pathlib import Path

import click

from wrapperir.cli.source import STANDARD_INPUT


def write_output(path: str | None, text: str) -> None:
    """Write text to a file, or to standard output for ``None`` and ``-``.

    A file that exists is replaced once the new one is whole on disk; it is never left
    half written.

    Raises:
        OSError: it cannot be written.
    """
    if path is None or path == STANDARD_INPUT:
        click.echo(text, nl=False)
        return
    target = Path(path)
    # A link is written through, not replaced.
    target = target.resolve() if target.is_symlink() else target
    descriptor, scratch = tempfile.mkstemp(
        prefix=f".{target.name[:100]}-", dir=target.parent
    )
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        os.chmod(scratch, _mode(target))
        os.replace(scratch, target)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise


def _mode(target: Path) -> int:
    """Return the permissions of the file that is replaced, or those of a new one."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
