"""``wrapperir view``: one page of a program, its source and the code of each emitter."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from wrapperir.cli import options
from wrapperir.cli.programs import errors_of, exit_with_errors
from wrapperir.cli.progress import stage
from wrapperir.cli.source import Source, open_program, reporting
from wrapperir.cli.writing import check_output, write_output
from wrapperir.ir import Program

if TYPE_CHECKING:
    from wrapperir.emit import Emitter


@click.command(
    name="view",
    epilog=options.examples(
        "wrapperir view mlp.wir -o mlp.html",
        "wrapperir view --emitter cpp --emitter python mlp.wir -o mlp.html",
        "wrapperir view --size s0=32 add.wir -o add.html",
    ),
)
@options.program_argument
@click.option(
    "--emitter",
    "emitters",
    metavar="NAME",
    multiple=True,
    help="Show the code of this emitter; repeat for several.  [default: all installed]",
)
@options.size_option
@options.output_option
@reporting
def view_command(
    program: str,
    emitters: tuple[str, ...],
    sizes: Mapping[str, tuple[int, ...]],
    output: str | None,
) -> None:
    """Write a page of PROGRAM, beside its source and the code of emitters.

    On the page, what belongs together lights up: places in the source, nodes of the graph,
    lines, kernels, and emitted code.  It is one file that opens from disk and needs no
    network.  The Python files that the program's origins name are read and shown, as far
    as they are here.  Nothing of the program is executed; an emitter is code of an
    installed package.
    """
    chosen = _find_emitters(emitters)
    check_output(output)
    parsed, source = open_program(program)
    exit_with_errors(errors_of(parsed), source)
    given = {name: values[-1] for name, values in sizes.items()}
    write_output(output, _format_page(parsed, source, given, chosen))


def _find_emitters(names: tuple[str, ...]) -> "list[Emitter]":
    """Return the emitters of these names, or all that are installed.

    Raises:
        DiagnosticError: WIR700, there is none of a name.
    """
    from wrapperir.emit.pipeline import find_emitter
    from wrapperir.plugin import plugin_manager

    if not names:
        return list(plugin_manager().emitters.values())
    return [find_emitter(name) for name in dict.fromkeys(names)]


def _format_page(
    program: Program, source: Source, sizes: Mapping[str, int], emitters: "list[Emitter]"
) -> str:
    from wrapperir.report import SymbolValueError
    from wrapperir.view import ProgramText, format_view, view_program

    with stage("emitting the program ..."):
        try:
            text = ProgramText(program, source.text, source.positions)
            view = view_program(text, source.name, sizes, emitters)
        except SymbolValueError as error:
            raise click.UsageError(str(error)) from None
    return format_view(view)
