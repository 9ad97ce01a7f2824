"""What long work is doing, on standard error, when that is a terminal."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TextIO


@contextmanager
def stage(what: str) -> Generator[None]:
    """Show ``what`` while the block runs."""
    stream: TextIO | None = sys.stderr  # None if it was closed before Python began
    if stream is None or not stream.isatty():
        yield
        return
    from rich.console import Console  # loaded late: only terminals have progress

    with Console(stderr=True).status(what):
        yield
