"""``wrapperir tune``: time the choices of multi-kernels and record the best."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
from attrs import evolve

from wrapperir.cli import options
from wrapperir.cli.bug_report import bug_report_option
from wrapperir.cli.compile import check_directory, write_compiled
from wrapperir.cli.passes import choose_passes, pass_option
from wrapperir.cli.progress import Show, counted_stage, stage
from wrapperir.cli.source import (
    STANDARD_INPUT,
    format_as,
    notice,
    printed,
    read_source,
    reporting,
    working_on,
)
from wrapperir.cli.writing import check_output, check_output_directory, write_output
from wrapperir.tuning import SAMPLES, SECONDS

if TYPE_CHECKING:
    from wrapperir.tuning.tune import Progress


@click.command(
    name="tune",
    epilog=options.examples(
        "wrapperir tune sums.wir",
        "wrapperir tune sums.wir -o tuned.wir",
        "wrapperir tune --symbol s0=16,64 sums.wir -o sums_tuned",
        "wrapperir tune --emitter cpp --symbol s0=16 sums.wir -o tuned.wir",
        "wrapperir tune --samples 8 --no-cache --record tuning.json sums.wir",
    )
    + "\n\nTimes that are kept are taken whatever --seconds is.  To measure again and keep"
    " that, remove the cache's directory (wrapperir/choices in ~/.cache), or set"
    " WRAPPERIR_CHOICE_CACHE to another one."
    "\n\nWhat the choices compute is not compared: run the program with select forced(0),"
    " forced(1), ... for that."
    "\n\nExit status: 0 also where some kernels could not be timed, which the report"
    " says; the others are those of wrapperir --help.",
)
@options.program_argument
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write the tuned program here, to a name in .wir or .json or as text to -; with"
    " another name, to a directory what compile makes of it.",
)
@click.option("--record", metavar="FILE", help="Also write the record of it as JSON.")
@options.emitter_option("python", options.EMITTER)
@pass_option
@options.symbol_option(
    "--symbol",
    "symbols",
    "SYMBOL=NUMBER,...",
    "Time with these values of a symbol; repeat for several.  Others are drawn from their"
    " ranges.",
)
@click.option(
    "--samples",
    type=click.IntRange(1, 10_000),
    metavar="N",
    default=SAMPLES,
    show_default=True,
    help="How many values of symbols each kernel is timed at.",
)
@options.seed_option("Where drawing values begins.")
@click.option(
    "--seconds",
    type=click.FloatRange(0.001, 3600),
    metavar="S",
    default=SECONDS,
    show_default=True,
    help="How long to time each case, beside compiling.  Times that are kept are taken"
    " whatever it is.",
)
@click.option(
    "--interpreted",
    is_flag=True,
    help="Time Triton kernels on the CPU, too, where they are interpreted.",
)
@click.option(
    "--cache/--no-cache",
    default=True,
    help="Take times from the user's cache, and store them there; or neither.",
)
@click.option(
    "--constants",
    metavar="FILE",
    help="For a directory: take constants from a dict by key.  Otherwise they are those"
    " that compile wrote beside PROGRAM.",
)
@options.diagnostics_format_option
@bug_report_option
@reporting
def tune_command(
    program: str,
    output: str | None,
    record: str | None,
    emitter: str,
    passes: tuple[str, ...],
    symbols: Mapping[str, tuple[int, ...]],
    samples: int,
    seed: int,
    seconds: float,
    interpreted: bool,
    cache: bool,
    constants: str | None,
    form: Literal["text", "json"],
) -> None:
    """Time the choices of each multi-kernel of PROGRAM, and record the best.

    Kernels with several configs are tuned, too.  Each call is timed on its own, compiled
    with the emitter: at its sizes, or at values from the ranges of symbolic sizes.  The
    report says what was chosen, by how much and why, and what could not be timed.  It goes
    to standard output, or to standard error if the program goes to standard output.

    This executes code: the kernels of PROGRAM, as the emitter compiles them.  Tune only
    programs that you trust.
    """
    from wrapperir.emit.pipeline import find_emitter, prepare_program

    if output == record == STANDARD_INPUT:
        raise click.UsageError("-o and --record cannot both go to standard output")
    is_directory = _is_directory(output)
    if constants is not None and not is_directory:
        raise click.UsageError("--constants is for a directory that is written with -o")
    chosen = find_emitter(emitter)
    to_run = choose_passes(passes)
    source = read_source(program)
    working_on(source)
    with stage("loading torch ..."):
        from wrapperir.caching import CacheRefusedError
        from wrapperir.cli.lowering import read_program
        from wrapperir.report import SymbolValueError, counted
        from wrapperir.tuning.choice_cache import default_cache
        from wrapperir.tuning.record import RECORD, format_record
        from wrapperir.tuning.text import format_tuning
        from wrapperir.tuning.tune import tune_program
    if output is not None and is_directory:
        check_directory(Path(output))
        check_output_directory(Path(output))
    else:
        check_output(output)
    if record is not None and not (is_directory and _is_in(record, output)):
        check_output(record)
    try:
        kept = default_cache() if cache else None
    except CacheRefusedError as error:
        raise click.UsageError(str(error)) from None
    lowered, source = read_program(source, program, constants)
    working_on(source)
    prepared = prepare_program(lowered.program, to_run)
    if to_run:
        working_on(printed(prepared, f"{source.name} (after the passes)"))
    notice(f"tune executes the code in {source.name}")
    reached: list[Progress] = []
    try:
        with counted_stage() as show:
            tuned = tune_program(
                prepared,
                emitter=chosen,
                cache=kept,
                symbols=symbols,
                samples=samples,
                seed=seed,
                seconds=seconds,
                interpreted=interpreted,
                progress=_shown(show, reached),
            )
    except KeyboardInterrupt:
        if reached and reached[-1].kept:
            cases = counted(reached[-1].kept, "finished case")
            notice(f"kept for the next run: the times of {cases}")
        raise
    except SymbolValueError as error:
        raise click.UsageError(str(error)) from None
    if tuned.report.cache_problem:
        notice(f"the cache of choices is not used: {tuned.report.cache_problem}")
    working_on(printed(tuned.program, f"{source.name} (tuned)"))
    to_standard = STANDARD_INPUT in (output, record)
    click.echo(format_tuning(tuned.report), nl=False, err=to_standard)
    if is_directory:
        assert output is not None
        made = evolve(lowered, program=prepare_program(tuned.program, ()))
        files = {RECORD: format_record(tuned.report)}
        write_compiled(made, chosen, program, Path(output), files)
    elif output is not None:
        to = "json" if output.endswith(".json") else "text"
        write_output(output, format_as(prepare_program(tuned.program, ()), to))
    if record is not None:
        write_output(record, format_record(tuned.report))


def _is_directory(output: str | None) -> bool:
    if output is None or output == STANDARD_INPUT:
        return False
    return not output.endswith((".wir", ".json"))


def _is_in(file: str, directory: str | None) -> bool:
    return directory is not None and Path(directory) in Path(file).parents


def _shown(show: Show, reached: "list[Progress]") -> "Callable[[Progress], None]":
    """Return a function that shows progress and keeps the last one in ``reached``.

    A choice is always shown before its first run, since it may crash.
    """
    seen: set[tuple[str, str]] = set()

    def shown(progress: "Progress") -> None:
        reached[:] = [progress]
        if not progress.kernel:
            return
        at = f"case {progress.done + 1} of {progress.total}"
        choice = (progress.kernel, progress.choice)
        if not progress.choice:
            show(f"timing @{progress.kernel}, {at} ...", False)
        elif choice not in seen:
            seen.add(choice)
            show(f"timing @{progress.kernel}: @{progress.choice}, {at} ...", True)

    return shown
