"""``wrapperir diff-run``: name the first line whose values differ between two runs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import click

from wrapperir.cli import options
from wrapperir.cli.bug_report import bug_report_option, report_failure
from wrapperir.cli.passes import choose_passes
from wrapperir.cli.progress import stage
from wrapperir.cli.source import (
    ERRORS,
    Source,
    is_program,
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
    from wrapperir.trace import Agreement, Difference, RunSide

DIFFER = 4
"""Exit status: the two runs differ, and none of them fails."""
ONE_FAILS = 5
"""Exit status: one of the two runs fails."""

_INTERPRETER = "interpreter"
_EAGER = "eager"


@click.command(
    name="diff-run",
    epilog=options.examples(
        "wrapperir diff-run add.wir interpreter python",
        "wrapperir diff-run add.wir python cpp",
        "wrapperir diff-run add.wir interpreter interpreter:remove_dead_lines",
        "wrapperir diff-run add.wir python 'cpp:insert_frees, plan_memory'",
        "wrapperir diff-run model.py:Model eager python --frontend lowering",
        "wrapperir diff-run add.wir add.json",
        "wrapperir diff-run add.wir add.json python",
    ),
)
@options.program_argument
@click.argument("first", metavar="FIRST")
@click.argument("second", metavar="[SECOND]", required=False)
@options.frontend_option(
    ("export", "lowering"),
    "lowering",
    "Beside eager, the frontend that makes the program, as for compile, whose default is"
    " export: that has no kernels of ours to be wrong.",
)
@options.inputs_option
@options.constants_option
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
    second: str | None,
    frontend: str,
    inputs: str | None,
    constants: str | None,
    seed: int,
    tolerance: float | None,
    check_memory: bool,
    form: Literal["text", "json"],
) -> None:
    """Run PROGRAM in two ways, and name the first line that writes other values.

    The status is 4 if the runs differ, 5 if one of them fails, and 1 if both fail.

    FIRST and SECOND are each interpreter, or an emitter (python, cpp, fx or another that
    wrapperir plugins lists), and after a colon the passes to run before, as for --pass.
    SECOND is compared with FIRST.

    If FIRST is eager, PROGRAM is FILE.py:NAME or a .pt2 file, as compile takes them.  The
    program that a frontend makes of it is compared with the nodes of its graph.

    If FIRST is another program, it is compared with PROGRAM.  Both are run by SECOND, by
    default the interpreter, on the same inputs and on the constants of PROGRAM.

    This executes code: the operators that PROGRAM calls and the kernels in it.  Run only
    programs that you trust.
    """
    is_other = _names_program(first)
    if second is None and not is_other:
        raise click.UsageError("Missing argument 'SECOND': what to compare with FIRST.")
    runner = _INTERPRETER if second is None else second
    if first == _EAGER:
        if check_memory or inputs or constants:
            message = "--inputs, --constants and --check-memory are for programs, not eager"
            raise click.UsageError(message)
        found, parsed, source = _beside_eager(program, runner, frontend, tolerance, seed)
        _tell(found, [(parsed, source)], form)
        return
    parsed, source = open_program(program)
    texts = [(parsed, source)]
    if is_other:
        one = _side(runner, parsed, source)
        texts.insert(0, open_program(first))
        other = _side(runner, *texts[0])
        _check_outputs(one, other)
    else:
        one, other = _side(first, parsed), _side(runner, parsed)
    working_on(source)
    from wrapperir.cli.given import take_values
    from wrapperir.emit.support import on_host
    from wrapperir.interp import check_inputs
    from wrapperir.trace import diff_runs

    sides = [side.emitter for side in (one, other) if side.emitter is not None]
    hosted = frozenset(kind for each in sides for kind in each.support.hosted)
    given, tensors = take_values(program, on_host(parsed, hosted), inputs, constants, seed)
    names = " and ".join(each.name for _, each in reversed(texts))
    notice(f"diff-run executes the code in {names}")
    if is_other:
        working_on(texts[0][1])
        second_program = on_host(texts[0][0], hosted)
        check_inputs(second_program, given)
        if constants is None:
            own = take_values(first, second_program, None, None, seed)[1]
            tensors = {**own, **tensors}
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
    _tell(found, texts, form)


def _tell(
    found: "Difference | Agreement",
    texts: "Sequence[tuple[Program, Source]]",
    form: Literal["text", "json"],
) -> None:
    """Write what was found, and exit with the status of a difference.

    ``texts`` has the programs before passes, first the one that ran second.
    """
    from wrapperir.trace import Agreement, DifferenceKind

    if isinstance(found, Agreement):
        rest = f", {found.not_compared} were not compared" if found.not_compared else ""
        click.echo(f"no difference: {found.compared} values are the same{rest}")
        return
    source = texts[0][1]
    own = [text for program, text in texts if program == found.program]
    shown = own[0] if own else printed(found.program, f"{source.name} as it ran")
    report([found.diagnostic], shown, form=form)
    report_failure(DiagnosticError(found.diagnostic), source.text)
    statuses = {DifferenceKind.FAILURE: ONE_FAILS, DifferenceKind.BOTH_FAIL: ERRORS}
    click.get_current_context().exit(statuses.get(found.kind, DIFFER))


def _beside_eager(
    target: str, second: str, frontend: str, tolerance: float | None, seed: int
) -> "tuple[Difference | Agreement, Program, Source]":
    """Compare a side with the nodes of a model's graph; return the program and its text."""
    with stage("loading torch ..."):
        from torch.utils import _pytree as pytree

        from wrapperir.cli.lowering import check_target, export_target, lower_exported_by
        from wrapperir.frontend.eager import run_eagerly
        from wrapperir.frontend.lowering.exported import decomposed
        from wrapperir.trace import diff_nodes
    notice(f"diff-run executes the code in {check_target(target)}")
    with stage(f"lowering {target} ..."):
        path, exported = export_target(target)
        lowered = lower_exported_by(frontend, path, exported)
    source = printed(lowered.program, "<program>")
    working_on(source)
    side = _side(second, lowered.program)
    graph = decomposed(exported) if frontend == "lowering" else exported
    inputs = pytree.tree_leaves(exported.example_inputs)
    with stage("running ..."):
        eager = run_eagerly(graph, inputs)
        found = diff_nodes(
            eager.values,
            eager.outputs,
            side,
            inputs,
            lowered.constants,
            tolerance=tolerance,
            seed=seed,
        )
    return found, lowered.program, source


def _names_program(text: str) -> bool:
    """Say whether an argument names a program, and not what runs one."""
    from wrapperir.plugin import plugin_manager

    runner = text.partition(":")[0]
    known = (_INTERPRETER, _EAGER, *plugin_manager().emitters)
    return runner not in known and is_program(text)


def _check_outputs(one: "RunSide", other: "RunSide") -> None:
    counts = [len(side.program.outputs) for side in (one, other)]
    if counts[0] != counts[1]:
        message = f"the programs return {counts[0]} and {counts[1]} values"
        raise click.UsageError(f"{message}, which cannot be compared")


def _side(text: str, program: "Program", source: Source | None = None) -> "RunSide":
    """Return the side that an argument names: a runner, and passes after a colon.

    It is called after the ``source`` of the program, if that is given.

    Raises:
        DiagnosticError: the emitter or a pass is unknown, or the program has errors.
    """
    from wrapperir.emit.pipeline import find_emitter, prepare_program
    from wrapperir.trace import RunSide

    runner, _, passes = text.partition(":")
    emitter = None if runner == _INTERPRETER else find_emitter(runner)
    to_run = choose_passes((passes,) if passes else ())
    title = text if source is None else f"{source.name} with {text}"
    return RunSide(title, prepare_program(program, to_run), emitter)
