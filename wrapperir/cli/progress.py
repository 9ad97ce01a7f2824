"""Progress of long work on standard error."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TextIO, TypeAlias

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


Show: TypeAlias = Callable[[str, bool], None]
"""Shows a text at once, in place of the previous one; the flag is for "always"."""


@contextmanager
def counted_stage(every: int = 8) -> Generator[Show]:
    """Yield a function that shows a text while the block runs, replacing the previous one.

    Where standard error is not a terminal, each shown text is a line of its own: the first
    of each ``every`` texts, and each text to show always, which is not counted.  With
    ``--format json`` none is shown.
    """
    stream: TextIO | None = sys.stderr
    if stream is not None and stream.isatty():
        from rich.console import Console
        from rich.live import Live
        from rich.spinner import Spinner
        from rich.text import Text

        spinner = Spinner("dots")
        with Live(spinner, console=Console(stderr=True), transient=True) as live:

            def put(text: str, always: bool) -> None:
                spinner.update(text=Text(text))
                live.refresh()  # the next step may crash

            yield put
        return
    is_quiet = click.get_current_context().params.get("form") == "json"
    count = 0

    def show(text: str, always: bool) -> None:
        nonlocal count
        if (always or count % every == 0) and not is_quiet:
            click.echo(f"wrapperir: {text}", err=True)
        count += not always

    yield show
