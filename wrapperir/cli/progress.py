"""What long work is doing, on standard error, when that is a terminal."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TextIO

import click


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


@contextmanager
def counted_stage(every: int = 8) -> Generator[Callable[[str], None]]:
    """Give what shows a text while the block runs, in place of the one before.

    Where standard error is no terminal, each ``every``-th is a line of its own, the first
    among them; with ``--format json`` none is.
    """
    stream: TextIO | None = sys.stderr
    if stream is not None and stream.isatty():
        from rich.console import Console
        from rich.markup import escape

        with Console(stderr=True).status("") as status:
            yield lambda text: status.update(escape(text))
        return
    is_quiet = click.get_current_context().params.get("form") == "json"
    count = 0

    def show(text: str) -> None:
        nonlocal count
        if count % every == 0 and not is_quiet:
            click.echo(f"wrapperir: {text}", err=True)
        count += 1

    yield show
