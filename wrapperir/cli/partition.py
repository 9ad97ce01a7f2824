"""``wrapperir partition``: which lines of a program run where, with two emitters."""

import click

from wrapperir.cli import options
from wrapperir.cli.passes import choose_passes, pass_option, run_chosen
from wrapperir.cli.programs import errors_of, exit_with_errors
from wrapperir.cli.source import open_program, printed, reporting


@click.command(
    name="partition",
    epilog=options.examples(
        "wrapperir partition --emitter cpp+python add.wir",
        "wrapperir partition --emitter fx+python --pass remove_dead_lines add.wir",
    ),
)
@options.program_argument
@click.option(
    "--emitter",
    metavar="NAME+NAME",
    required=True,
    help="Two emitters: the second takes what the first lacks.",
)
@pass_option
@reporting
def partition_command(program: str, emitter: str, passes: tuple[str, ...]) -> None:
    """Report which lines of PROGRAM an emitter runs, which fall back to another, and why.

    The report is that of the program after the passes that are named.  Nothing of it is
    executed.
    """
    from wrapperir.emit.partition import PartitioningEmitter, format_partition
    from wrapperir.emit.pipeline import find_emitter

    chosen = find_emitter(emitter)
    if not isinstance(chosen, PartitioningEmitter):
        raise click.UsageError(f"--emitter is two names, such as {emitter}+python")
    to_run = choose_passes(passes)
    parsed, source = open_program(program)
    if to_run:
        parsed = run_chosen(parsed, to_run)
        source = printed(parsed, f"{source.name} (after the passes)")
    exit_with_errors(errors_of(parsed), source)
    report = chosen.partition(parsed).report
    positions = source.positions if report.program == parsed else None
    click.echo(format_partition(report, positions), nl=False)
