"""``wrapperir overlap``: what hides the collectives of a program."""

import click

from wrapperir.cli import options
from wrapperir.cli.passes import choose_passes, pass_option, run_chosen
from wrapperir.cli.programs import errors_of, exit_with_errors
from wrapperir.cli.source import open_program, printed, reporting


@click.command(
    name="overlap",
    epilog=options.examples(
        "wrapperir overlap add.wir",
        "wrapperir overlap --merge --machine h100 --limit 1.1 add.wir",
    ),
)
@options.program_argument
@pass_option
@click.option(
    "--machine",
    metavar="NAME",
    default="device",
    help="the speeds to assume: h100, a100, cpu, or device, by default: its own",
)
@click.option(
    "--limit",
    type=click.FloatRange(min=1.0),
    default=1.02,
    show_default=True,
    help="the peak of live bytes after the passes, as a multiple of the peak before",
)
@click.option("--merge", is_flag=True, help="merge small collectives first")
@reporting
def overlap_command(
    program: str, passes: tuple[str, ...], machine: str, limit: float, merge: bool
) -> None:
    """Report how much of the collectives of PROGRAM work hides.

    The report is that of overlap_collectives, and with --merge of merge_collectives before
    it, on the program after the passes that are named: each collective, the time that it
    takes by itself, and how much of that calls between its start and its wait hide before
    and after.  Nothing of the program is executed.
    """
    from wrapperir.emit.overlap_text import format_overlap
    from wrapperir.passes import Merged, merge_lines, overlap_lines
    from wrapperir.passes.overlap_collectives import find_machine

    chosen = choose_passes(passes)
    parsed, source = open_program(program)
    if chosen:
        parsed = run_chosen(parsed, chosen)
        source = printed(parsed, f"{source.name} (after the passes)")
    exit_with_errors(errors_of(parsed), source)
    known = find_machine(parsed, machine)
    merged = merge_lines(parsed, known, limit) if merge else Merged(parsed, ())
    if merged.collectives:
        source = printed(merged.program, f"{source.name} (after merge_collectives)")
    report = overlap_lines(merged.program, known, limit).report
    click.echo(format_overlap(merged, report, source.positions), nl=False)
