"""``wrapperir reduce``: make a program smaller while it still shows a fault."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from wrapperir.cli import options
from wrapperir.cli.digests import Digests
from wrapperir.cli.progress import counted_stage
from wrapperir.cli.source import STANDARD_INPUT, notice, open_program, reporting
from wrapperir.cli.writing import check_output, write_output
from wrapperir.diagnostics import Code
from wrapperir.text import format_program

if TYPE_CHECKING:
    from wrapperir.ir import Program
    from wrapperir.reduce import Interesting


@click.command(
    name="reduce",
    epilog=options.examples(
        "wrapperir reduce add.wir --command 'grep -q aten.add {}' -o small.wir",
        "wrapperir reduce add.wir --command 'grep -q aten.add {}' --jobs 8 -o small.wir",
        "wrapperir reduce freed.wir --code WIR201 -o small.wir",
    )
    + "\n\nStopped, it has left the smallest program so far in FILE; the same command goes"
    " on from there: FILE.rejected keeps what need not be tried again.",
)
@options.program_argument
@click.option(
    "--command",
    metavar="COMMAND",
    help="Keep a program if this command ends with status 0; {} stands for its file.",
)
@click.option(
    "--code",
    metavar="WIRnnn",
    help="Keep a program if the verifier, or the interpreter on drawn inputs, reports this"
    " code.",
)
@click.option(
    "--differs",
    metavar="EMITTER",
    help="Keep a program if what this emitter makes raises an error or gives other values"
    " than the interpreter, on drawn inputs.",
)
@click.option(
    "-o", "--output", metavar="FILE", required=True, help="Write the smallest program here."
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="How many commands run at once; the result is the same.",
)
@options.seed_option("Seed of drawn inputs.")
@options.diagnostics_format_option
@reporting
def reduce_command(
    program: str,
    command: str | None,
    code: str | None,
    differs: str | None,
    output: str,
    jobs: int,
    seed: int,
    form: Literal["text", "json"],
) -> None:
    """Write a small program to FILE that shows the same as PROGRAM.

    Lines, outputs, inputs, nested blocks, kernels, configs and choices are removed, and
    constant sizes made smaller, as long as the oracle holds: a command, a code, or an
    emitter that is wrong.  Each program that is tried is one that the verifier accepts, or
    reports no further codes for.

    This executes code: the command, or the operators and kernels of PROGRAM.
    """
    from wrapperir.reduce import reduce_program

    given = [name for name in (command, code, differs) if name is not None]
    if len(given) != 1:
        raise click.UsageError("give one of --command, --code and --differs")
    if jobs > 1 and command is None:
        raise click.UsageError("--jobs is for --command")
    if output == STANDARD_INPUT:
        raise click.UsageError("-o is a file, where the smallest program so far is kept")
    check_output(output)
    parsed, source = open_program(program)
    sought = (*given, str(seed), format_program(parsed))
    rejected = Digests(Path(f"{output}.rejected"), sought)
    begun = open_program(output)[0] if rejected and Path(output).is_file() else parsed
    notice(f"reduce executes {command or f'the code in {source.name}'}")
    is_interesting = _oracle(command, code, differs, seed)
    with counted_stage() as show:

        def tell(smaller: "Program", tried: int) -> None:
            write_output(output, format_program(smaller))
            show(f"{_size(smaller)}; {tried} programs tried", False)

        smallest = reduce_program(
            begun, is_interesting, jobs=jobs, rejected=rejected, tell=tell
        )
    write_output(output, format_program(smallest))
    rejected.remove_file()
    click.echo(f"{output}: {_size(smallest)} of {_size(parsed)}")


def _size(program: "Program") -> str:
    from wrapperir.reduce.lines import line_count

    count = line_count(program)
    kernels = len(program.definitions)
    return f"{count} line{'s'[: count != 1]} and {kernels} kernel{'s'[: kernels != 1]}"


def _oracle(
    command: str | None, code: str | None, emitter: str | None, seed: int
) -> "Interesting":
    from wrapperir.cli import oracles

    if command is not None:
        words = shlex.split(command)
        if not any(oracles.FILE in word for word in words):
            raise click.UsageError("--command has no {} for the program's file")
        return oracles.succeeds(words)
    if code is not None:
        if code not in {known.value for known in Code}:
            raise click.UsageError(f"--code {code} is no code; they look like WIR810")
        return oracles.reports(code, seed)
    from wrapperir.emit.pipeline import find_emitter

    assert emitter is not None
    return oracles.differs(find_emitter(emitter), seed)
