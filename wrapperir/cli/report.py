"""Diagnostics on the terminal or as JSON, and the exit status that follows from them."""

import functools
import re
import sys
from collections.abc import Callable, Sequence
from typing import Literal, ParamSpec, TextIO

import click

from wrapperir.cli.source import NOWHERE, Source, parse_source, read_source
from wrapperir.diagnostics import (
    Diagnostic,
    DiagnosticError,
    format_diagnostics,
    format_diagnostics_json,
)
from wrapperir.ir import Program

ERRORS = 1
"""Exit status: errors were reported, each with its code."""

INTERRUPTED = 130
"""Exit status after Ctrl-C, by the convention of shells."""

FILES = 3
"""Exit status: a file could not be read or written."""

P = ParamSpec("P")

_STYLES = (
    (re.compile(r"\berror WIR\d{3}:", re.ASCII), "bold red"),
    (re.compile(r"\bwarning WIR\d{3}:", re.ASCII), "bold yellow"),
    (re.compile(r"^\s*(?:\d+ )?\|\s*(\^~*)$"), "bold green"),
    (re.compile(r"^\s*= hint:"), "bold cyan"),
)


_SURROGATE = re.compile("[\ud800-\udfff]")
"""Stands for a byte that is not part of UTF-8 text."""


def report(
    diagnostics: Sequence[Diagnostic],
    source: Source,
    *,
    form: Literal["text", "json"] = "text",
    err: bool = True,
) -> None:
    """Write diagnostics to standard error, or with ``err=False`` to standard output."""
    write = format_diagnostics_json if form == "json" else format_diagnostics
    shown = _SURROGATE.sub("\ufffd", source.text)
    text = write(diagnostics, shown, source.positions, source.name)
    # Python has None for a stream that was closed before it began.
    stream: TextIO | None = sys.stderr if err else sys.stdout
    if form == "json" or stream is None or not stream.isatty():
        click.echo(text, nl=not text.endswith("\n") and bool(text), err=err)
        return
    from rich.console import Console  # loaded late: only terminals have colours
    from rich.text import Text

    console = Console(stderr=err, highlight=False, soft_wrap=True)
    for line in text.splitlines():
        styled = Text(line)
        for pattern, style in _STYLES:
            styled.highlight_regex(pattern, style)
        console.print(styled)


def notice(text: str) -> None:
    """Write a remark to standard error, except with ``--format json``."""
    if click.get_current_context().params.get("form") != "json":
        click.echo(f"wrapperir: {text}", err=True)


def reporting(run: Callable[P, None]) -> Callable[P, None]:
    """Turn the errors of a subcommand into a report on standard error and an exit status.

    Diagnostics are shown in the program that the subcommand named last with
    :func:`working_on`.
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
    """Name the program that later diagnostics are about."""
    click.get_current_context().meta[_SOURCE] = source


def open_program(path: str) -> tuple[Program, Source]:
    """Return the program in a file, and the text to show its diagnostics in.

    Raises:
        DiagnosticError: the file holds no program, or its text is malformed.
        OSError: it cannot be read.
    """
    source = read_source(path)
    working_on(source)
    program, source = parse_source(source)
    working_on(source)
    return program, source
