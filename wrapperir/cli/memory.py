"""``wrapperir memory``: where a program's memory goes."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click
from attrs import frozen

from wrapperir.cli import options
from wrapperir.cli.passes import choose_passes, pass_option, run_chosen
from wrapperir.cli.programs import errors_of, exit_with_errors
from wrapperir.cli.source import (
    STANDARD_INPUT,
    Source,
    notice,
    open_program,
    printed,
    reporting,
)
from wrapperir.cli.writing import write_output
from wrapperir.ir import AllocatePoolLine, Program

if TYPE_CHECKING:
    from wrapperir.pipelines import ChosenPass, PassObserver
    from wrapperir.report import MemoryReport


@click.command(
    name="memory",
    epilog=options.examples(
        "wrapperir memory add.wir",
        "wrapperir memory --size s0=32 --html add.html add.wir",
        "wrapperir memory --pass remove_dead_lines --perfetto add.trace.json add.wir",
    ),
)
@options.program_argument
@options.size_option
@pass_option
@click.option("--html", metavar="FILE", help="Also write a page that needs no network.")
@click.option("--perfetto", metavar="FILE", help="Also write a trace for ui.perfetto.dev.")
@reporting
def memory_command(
    program: str,
    sizes: Mapping[str, tuple[int, ...]],
    passes: tuple[str, ...],
    html: str | None,
    perfetto: str | None,
) -> None:
    """Report how much memory PROGRAM takes, line by line, and what takes it.

    With --pass, --html or --perfetto, the program after passes is reported beside it:
    those named, or else those that plan memory, if it has no pools yet.  With --pass, what
    each pass did to the memory of values is listed, too.  Bytes are rounded up to 64.
    PROGRAM itself may have errors, such as missing frees, that a named pass mends; then it
    is reported after the passes alone.  Nothing of it is executed.
    """
    from wrapperir.passes import format_call
    from wrapperir.report import (
        FRONTEND,
        MemoryChange,
        format_html,
        format_memory_changes,
        format_perfetto,
        format_report,
        frontend_reuse,
        memory_changes,
    )

    if html == perfetto == STANDARD_INPUT:
        raise click.UsageError("--html and --perfetto cannot both go to standard output")
    chosen = choose_passes(passes)
    parsed, source = open_program(program)
    errors = errors_of(parsed)
    if not passes:
        exit_with_errors(errors, source)
    if not passes and (html or perfetto) and not _has_pools(parsed):
        from wrapperir.passes import MEMORY_PASSES

        chosen = choose_passes(MEMORY_PASSES)
    versions = [] if errors else [_Version("as given", parsed, source)]
    ran: list[tuple[ChosenPass, Program, Program]] = []

    def record(each: "ChosenPass", before: Program, after: Program) -> None:
        ran.append((each, before, after))

    if chosen:
        versions.append(_after(parsed, source, chosen, record))
    if errors:
        notice(f"{source.name} as given has errors, which the passes mend: not reported")
    made = _report(versions, source, {name: given[-1] for name, given in sizes.items()})
    if html is not None:
        write_output(html, format_html(made))
    if perfetto is not None:
        write_output(perfetto, format_perfetto(made))
    if STANDARD_INPUT in (html, perfetto):
        return
    click.echo(format_report(made), nl=False)
    symbols = {symbol.name: symbol.value for symbol in made.symbols}
    changes: list[tuple[str, MemoryChange]] = [
        (FRONTEND, change) for change in frontend_reuse(parsed, symbols)
    ]
    for each, before, after in ran if passes else ():
        found = memory_changes(before, after, symbols)
        changes += [(format_call(each.call), change) for change in found]
    click.echo(format_memory_changes(changes), nl=False)


@frozen
class _Version:
    """A valid program, and the text to which its line numbers refer."""

    label: str
    program: Program
    shown: Source


def _after(
    program: Program,
    source: Source,
    passes: "Sequence[ChosenPass]",
    show: "PassObserver",
) -> _Version:
    label = f"after {', '.join(each.name for each in passes)}"
    after = run_chosen(program, passes, show)
    shown = printed(after, f"{source.name} ({label})")
    exit_with_errors(errors_of(after), shown)
    return _Version(label, after, shown)


def _report(
    versions: Sequence[_Version], source: Source, sizes: Mapping[str, int]
) -> "MemoryReport":
    from wrapperir.report import (
        MemoryReport,
        SymbolValueError,
        build_timeline,
        choose_values,
    )

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


def _has_pools(program: Program) -> bool:
    return any(isinstance(line, AllocatePoolLine) for line in program.lines)
