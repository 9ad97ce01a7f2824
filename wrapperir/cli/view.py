"""``wrapperir view``: one page of a program, its source and the code of each emitter."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click
from attrs import evolve

from wrapperir.cli import options
from wrapperir.cli.passes import choose_passes, pass_option
from wrapperir.cli.programs import errors_of, exit_with_errors
from wrapperir.cli.progress import stage
from wrapperir.cli.source import is_program, notice, open_program, printed, reporting
from wrapperir.cli.writing import check_output, write_output

if TYPE_CHECKING:
    from wrapperir.emit import Emitter
    from wrapperir.frontend import Lowered


@click.command(
    name="view",
    epilog=options.examples(
        "wrapperir view mlp.wir -o mlp.html",
        "wrapperir view --emitter cpp --emitter python mlp.wir -o mlp.html",
        "wrapperir view --size s0=32 add.wir -o add.html",
        "wrapperir view --pass memory mlp.wir -o mlp.html",
        "wrapperir view model.py:scale -o scale.html",
        "wrapperir view --frontend inductor model.py:Model -o model.html",
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
@options.frontend_option(
    options.FRONTENDS,
    None,
    "What makes the program of a function or module, as for compile.  [default: lowering,"
    " which has loops and decisions to show; that of compile is export]",
)
@options.size_option
@pass_option
@click.option(
    "--profile",
    metavar="FILE",
    help="Also show times, from what wrapperir profile --format json wrote.",
)
@options.output_option
@reporting
def view_command(
    program: str,
    emitters: tuple[str, ...],
    frontend: str | None,
    sizes: Mapping[str, tuple[int, ...]],
    passes: tuple[str, ...],
    profile: str | None,
    output: str | None,
) -> None:
    """Write a page of PROGRAM, beside its source and the code of emitters.

    On the page, what belongs together lights up: places in the source, nodes of the graph,
    lines, kernels, and emitted code.  It is one file that opens from disk and needs no
    network.  The Python files that the program's origins name are read and shown, as far
    as they are here.  With --pass, the page has what each pass changed; PROGRAM itself may
    have errors that a pass mends.  Nothing of the program is executed; an emitter and a
    pass of a plugin are code of an installed package.

    PROGRAM may also be FILE.py:NAME or a .pt2 file, as for wrapperir compile.  With the
    frontend lowering, the page then has the loops that it is lowered to and why operators
    share a kernel or not.  This executes code: the file and the function or module in it.
    """
    from wrapperir.report import SymbolValueError, choose_values
    from wrapperir.view import (
        ProgramText,
        StageLinks,
        add_times,
        format_view,
        run_steps,
        view_program,
    )

    chosen, to_run = _find_emitters(emitters), choose_passes(passes)
    check_output(output)
    stages = None
    if is_program(program):
        if frontend is not None:
            raise click.UsageError("--frontend is for FILE.py:NAME or a .pt2 file")
        parsed, source = open_program(program)
    else:
        lowered = _lower(program, frontend or "lowering")
        parsed, stages = lowered.program, lowered.stages
        source = printed(parsed, program)
    given = {name: values[-1] for name, values in sizes.items()}
    try:
        symbols = choose_values(parsed, given)
    except SymbolValueError as error:
        raise click.UsageError(str(error)) from None
    values = {symbol.name: symbol.value for symbol in symbols}
    with stage("running passes ..."):
        result, steps = run_steps(parsed, to_run, values)
    shown = printed(result, f"{source.name} (after the passes)") if to_run else source
    exit_with_errors(errors_of(result), shown)
    text = ProgramText(result, shown.text, shown.positions)
    links = None
    if stages is not None:
        links = StageLinks(
            result, stages.loops, stages.schedule, stages.symbols, stages.joined
        )
    with stage("emitting the program ..."):
        view = view_program(text, source.name, given, chosen, steps, links)
    if profile is not None:
        try:
            timed = add_times(view.program, Path(profile).read_text("utf-8"))
        except ValueError as error:
            raise click.UsageError(f"--profile {profile}: {error}") from None
        view = evolve(view, program=timed)
    write_output(output, format_view(view))


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


def _lower(target: str, frontend: str) -> "Lowered":
    """Return what a target is lowered to; this executes its code."""
    with stage("loading torch ..."):
        from wrapperir.cli.lowering import check_target, lower_target
    notice(f"view executes the code in {check_target(target)}")
    with stage(f"lowering {target} ..."):
        return lower_target(target, frontend)
