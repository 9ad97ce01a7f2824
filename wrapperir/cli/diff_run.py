"""``wrapperir diff-run``: name the first line whose values differ between two runs."""

from typing import TYPE_CHECKING, Literal

import click

from wrapperir.cli import options
from wrapperir.cli.bug_report import bug_report_option, report_failure
from wrapperir.cli.passes import choose_passes
from wrapperir.cli.progress import stage
from wrapperir.cli.run import constants_of
from wrapperir.cli.source import (
    ERRORS,
    notice,
    open_program,
    printed,
    report,
    reporting,
    working_on,
)
from wrapperir.diagnostics import DiagnosticError

if TYPE_CHECKING:
    from wrapperir.ir import Program
    from wrapperir.trace import RunSide

_INTERPRETER = "interpreter"


@click.command(
    name="diff-run",
    epilog=options.examples(
        "wrapperir diff-run add.wir interpreter python",
        "wrapperir diff-run add.wir python cpp",
        "wrapperir diff-run add.wir interpreter interpreter:remove_dead_lines",
        "wrapperir diff-run add.wir python 'cpp:insert_frees, plan_memory'",
    ),
)
@options.program_argument
@click.argument("first", metavar="FIRST")
@click.argument("second", metavar="SECOND")
@click.option(
    "--inputs",
    metavar="FILE",
    help="Take the inputs from what torch.save or safetensors wrote: a list in order, or "
    "a dict by name.  Otherwise they are drawn at random by their types.",
)
@click.option(
    "--constants",
    metavar="FILE",
    help="Take the constants from a dict by key.  Otherwise those that compile wrote "
    "beside PROGRAM are used, or random ones.",
)
@options.seed_option("Seed of what is random, from 0 to 2**63 - 1.")
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0),
    metavar="X",
    help="How far two elements may be apart, as a part of the greatest magnitude in the"
    " tensor; 0 for bit by bit.  [default: 1e-4 for f32, others by their precision]",
)
@options.check_memory_option
@options.diagnostics_format_option
@bug_report_option
@reporting
def diff_run_command(
    program: str,
    first: str,
    second: str,
    inputs: str | None,
    constants: str | None,
    seed: int,
    tolerance: float | None,
    check_memory: bool,
    form: Literal["text", "json"],
) -> None:
    """Run PROGRAM in two ways, and name the first line that writes other values.

    FIRST and SECOND are each interpreter, or an emitter (python, cpp, fx or another that
    wrapperir plugins lists), and after a colon the passes to run before, as for --pass.
    SECOND is compared with FIRST.

    This executes code: the operators that PROGRAM calls and the kernels in it.  Run only
    programs that you trust.
    """
    import torch

    from wrapperir.cli.values import load_inputs, random_inputs
    from wrapperir.emit.support import on_host
    from wrapperir.interp import check_inputs
    from wrapperir.trace import Agreement, diff_runs

    parsed, source = open_program(program)
    one, other = _side(first, parsed), _side(second, parsed)
    working_on(source)
    hosted = frozenset(
        kind
        for side in (one, other)
        if side.emitter
        for kind in side.emitter.support.hosted
    )
    given_to = on_host(parsed, hosted)
    torch.manual_seed(seed)  # pyright: ignore[reportUnknownMemberType]
    tensors = constants_of(program, given_to, constants, seed)
    given = (
        random_inputs(given_to, seed) if inputs is None else load_inputs(inputs, given_to)
    )
    check_inputs(given_to, given)
    notice(f"diff-run executes the code in {source.name}")
    with stage("running ..."):
        found = diff_runs(
            one,
            other,
            given,
            tensors,
            tolerance=tolerance,
            seed=seed,
            check_memory=check_memory,
        )
    if isinstance(found, Agreement):
        others = f", {found.not_compared} are in one run only" if found.not_compared else ""
        click.echo(f"no difference: {found.compared} values are the same{others}")
        return
    name = source.name if found.program == parsed else f"{source.name} as it ran"
    shown = source if found.program == parsed else printed(found.program, name)
    report([found.diagnostic], shown, form=form)
    report_failure(DiagnosticError(found.diagnostic), source.text)
    click.get_current_context().exit(ERRORS)


def _side(text: str, program: "Program") -> "RunSide":
    """Return the side that an argument names: a runner, and passes after a colon.

    Raises:
        DiagnosticError: there is no such emitter or pass, or the program has errors.
    """
    from wrapperir.emit.pipeline import find_emitter, prepare_program
    from wrapperir.trace import RunSide

    runner, _, passes = text.partition(":")
    emitter = None if runner == _INTERPRETER else find_emitter(runner)
    to_run = choose_passes((passes,) if passes else ())
    return RunSide(text, prepare_program(program, to_run), emitter)
