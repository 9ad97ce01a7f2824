"""``wrapperir compile``: compiles a function, module or program to a directory."""

from pathlib import Path
from typing import Literal

import click

from wrapperir.cli.opt import check_names
from wrapperir.cli.options import (
    EMITTER,
    diagnostics_format_option,
    emitter_option,
    examples,
    pass_option,
)
from wrapperir.cli.progress import stage
from wrapperir.cli.report import notice, reporting, working_on
from wrapperir.cli.source import NOWHERE, printed, read_source


@click.command(
    name="compile",
    epilog=examples(
        "wrapperir compile model.py:Model -o model_compiled",
        "wrapperir compile model.py:Model --emitter cpp -o model_library",
        "wrapperir compile model.py:Model --emitter fx -o model_graph",
        "wrapperir compile model.py:scale --pass remove_dead_lines -o scale_compiled",
        "wrapperir compile add.wir --emitter cpp --constants weights.pt -o add_library",
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
@click.option(
    "--constants",
    metavar="FILE",
    help="For a program: take its constants from a dict by key.  Otherwise those that"
    " compile wrote beside it are used.",
)
@emitter_option("python", EMITTER)
@pass_option
@diagnostics_format_option
@reporting
def command(
    target: str,
    output: str,
    frontend: str,
    constants: str | None,
    emitter: str,
    passes: tuple[str, ...],
    form: Literal["text", "json"],
) -> None:
    """Compile TARGET and write programs, constants and emitted code to a directory.

    The emitter's ahead-of-time build, such as the library of the cpp emitter, is included.
    wrapperir.load of Python loads the directory.

    TARGET is FILE.py:NAME, a function, a torch.nn.Module or a class of modules in a
    Python file that also defines its arguments as example_inputs() or EXAMPLE_INPUTS; or
    a .pt2 file that torch.export.save wrote; or a program: a .wir or .json file, a
    directory that compile wrote, or - for standard input.

    This executes code: the file and the function or module in it; of a program, what
    building its kernels executes.
    """
    from wrapperir.emit import emit_program
    from wrapperir.emit.pipeline import build_artifact, find_emitter, prepare_program
    from wrapperir.frontend import Lowered

    chosen = find_emitter(emitter)
    check_names(passes)
    with stage("loading torch ..."):
        from wrapperir.cli.compiled import Compiled, check_directory, write_compiled
        from wrapperir.cli.lowering import (
            check_target,
            is_program,
            lower_target,
            read_program,
        )
    check_directory(Path(output))
    if is_program(target):
        source = read_source(target)
        working_on(source)
        lowered, source = read_program(source, target, constants)
        working_on(source)
        notice(f"compile executes the code in {source.name}")
    else:
        if constants is not None:
            raise click.UsageError("--constants is for a program: a .wir or .json file")
        file = check_target(target)
        notice(f"compile executes the code in {file}")
        with stage(f"lowering {target} ..."):
            lowered = lower_target(target, frontend)
        working_on(printed(lowered.program, "<program>"))
    with stage("emitting the program ..."):
        program = prepare_program(lowered.program, passes)
        artifact = emit_program(program, chosen)
    with stage("building the program ..."):
        artifact = build_artifact(program, artifact, chosen, lowered.constants)
    working_on(NOWHERE)
    compiled = Compiled(Lowered(program, lowered.constants), artifact)
    write_compiled(compiled, target, Path(output))
    click.echo(
        f"{output}: {program.name}: {_counted(len(program.lines), 'line')}, "
        f"{_counted(len(program.definitions), 'kernel')}, "
        f"{_counted(len(program.constants), 'constant')}"
    )


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
