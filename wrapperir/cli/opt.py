"""``wrapperir opt``: run passes over a program."""

import difflib
from collections.abc import Sequence

import click

from wrapperir.cli.options import (
    CommandWithPasses,
    examples,
    output_option,
    pass_option,
    program_argument,
    spelling_option,
)
from wrapperir.cli.print import format_as
from wrapperir.cli.progress import stage
from wrapperir.cli.report import ERRORS, open_program, report, reporting
from wrapperir.cli.source import printed
from wrapperir.cli.writing import write_output
from wrapperir.diagnostics import Severity
from wrapperir.ir import Program


@click.command(
    name="opt",
    cls=CommandWithPasses,
    epilog=examples(
        "wrapperir opt --pass simplify_expressions --pass remove_dead_lines add.wir",
        "wrapperir opt --pass insert_frees --print-after-all add.wir -o add.wir",
    ),
)
@program_argument
@pass_option
@click.option(
    "--print-after-all",
    is_flag=True,
    help="Show on standard error what each pass changed.",
)
@spelling_option
@output_option
@reporting
def command(
    program: str,
    passes: tuple[str, ...],
    print_after_all: bool,
    to: str,
    output: str | None,
) -> None:
    """Run passes over PROGRAM and write what they make.

    The result is checked: if it has errors, they are reported and nothing is written.
    PROGRAM itself may have some, such as missing frees, that a pass mends.  Nothing of
    the program is executed.
    """
    from wrapperir.passes import run_passes
    from wrapperir.verify import verify

    parsed, source = open_program(program)
    check_names(passes)
    result = parsed
    for name in passes:
        with stage(f"running {name} ..."):
            changed = run_passes(result, [name])
        if print_after_all:
            _show_changes(name, result, changed)
        result = changed
    errors = [d for d in verify(result) if d.severity is Severity.ERROR]
    if errors:
        shown = printed(result, f"{source.name} (after the passes)") if passes else source
        report(errors, shown)
        click.get_current_context().exit(ERRORS)
    write_output(output, format_as(result, to))


def check_names(names: Sequence[str]) -> None:
    """Raise for names that are no passes, before any is run."""
    from wrapperir.passes import run_passes

    run_passes(Program(), names)


def _show_changes(name: str, before: Program, after: Program) -> None:
    old, new = (format_as(p, "text").splitlines() for p in (before, after))
    changes = list(
        difflib.unified_diff(old, new, f"before {name}", f"after {name}", lineterm="")
    )
    for line in changes or [f"{name}: nothing changed"]:
        colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
        click.echo(click.style(line, fg=colour), err=True)
