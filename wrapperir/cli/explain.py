"""``wrapperir explain``: what a source line became, or what a kernel came from."""

from typing import Literal

import click

from wrapperir.cli import options
from wrapperir.cli.source import open_program, reporting
from wrapperir.cli.writing import write_output


@click.command(
    name="explain",
    epilog=options.examples(
        "wrapperir explain mlp.wir model.py:12",
        "wrapperir explain mlp.wir layers.0.mlp",
        "wrapperir explain mlp.wir @cpp_fused_0",
        "wrapperir explain --format json mlp.wir %buf7",
    ),
)
@options.program_argument
@click.argument("subject", metavar="[SUBJECT]", required=False)
@options.spelling_option
@options.output_option
@reporting
def explain_command(
    program: str, subject: str | None, to: Literal["text", "json"], output: str | None
) -> None:
    """Say what SUBJECT became in PROGRAM, or what it came from.

    SUBJECT is a place in the source (model.py:12, or model.py), the path of a module
    (layers.0.mlp) or of a parameter (layers.0.mlp.weight), a node of the graph, a kernel
    (@name) or a buffer (%name).  Without it, each kernel and operator call is explained.
    Lines have their numbers in PROGRAM's text.  Nothing of the program is executed, and no
    source file is read.
    """
    from wrapperir.report import explain, format_explanation, format_explanation_json

    parsed, source = open_program(program)
    found = explain(parsed, source.positions, subject)
    write = format_explanation if to == "text" else format_explanation_json
    write_output(output, write(found))
