"""``wrapperir memory``: where a program's memory goes."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

import click
from attrs import frozen

from wrapperir.cli.options import examples, pass_option, program_argument
from wrapperir.cli.progress import stage
from wrapperir.cli.report import ERRORS, notice, open_program, report, reporting
from wrapperir.cli.source import (
    STANDARD_INPUT,
    Source,
    printed,
)
from wrapperir.cli.writing import write_output
from wrapperir.diagnostics import Diagnostic, Severity
from wrapperir.ir import AllocatePoolLine, Program

if TYPE_CHECKING:
    from wrapperir.report import MemoryReport


def _sizes(
    context: click.Context, parameter: click.Parameter, given: tuple[str, ...]
) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for text in given:
        name, _, value = text.partition("=")
        if not name or not re.fullmatch(r"-?\d{1,18}", value, re.ASCII):
            raise click.BadParameter(f"{text!r} is no SYMBOL=NUMBER, such as s0=128")
        sizes[name] = int(value)
    return sizes


@click.command(
    name="memory",
    epilog=examples(
        "wrapperir memory add.wir",
        "wrapperir memory --size s0=32 --html add.html add.wir",
        "wrapperir memory --pass remove_dead_lines --perfetto add.trace.json add.wir",
    ),
)
@program_argument
@click.option(
    "--size",
    "sizes",
    metavar="SYMBOL=NUMBER",
    multiple=True,
    callback=_sizes,
    help="Take a symbol to be this; repeat for several. Others are 64, or as near as they"
    " may be.",
)
@pass_option
@click.option("--html", metavar="FILE", help="Also write a page that needs no network.")
@click.option("--perfetto", metavar="FILE", help="Also write a trace for ui.perfetto.dev.")
@reporting
def command(
    program: str,
    sizes: Mapping[str, int],
    passes: tuple[str, ...],
    html: str | None,
    perfetto: str | None,
) -> None:
    """Report how much memory PROGRAM takes, line by line, and what takes it.

    With --pass, --html or --perfetto, the program after passes is reported beside it:
    those named, or else those that plan memory, if it has no pools yet.  Bytes are
    rounded up to 64.  PROGRAM itself may have errors, such as missing frees, that a named
    pass mends; then it is reported after the passes alone.  Nothing of it is executed.
    """
    from wrapperir.report import format_html, format_perfetto, format_report

    if html == perfetto == STANDARD_INPUT:
        raise click.UsageError("--html and --perfetto cannot both go to standard output")
    parsed, source = open_program(program)
    errors = _errors(parsed)
    if errors and not passes:
        _exit_with(errors, source)
    if not passes and (html or perfetto) and not _has_pools(parsed):
        from wrapperir.passes import MEMORY_PASSES

        passes = MEMORY_PASSES
    versions = [] if errors else [_Version("as given", parsed, source)]
    if passes:
        versions.append(_after(parsed, source, passes))
    if errors:
        notice(f"{source.name} as given has errors, which the passes mend: not reported")
    made = _report(versions, source, sizes)
    if html is not None:
        write_output(html, format_html(made))
    if perfetto is not None:
        write_output(perfetto, format_perfetto(made))
    if STANDARD_INPUT not in (html, perfetto):
        click.echo(format_report(made), nl=False)


@frozen
class _Version:
    """A valid program, and the text to which its line numbers refer."""

    label: str
    program: Program
    shown: Source


def _after(program: Program, source: Source, passes: Sequence[str]) -> _Version:
    label = f"after {', '.join(passes)}"
    after = _run(program, passes)
    shown = printed(after, f"{source.name} ({label})")
    errors = _errors(after)
    if errors:
        _exit_with(errors, shown)
    return _Version(label, after, shown)


def _report(
    versions: Sequence[_Version], source: Source, sizes: Mapping[str, int]
) -> "MemoryReport":
    from wrapperir.report import MemoryReport
    from wrapperir.report.build_timeline import build_timeline
    from wrapperir.report.symbol_values import SymbolValueError, choose_values

    program = versions[0].program
    try:
        symbols = choose_values(program, sizes)
    except SymbolValueError as error:
        raise click.UsageError(str(error)) from None
    values = {symbol.name: symbol.value for symbol in symbols}
    return MemoryReport(
        program=program.name,
        source=source.name,
        symbols=symbols,
        versions=tuple(
            build_timeline(v.program, v.shown.positions, values, v.label) for v in versions
        ),
    )


def _run(program: Program, passes: Sequence[str]) -> Program:
    from wrapperir.passes import run_passes

    run_passes(Program(), passes)  # a name that is no pass is reported before any runs
    for name in passes:
        with stage(f"running {name} ..."):
            program = run_passes(program, [name])
    return program


def _errors(program: Program) -> list[Diagnostic]:
    from wrapperir.verify import verify

    return [d for d in verify(program) if d.severity is Severity.ERROR]


def _exit_with(errors: Sequence[Diagnostic], source: Source) -> NoReturn:
    report(errors, source)
    click.get_current_context().exit(ERRORS)


def _has_pools(program: Program) -> bool:
    return any(isinstance(line, AllocatePoolLine) for line in program.lines)
