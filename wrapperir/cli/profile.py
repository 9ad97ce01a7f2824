"""``wrapperir profile``: where the time of a program's calls goes, line by line."""

from typing import Literal

import click

from wrapperir.cli import options
from wrapperir.cli.bug_report import bug_report_option
from wrapperir.cli.passes import choose_passes, pass_option
from wrapperir.cli.progress import stage
from wrapperir.cli.source import (
    STANDARD_INPUT,
    notice,
    open_program,
    printed,
    reporting,
    working_on,
)
from wrapperir.cli.writing import check_output, write_output


@click.command(
    name="profile",
    epilog=options.examples(
        "wrapperir profile mlp.wir",
        "wrapperir profile --emitter cpp --pass memory mlp.wir",
        "wrapperir profile --perfetto mlp.trace.json mlp.wir",
        "wrapperir profile --format json -o mlp.profile.json mlp.wir",
    ),
)
@options.program_argument
@options.inputs_option
@options.constants_option
@options.seed_option("Seed of what is random, from 0 to 2**63 - 1.")
@options.emitter_option("python", options.EMITTER)
@pass_option
@click.option(
    "--repeat",
    "repeats",
    type=click.IntRange(1, 100_000),
    metavar="N",
    default=10,
    show_default=True,
    help="How many calls the medians are of.",
)
@click.option(
    "--perfetto", metavar="FILE", help="Also write one call as a trace for ui.perfetto.dev."
)
@options.spelling_option
@options.output_option
@bug_report_option
@reporting
def profile_command(
    program: str,
    inputs: str | None,
    constants: str | None,
    seed: int,
    emitter: str,
    passes: tuple[str, ...],
    repeats: int,
    perfetto: str | None,
    to: Literal["text", "json"],
    output: str | None,
) -> None:
    """Time each line of PROGRAM as an emitter's code runs it.

    For each line: its time on the host or a GPU, the bytes that it reads and writes, how
    long its device was idle before it, and its source.  The emitted code gets calls between
    its lines that look at the clock; the same program without them is timed beside it.

    This executes code: the operators that PROGRAM calls and the kernels in it.  Run only
    programs that you trust.
    """
    from wrapperir.emit.pipeline import find_emitter, prepare_program
    from wrapperir.emit.support import on_host
    from wrapperir.passes import open_graph_regions
    from wrapperir.report import (
        format_profile,
        format_profile_json,
        format_profile_trace,
    )

    if perfetto == STANDARD_INPUT and output in (None, STANDARD_INPUT):
        raise click.UsageError(
            "the trace and the profile cannot both go to standard output"
        )
    for path in (perfetto, output):
        check_output(path)
    to_run = choose_passes(passes)
    parsed, source = open_program(program)
    prepared = prepare_program(parsed, to_run)
    chosen = find_emitter(emitter)
    opened = open_graph_regions(prepared)
    if opened != parsed:
        source = printed(opened, f"{source.name} (as it runs)")
        working_on(source)

    from wrapperir.cli.given import take_values

    hosted = on_host(prepared, chosen.support.hosted)
    given, tensors = take_values(program, hosted, inputs, constants, seed)
    notice(f"profile executes the code in {source.name}")
    with stage("running ..."):
        from wrapperir.profiling import profile_program

        found = profile_program(
            *(prepared, given, tensors, chosen),
            positions=source.positions,
            repeats=repeats,
        )
    if perfetto is not None:
        write_output(perfetto, format_profile_trace(found))
    write_output(output, (format_profile if to == "text" else format_profile_json)(found))
