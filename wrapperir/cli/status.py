"""Exit statuses, and how errors become them."""

import functools
from collections.abc import Callable
from typing import ParamSpec

import click

from wrapperir.cli.report import report
from wrapperir.cli.source import NOWHERE, Source
from wrapperir.diagnostics import DiagnosticError

ERRORS = 1
"""Errors were reported, each with its code."""

INTERRUPTED = 130
"""Ctrl-C, as shells count it."""

FILES = 3
"""A file could not be read or written."""

P = ParamSpec("P")


def reporting(run: Callable[P, None]) -> Callable[P, None]:
    """Turn what a subcommand raises into a report on standard error and a status.

    Diagnostics are shown in the program that is being worked on, which the subcommand
    names with :func:`wrapperir.cli.source.working_on`.
    """

    @functools.wraps(run)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        context = click.get_current_context()
        try:
            run(*args, **kwargs)
        except DiagnosticError as error:
            source = context.meta.get(_SOURCE, NOWHERE)
            form = context.params.get("form", "text")
            report(error.diagnostics, source, form="json" if form == "json" else "text")
            context.exit(ERRORS)
        except BrokenPipeError:
            raise  # click ends quietly
        except OSError as error:
            name = f"{error.filename}: " if error.filename else ""
            click.echo(f"wrapperir: {name}{error.strerror or error}", err=True)
            context.exit(FILES)
        except KeyboardInterrupt:
            click.echo("wrapperir: interrupted", err=True)
            context.exit(INTERRUPTED)

    return wrapped


_SOURCE = "wrapperir.source"


def working_on(source: Source) -> None:
    """Name the program that diagnostics from here on are about."""
    click.get_current_context().meta[_SOURCE] = source
