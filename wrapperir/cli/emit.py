"""``wrapperir emit``: turn a program into an emitter's files."""

from pathlib import Path
from typing import Literal

import click

from wrapperir.cli.options import (
    EMITTER,
    check_memory_option,
    diagnostics_format_option,
    emitter_option,
    examples,
    pass_option,
    program_argument,
)
from wrapperir.cli.report import notice, open_program, reporting, working_on
from wrapperir.cli.source import NOWHERE
from wrapperir.cli.writing import write_output


@click.command(
    name="emit",
    epilog=examples(
        "wrapperir emit add.wir",
        "wrapperir emit --emitter python --pass remove_dead_lines add.wir -o add_python",
        "wrapperir emit --emitter fx add.wir -o add_graph",
        "wrapperir emit --check-memory add.wir -o add_checked",
    ),
)
@program_argument
@emitter_option("python", EMITTER)
@pass_option
@check_memory_option
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    help="Write the files to this directory; else the entry goes to standard output.",
)
@diagnostics_format_option
@reporting
def command(
    program: str,
    emitter: str,
    passes: tuple[str, ...],
    check_memory: bool,
    output: str | None,
    form: Literal["text", "json"],
) -> None:
    """Write the files that an emitter makes of PROGRAM.

    The program is checked first.  Nothing of it is executed; an emitter is code of an
    installed package.
    """
    from wrapperir.emit import emit_program, write_artifact
    from wrapperir.emit.pipeline import find_emitter, prepare_program

    parsed, _ = open_program(program)
    chosen = find_emitter(emitter)
    if check_memory:
        chosen = chosen.checking_memory()
    artifact = emit_program(prepare_program(parsed, passes), chosen)
    if output is not None:
        working_on(NOWHERE)
        write_artifact(artifact, Path(output))
        return
    others = ", ".join(sorted(artifact.files.keys() - {artifact.entry}))
    if others:
        notice(f"{artifact.entry} uses {others}: give -o DIR to write all files")
    content = artifact.files[artifact.entry]
    if isinstance(content, str):
        write_output(None, content)
    else:
        click.echo(content, nl=False)
