"""What long work is doing, on standard error, when that is a terminal."""

import sys
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def stage(what: str) -> Generator[None]:
    """Show ``what`` while the block runs."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console  # loaded late: only terminals have progress

    with Console(stderr=True).status(what):
        yield
