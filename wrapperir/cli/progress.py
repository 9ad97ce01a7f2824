"""What long work is doing, on standard error, when that is a terminal."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol, TextIO

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


class Show(Protocol):
    """Shows a text at once, in place of the one before."""

    def __call__(self, text: str, *, always: bool = False) -> None:
        """Show a text; one that is ``always`` shown counts for none of the others."""
        ...


@contextmanager
def counted_stage(every: int = 8) -> Generator[Show]:
    """Give what shows a text while the block runs, in place of the one before.

    Where standard error is no terminal, each ``every``-th is a line of its own, the first
    and those ``always`` shown among them; with ``--format json`` none is.
    """
    stream: TextIO | None = sys.stderr
    if stream is not None and stream.isatty():
        from rich.console import Console
        from rich.live import Live
        from rich.spinner import Spinner
        from rich.text import Text

        spinner = Spinner("dots")
        with Live(spinner, console=Console(stderr=True), transient=True) as live:

            def put(text: str, *, always: bool = False) -> None:
                spinner.update(text=Text(text))
                live.refresh()  # what comes next may crash

            yield put
        return
    is_quiet = click.get_current_context().params.get("form") == "json"
    count = 0

    def show(text: str, *, always: bool = False) -> None:
        nonlocal count
        if (always or count % every == 0) and not is_quiet:
            click.echo(f"wrapperir: {text}", err=True)
        count += not always

    yield show
