"""``wrapperir print``: read a program and write it in its one normal form."""

import click

from wrapperir.cli.options import examples, output_option, program_argument, spelling_option
from wrapperir.cli.report import open_program, reporting
from wrapperir.cli.writing import write_output
from wrapperir.ir import Program


@click.command(
    name="print",
    epilog=examples(
        "wrapperir print add.wir",
        "wrapperir print --format json add.wir -o add.json",
        "wrapperir print add.json",
    ),
)
@program_argument
@spelling_option
@output_option
@reporting
def command(program: str, to: str, output: str | None) -> None:
    """Write PROGRAM as text or JSON.

    Whichever of the two it is read from, an equal program gives the same bytes.  Nothing
    of the program is executed.
    """
    parsed, _ = open_program(program)
    write_output(output, format_as(parsed, to))


def format_as(program: Program, to: str) -> str:
    """Return the program as text or JSON, ended by a newline."""
    from wrapperir.text import format_json, format_program

    text = format_json(program) if to == "json" else format_program(program)
    return text if text.endswith("\n") else f"{text}\n"
