"""``wrapperir compile``: a function or module to a directory of files."""

from pathlib import Path
from typing import Literal

import click

from wrapperir.cli.opt import check_names
from wrapperir.cli.options import (
    diagnostics_format_option,
    emitter_option,
    examples,
    pass_option,
)
from wrapperir.cli.progress import stage
from wrapperir.cli.report import notice
from wrapperir.cli.source import NOWHERE, printed
from wrapperir.cli.status import reporting, working_on


@click.command(
    name="compile",
    epilog=examples(
        "wrapperir compile model.py:Model -o model_compiled",
        "wrapperir compile model.py:Model --emitter cpp -o model_library",
        "wrapperir compile model.py:scale --pass remove_dead_lines -o scale_compiled",
        "wrapperir run model_compiled",
    ),
)
@click.argument("target", metavar="TARGET")
@click.option(
    "-o", "--output", metavar="DIR", required=True, help="The directory to write."
)
@click.option(
    "--frontend",
    type=click.Choice(["export", "inductor"]),
    default="export",
    show_default=True,
    help="export: one operator a line.  inductor: the fused kernels of torch.compile.",
)
@emitter_option("python", "The emitter; wrapperir plugins lists them.  [default: python]")
@pass_option
@diagnostics_format_option
@reporting
def command(
    target: str,
    output: str,
    frontend: str,
    emitter: str,
    passes: tuple[str, ...],
    form: Literal["text", "json"],
) -> None:
    """Compile TARGET and write programs, constants and emitted code to a directory.

    What the emitter can compile ahead of time, such as the library of the cpp emitter, is
    compiled.  wrapperir.load of Python loads the directory.

    TARGET is FILE.py:NAME, a function, a torch.nn.Module or a class of modules in a
    Python file that also defines its arguments as example_inputs() or EXAMPLE_INPUTS; or
    a .pt2 file that torch.export.save wrote.

    This executes code: the file, and the function or module in it.
    """
    from wrapperir.emit.pipeline import (
        build_artifact,
        emit_program,
        find_emitter,
        prepare_program,
    )
    from wrapperir.frontend.lowered import Lowered

    chosen = find_emitter(emitter)
    check_names(passes)
    with stage("loading torch ..."):
        from wrapperir.cli.compiled import Compiled, check_directory, write_compiled
        from wrapperir.cli.lowering import check_target, lower_target
    check_directory(Path(output))
    file = check_target(target, frontend)
    notice(f"compile executes the code in {file}")
    with stage(f"lowering {target} ..."):
        found = lower_target(target, frontend)
    compiled: list[Compiled] = []
    for number, lowered in enumerate(found):
        with stage(f"emitting program {number + 1} of {len(found)} ..."):
            working_on(printed(lowered.program, f"<program {number}>"))
            program = prepare_program(lowered.program, passes)
            artifact = emit_program(program, chosen)
        with stage(f"building program {number + 1} of {len(found)} ..."):
            artifact = build_artifact(program, artifact, chosen, lowered.constants)
            compiled.append(Compiled(Lowered(program, lowered.constants), artifact))
    working_on(NOWHERE)
    write_compiled(compiled, target, Path(output))
    for item in compiled:
        program = item.lowered.program
        click.echo(
            f"{output}: {program.name}: {_counted(len(program.lines), 'line')}, "
            f"{_counted(len(program.definitions), 'kernel')}, "
            f"{_counted(len(program.constants), 'constant')}"
        )


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
