"""Showing diagnostics: as text with carets, coloured on a terminal, or as JSON."""

import re
import sys
from collections.abc import Sequence
from typing import Literal

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


def report(
    diagnostics: Sequence[Diagnostic],
    source: Source,
    *,
    form: Literal["text", "json"] = "text",
    err: bool = True,
) -> None:
    """Write diagnostics to standard error, or with ``err=False`` to standard output."""
    write = format_diagnostics_json if form == "json" else format_diagnostics
    text = write(diagnostics, source.text, source.positions, source.name)
    stream = sys.stderr if err else sys.stdout
    if form == "json" or not stream.isatty():
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
