"""``wrapperir verify``: check a program."""

from typing import Literal

import click

from wrapperir.cli.options import diagnostics_format_option, examples, program_argument
from wrapperir.cli.report import ERRORS, report, reporting, working_on
from wrapperir.cli.source import parse_source, read_source
from wrapperir.diagnostics import DiagnosticError, Severity


@click.command(
    name="verify",
    epilog=examples(
        "wrapperir verify add.wir",
        "wrapperir verify --format json add.wir",
        "wrapperir print add.wir | wrapperir verify -",
    ),
)
@program_argument
@diagnostics_format_option
@reporting
def command(program: str, form: Literal["text", "json"]) -> None:
    """Report every fault of PROGRAM that is certain without running it.

    Diagnostics go to standard output; the status is 1 if any is an error.
    Nothing of the program is executed.
    """
    from wrapperir.verify import verify

    source = read_source(program)
    working_on(source)
    try:
        parsed, source = parse_source(source)
        found = verify(parsed)
    except DiagnosticError as error:
        found = error.diagnostics
    report(found, source, form=form, err=False)
    if any(diagnostic.severity is Severity.ERROR for diagnostic in found):
        click.get_current_context().exit(ERRORS)
    if form == "text":
        click.echo(f"{source.name}: no errors")
