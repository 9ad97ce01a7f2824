"""Showing diagnostics: as text with carets, coloured on a terminal, or as JSON."""

import re
import sys
from collections.abc import Sequence
from typing import Literal, TextIO

import click

from wrapperir.cli.source import Source
from wrapperir.diagnostics import Diagnostic
from wrapperir.diagnostics.rendering import format_diagnostics, format_diagnostics_json

_STYLES = (
    (re.compile(r"\berror WIR\d{3}:", re.ASCII), "bold red"),
    (re.compile(r"\bwarning WIR\d{3}:", re.ASCII), "bold yellow"),
    (re.compile(r"^\s*(?:\d+ )?\|\s*(\^~*)$"), "bold green"),
    (re.compile(r"^\s*= hint:"), "bold cyan"),
)


_SURROGATE = re.compile("[\ud800-\udfff]")
"""What stands for a byte that is no part of UTF-8 text."""


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
    """Say on standard error what is no diagnostic; not with ``--format json``."""
    if click.get_current_context().params.get("form") != "json":
        click.echo(f"wrapperir: {text}", err=True)
