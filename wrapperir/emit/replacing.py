"""Directories that are replaced whole or not at all."""

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(directory: Path) -> Generator[Path]:
    """Give an empty folder to fill, which takes the place of ``directory`` at the end.

    It is made beside ``directory``, and removed if the block raises; ``directory`` is then
    as it was before.

    Raises:
        OSError: something cannot be written; it names ``directory``.
    """
    scratch: Path | None = None
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        prefix = f".{directory.name[:100]}-"
        scratch = Path(tempfile.mkdtemp(prefix=prefix, dir=directory.parent))
        new, old = scratch / "new", scratch / "old"
        new.mkdir()
        yield new
        replaced = directory.exists()
        if replaced:
            os.replace(directory, old)
        try:
            os.replace(new, directory)
        except OSError:
            if replaced:
                os.replace(old, directory)
            raise
    except OSError as error:
        cause = error.strerror or str(error)
        raise OSError(error.errno, cause, str(directory)) from error
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)
