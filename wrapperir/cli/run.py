"""``wrapperir run``: run a program and summarise its outputs."""

import traceback
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import click

from wrapperir.cli import options
from wrapperir.cli.bug_report import bug_report_option
from wrapperir.cli.passes import choose_passes, pass_option
from wrapperir.cli.progress import stage
from wrapperir.cli.source import notice, open_program, printed, reporting, working_on
from wrapperir.cli.traces import print_trace
from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError, Note

if TYPE_CHECKING:
    import torch

    from wrapperir.emit import Artifact, Emitter, Value
    from wrapperir.ir import Program


@click.command(
    name="run",
    epilog=options.examples(
        "wrapperir run add.wir",
        "wrapperir run --seed 7 --emitter python add.wir",
        "wrapperir run --emitter python --pass plan_memory --check-memory add.wir",
        "wrapperir run --emitter fx add.wir",
        "wrapperir run --emitter cpp --debug-info program add.wir",
        "wrapperir run --inputs inputs.pt --constants weights.pt add.wir",
        "wrapperir run --trace add.wir",
    ),
)
@options.program_argument
@options.inputs_option
@options.constants_option
@options.seed_option("Seed of what is random, from 0 to 2**63 - 1.")
@options.emitter_option(
    None,
    "Run what this emitter makes (python, cpp, fx, another, or two such as acme+python);"
    " otherwise the interpreter.",
)
@pass_option
@options.check_memory_option
@options.debug_info_option
@click.option(
    "--trace",
    is_flag=True,
    help="Print each line that writes, with a digest and statistics of what it wrote.",
)
@options.diagnostics_format_option
@bug_report_option
@reporting
def run_command(
    program: str,
    inputs: str | None,
    constants: str | None,
    seed: int,
    emitter: str | None,
    passes: tuple[str, ...],
    check_memory: bool,
    debug_info: Literal["code", "program"] | None,
    trace: bool,
    form: Literal["text", "json"],
) -> None:
    """Run PROGRAM once and describe its outputs.

    With --trace emitted code gets calls that observe values; its graph regions are opened.

    This executes code: the operators that PROGRAM calls and the kernels in it.  Run only
    programs that you trust.
    """
    from wrapperir.emit import emit_program
    from wrapperir.emit.artifact import keep_files
    from wrapperir.emit.pipeline import find_emitter, prepare_program
    from wrapperir.emit.support import on_host

    to_run = choose_passes(passes)
    parsed, source = open_program(program)
    prepared = prepare_program(parsed, to_run)
    if to_run:
        working_on(printed(prepared, f"{source.name} (after the passes)"))
    chosen = None if emitter is None else find_emitter(emitter)
    if check_memory:
        if chosen is None:
            raise click.UsageError(
                "--check-memory is for emitted code, so give --emitter; the interpreter"
                " always checks"
            )
        if trace:
            raise click.UsageError("--check-memory is for runs without --trace")
        chosen = chosen.checking_memory()
    if debug_info is not None:
        if chosen is None or trace:
            raise click.UsageError(
                "--debug-info is for emitted code without --trace, so give --emitter alone"
            )
        chosen = chosen.debugging(debug_info)
    artifact = None if chosen is None or trace else emit_program(prepared, chosen)
    if artifact is not None and debug_info is not None:
        artifact = keep_files(artifact)
        notice(f"the files that run are in {artifact.folder}")
    hosted = frozenset[str]() if chosen is None else chosen.support.hosted

    from wrapperir.cli.given import take_values
    from wrapperir.interp import interpret
    from wrapperir.trace import summarize

    given, tensors = take_values(
        program, on_host(prepared, hosted), inputs, constants, seed
    )
    notice(f"run executes the code in {source.name}")
    with stage("running ..."):
        if trace:
            outputs = print_trace(prepared, source, chosen, given, tensors, seed)
        elif chosen is None or artifact is None:
            outputs = interpret(prepared, given, tensors)
        else:
            outputs = run_emitted(prepared, artifact, chosen, given, tensors)
    for index, value in enumerate(outputs):
        click.echo(f"output {index}: {summarize(value)}")


def run_emitted(
    program: "Program",
    artifact: "Artifact",
    emitter: "Emitter",
    inputs: "Sequence[Value]",
    constants: "Mapping[str, torch.Tensor]",
) -> "tuple[Value, ...]":
    """Load an artifact and call it once, with inputs that are as ``program`` declares.

    Raises:
        DiagnosticError: the artifact does not load; or WIR906, what it runs raised.
    """
    from wrapperir.emit.pipeline import load_artifact

    call = load_artifact(program, artifact, emitter, constants)
    try:
        return call(list(inputs))
    except DiagnosticError:
        raise
    except Exception as error:
        raise DiagnosticError(_failure(artifact, error)) from error


def _failure(artifact: "Artifact", error: Exception) -> Diagnostic:
    cause = (str(error).strip().splitlines() or ["no message"])[0]
    message = (
        f"the code of emitter {artifact.emitter} raised {type(error).__name__}: {cause}"
    )
    return Diagnostic(
        Code.EMITTED_CODE_FAILED,
        message[:1000],
        notes=tuple(
            Note(message=f"raised at {place}") for place in _place(artifact, error)
        ),
        hint="without --emitter the interpreter says which line of the program it is",
    )


def _place(artifact: "Artifact", error: Exception) -> list[str]:
    """Return the innermost place in the emitted files, or nothing."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        for file in artifact.files:
            if frame.filename.endswith(f"/{file}"):
                code = f": {frame.line}" if frame.line else ""
                return [f"{file}:{frame.lineno}, in {frame.name}{code}"]
    return []
