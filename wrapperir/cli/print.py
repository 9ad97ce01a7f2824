"""``wrapperir print``: read a program and write it in its one normal form."""

import click

from wrapperir.cli.options import examples, program_argument
from wrapperir.cli.source import parse_source, read_source
from wrapperir.cli.status import reporting, working_on
from wrapperir.cli.writing import write_output
from wrapperir.ir.program import Program


@click.command(
    name="print",
    epilog=examples(
        "wrapperir print add.wir",
        "wrapperir print --format json add.wir -o add.json",
        "wrapperir print add.json",
    ),
)
@program_argument
@click.option(
    "--format",
    "to",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The spelling to write.",
)
@click.option("-o", "--output", metavar="FILE", help="Write here, not to standard output.")
@reporting
def command(program: str, to: str, output: str | None) -> None:
    """Write PROGRAM as text or JSON.

    Whichever of the two it is read from, an equal program gives the same bytes.  Nothing
    of the program is executed.
    """
    source = read_source(program)
    working_on(source)
    parsed, _ = parse_source(source)
    write_output(output, format_as(parsed, to))


def format_as(program: Program, to: str) -> str:
    """Return the program as text or JSON, ended by a newline."""
    from wrapperir.text import format_json, format_program

    text = format_json(program) if to == "json" else format_program(program)
    return text if text.endswith("\n") else f"{text}\n"
