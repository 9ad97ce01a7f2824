"""``wrapperir compile``: compiles a function, module or program to a directory."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
from attrs import evolve

from wrapperir import __version__
from wrapperir.cli import options
from wrapperir.cli.bug_report import bug_report_option
from wrapperir.cli.passes import (
    choose_passes,
    pass_option,
    print_after_option,
    showing,
)
from wrapperir.cli.progress import stage
from wrapperir.cli.source import (
    NOWHERE,
    PROGRAM_JSON,
    PROGRAM_TEXT,
    format_as,
    is_program,
    notice,
    printed,
    read_source,
    reporting,
    working_on,
)
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.ir import MultiKernelLine, Program
from wrapperir.loading import COMPILED_MANIFEST

if TYPE_CHECKING:
    from wrapperir.emit import Artifact, Emitter
    from wrapperir.frontend import Lowered


@click.command(
    name="compile",
    epilog=options.examples(
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
@options.frontend_option(
    options.FRONTENDS,
    "export",
    "export: one operator a line, for which nothing is built.  inductor: the fused kernels"
    " of torch.compile.  lowering: fused kernels that wrapperir writes itself.  view and"
    " diff-run take lowering by default, as they show what kernels compute.",
)
@click.option(
    "--constants",
    metavar="FILE",
    help="For a program: take its constants from a dict by key.  Otherwise those that"
    " compile wrote beside it are used.",
)
@options.emitter_option("python", options.EMITTER)
@pass_option
@print_after_option
@click.option(
    "--graphs",
    is_flag=True,
    help="Have GPUs record the work of the program once and replay it: run capture_graphs,"
    " and without --pass the passes that plan memory.",
)
@options.debug_info_option
@options.diagnostics_format_option
@bug_report_option
@reporting
def compile_command(
    target: str,
    output: str,
    frontend: str,
    constants: str | None,
    emitter: str,
    passes: tuple[str, ...],
    print_after: tuple[str, ...],
    graphs: bool,
    debug_info: Literal["code", "program"] | None,
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
    from wrapperir.emit.default_passes import passes_to_run
    from wrapperir.emit.partition import lacks_something
    from wrapperir.emit.pipeline import find_emitter, prepare_program
    from wrapperir.plugin import plugin_manager
    from wrapperir.report import counted

    chosen = find_emitter(emitter)
    if debug_info is not None:
        chosen = chosen.debugging(debug_info)
    to_run = choose_passes(passes)
    if graphs:
        to_run = choose_passes(passes_to_run(to_run or None, chosen, graphs=True))
    show = showing(print_after, to_run)
    with stage("loading torch ..."):
        from wrapperir.cli.lowering import (
            check_target,
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
            device = plugin_manager().kernel_device(chosen)
            lowered = lower_target(target, frontend, device)
        working_on(printed(lowered.program, "<program>"))
    program = prepare_program(lowered.program, to_run, after=show)
    lowered = evolve(lowered, program=program)
    if not is_program(target) and lacks_something(program, chosen):
        missing = plugin_manager().missing_kernels(chosen, frontend)
        if missing is not None:
            raise DiagnosticError(missing)
    write_compiled(lowered, chosen, target, Path(output))
    click.echo(
        f"{output}: {program.name}: {counted(len(program.lines), 'line')}, "
        f"{_counted_kernels(program)}, "
        f"{counted(len(program.constants), 'constant')}"
    )


def _counted_kernels(program: Program) -> str:
    """Return the numbers of kernels and, if there are any, of multi-kernels."""
    from wrapperir.report import counted

    choosing = sum(isinstance(each, MultiKernelLine) for each in program.definitions)
    kernels = counted(len(program.definitions) - choosing, "kernel")
    return f"{kernels}, {counted(choosing, 'multi-kernel')}" if choosing else kernels


def check_directory(directory: Path) -> None:
    """Refuse a directory to write to that is neither empty nor written by ``compile``.

    Raises:
        DiagnosticError: WIR710, it holds something else.
        OSError: it cannot be read.
    """
    if directory.exists() and not _replaceable(directory):
        raise Code.INVALID_ARTIFACT.error(
            f"{directory} exists and was not written by compile, so it is not replaced",
            hint="give a new or empty directory",
        )


def write_compiled(
    lowered: "Lowered",
    emitter: "Emitter",
    target: str,
    directory: Path,
    more: Mapping[str, str] | None = None,
) -> None:
    """Emit and build a verified program; write it, its constants and its artifact.

    ``more`` has further files of the artifact.  All is written or nothing; a directory that
    ``compile`` wrote earlier is replaced.

    Raises:
        DiagnosticError: as :func:`check_directory`; or what the emitter reports.
        OSError: it cannot be written.
    """
    from wrapperir.emit import emit_program
    from wrapperir.emit.artifact import replacing
    from wrapperir.emit.constants import write_with_constants
    from wrapperir.emit.pipeline import build_artifact

    program = lowered.program
    with stage("emitting the program ..."):
        artifact = emit_program(program, emitter)
    artifact = evolve(artifact, folder=directory.absolute() / artifact.emitter)
    with stage("building the program ..."):
        artifact = build_artifact(program, artifact, emitter, lowered.constants)
    artifact = evolve(artifact, files={**artifact.files, **(more or {})})
    working_on(NOWHERE)
    check_directory(directory)
    with replacing(directory) as new:
        (new / PROGRAM_TEXT).write_text(format_as(program, "text"), encoding="utf-8")
        (new / PROGRAM_JSON).write_text(format_as(program, "json"), encoding="utf-8")
        write_with_constants(program, artifact, lowered.constants, new / artifact.emitter)
        manifest = _format_manifest(program, artifact, target)
        (new / COMPILED_MANIFEST).write_text(manifest, encoding="utf-8")


def _format_manifest(program: Program, artifact: "Artifact", target: str) -> str:
    import torch

    manifest = {
        "wrapperir_compiled": 1,
        "wrapperir": __version__,
        "torch": torch.__version__,
        "target": target,
        "programs": [
            {
                "folder": ".",
                "name": program.name,
                "emitter": artifact.emitter,
                "entry": f"{artifact.emitter}/{artifact.entry}",
                "inputs": [input.name for input in program.inputs],
                "outputs": len(program.outputs),
            }
        ],
    }
    return json.dumps(manifest, indent=2) + "\n"


def _replaceable(directory: Path) -> bool:
    return directory.is_dir() and (
        (directory / COMPILED_MANIFEST).is_file() or not any(directory.iterdir())
    )
