"""``wrapperir graphs``: the parts of a program that a GPU can record and replay."""

import click

from wrapperir.cli import options
from wrapperir.cli.passes import choose_passes, pass_option, run_chosen
from wrapperir.cli.programs import errors_of, exit_with_errors
from wrapperir.cli.source import open_program, printed, reporting


@click.command(
    name="graphs",
    epilog=options.examples(
        "wrapperir graphs add.wir",
        "wrapperir graphs --pass use_out_variants add.wir",
    ),
)
@options.program_argument
@pass_option
@reporting
def graphs_command(program: str, passes: tuple[str, ...]) -> None:
    """Report which lines of PROGRAM a GPU can record and replay, and why not the others.

    The report is that of the pass capture_graphs, on the program after the passes that
    are named: the graph regions, what a replay of each saves, and the lines outside.
    Nothing of the program is executed.
    """
    from wrapperir.emit.graph_report import format_capture
    from wrapperir.passes import capture_regions

    chosen = choose_passes(passes)
    parsed, source = open_program(program)
    if chosen:
        parsed = run_chosen(parsed, chosen)
        source = printed(parsed, f"{source.name} (after the passes)")
    exit_with_errors(errors_of(parsed), source)
    click.echo(format_capture(capture_regions(parsed).report, source.positions), nl=False)
