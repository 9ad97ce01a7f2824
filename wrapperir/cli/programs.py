"""The commands that execute nothing: print, verify, opt, emit and package."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import click
from attrs import evolve, frozen

from wrapperir.cli import options
from wrapperir.cli.bug_report import bug_report_option
from wrapperir.cli.passes import (
    CommandWithPasses,
    choose_passes,
    pass_option,
    print_after_option,
    run_chosen,
    showing,
)
from wrapperir.cli.progress import stage
from wrapperir.cli.source import (
    ERRORS,
    NOWHERE,
    Source,
    format_as,
    notice,
    open_program,
    parse_source,
    places_in,
    printed,
    read_source,
    report,
    report_as_one,
    reporting,
    working_on,
)
from wrapperir.cli.writing import write_output
from wrapperir.diagnostics import (
    CheckedFile,
    Code,
    Diagnostic,
    DiagnosticError,
    DiagnosticPlaces,
    LinePath,
    Position,
    Severity,
    format_diagnostics_sarif,
)
from wrapperir.ir import Program


@click.command(
    name="print",
    epilog=options.examples(
        "wrapperir print add.wir",
        "wrapperir print --format json add.wir -o add.json",
        "wrapperir print add.json",
        "wrapperir print --format dot add.wir -o add.dot",
    ),
)
@options.program_argument
@options.print_format_option
@options.output_option
@reporting
def print_command(program: str, to: str, output: str | None) -> None:
    """Write PROGRAM as text or JSON, or as a graph in Graphviz's language, DOT.

    Whichever of text and JSON it is read from, an equal program gives the same bytes.
    Nothing of the program is executed.
    """
    parsed, _ = open_program(program)
    write_output(output, format_as(parsed, to))


@click.command(
    name="verify",
    epilog=options.examples(
        "wrapperir verify add.wir",
        "wrapperir verify --format json add.wir",
        "wrapperir verify --format sarif add.wir",
        "wrapperir verify --operators add.wir",
        "wrapperir verify --ranks add.wir add.wir",
        "wrapperir print add.wir | wrapperir verify -",
    ),
)
@click.argument("programs", metavar="PROGRAM...", nargs=-1, required=True)
@click.option(
    "--ranks",
    is_flag=True,
    help="Take a program for each rank, and also check that their collectives agree.",
)
@click.option(
    "--operators",
    is_flag=True,
    help="Also check calls of operators against the installed PyTorch: names, arguments,"
    " and the sizes of what they return and write.",
)
@options.verify_format_option
@reporting
def verify_command(
    programs: tuple[str, ...],
    ranks: bool,
    operators: bool,
    form: Literal["text", "json", "sarif"],
) -> None:
    """Report every fault of PROGRAM that is certain without running it.

    Diagnostics go to standard output; the status is 1 if any is an error.
    Nothing of the program is executed.
    """
    if len(programs) > 1 and not ranks:
        raise click.UsageError("several programs are verified together with --ranks")
    checked: list[_Checked] = []

    def show(each: _Checked, programs: Sequence[DiagnosticPlaces] = ()) -> None:
        if form == "text":  # the others have all programs in one document
            report(each.diagnostics, each.shown, err=False, programs=programs)

    for program in programs:
        checked.append(_checked(program, operators))
        show(checked[-1])
    is_faulty = any(each.has_errors for each in checked)
    if ranks and not is_faulty:
        differing = _differing_ranks(checked)
        is_faulty = any(each.diagnostics for each in differing)
        places = [places_in(each.shown) for each in checked if is_faulty]
        for each in differing:
            show(each, places)
        checked = [
            evolve(each, diagnostics=each.diagnostics + other.diagnostics)
            for each, other in zip(checked, differing, strict=True)
        ]
    if form == "sarif":
        click.echo(_sarif(checked))
    elif form == "json":
        report_as_one((each.diagnostics, each.shown) for each in checked)
    if is_faulty:
        click.get_current_context().exit(ERRORS)
    if form == "text":
        for each in checked:
            click.echo(f"{each.shown.name}: no errors")


@frozen
class _Checked:
    """A program, ``None`` if it cannot be read, and what was found in it.

    ``given`` is the text that was read, ``shown`` the one that positions are in.
    """

    program: Program | None
    given: Source
    shown: Source
    diagnostics: tuple[Diagnostic, ...]

    @property
    def has_errors(self) -> bool:
        return any(each.severity is Severity.ERROR for each in self.diagnostics)


def _checked(program: str, operators: bool) -> _Checked:
    from wrapperir.verify import verify

    given = shown = read_source(program)
    working_on(given)
    try:
        parsed, shown = parse_source(given)
        found = verify(parsed)
        if operators and not any(each.severity is Severity.ERROR for each in found):
            with stage("loading torch ..."):
                from wrapperir.interp.operator_check import check_operators
            found = (*found, *check_operators(parsed))
    except DiagnosticError as error:
        return _Checked(None, given, shown, error.diagnostics)
    return _Checked(parsed, given, shown, found)


def _differing_ranks(checked: Sequence[_Checked]) -> list[_Checked]:
    """Return the programs of several ranks, each with where it and others do not agree."""
    from wrapperir.verify import verify_ranks

    programs = [each.program for each in checked if each.program is not None]
    found = verify_ranks(programs)
    return [
        evolve(each, diagnostics=diagnostics)
        for diagnostics, each in zip(found, checked, strict=True)
    ]


def _sarif(checked: Sequence[_Checked]) -> str:
    """Return a log of what was found.

    Lines of a program in JSON are not those of its file, so they are left out.
    """
    from wrapperir import __version__

    files: list[CheckedFile] = []
    for each in checked:
        is_text = each.shown.name == each.given.name
        positions = each.shown.positions if is_text else dict[LinePath, Position]()
        name, text = each.given.name, each.given.text
        files.append(CheckedFile(name, text, positions, each.diagnostics))
    return format_diagnostics_sarif(files, __version__)


@click.command(
    name="opt",
    cls=CommandWithPasses,
    epilog=options.examples(
        "wrapperir opt --pass simplify_expressions --pass remove_dead_lines add.wir",
        "wrapperir opt --pass insert_frees --print-after all add.wir -o add.wir",
        "wrapperir opt --pass 'memory, remove_dead_lines' add.wir",
    ),
)
@options.program_argument
@pass_option
@print_after_option
@options.spelling_option
@options.output_option
@bug_report_option
@reporting
def opt_command(
    program: str,
    passes: tuple[str, ...],
    print_after: tuple[str, ...],
    to: str,
    output: str | None,
) -> None:
    """Run passes over PROGRAM and write what they make.

    The result is checked: if it has errors, they are reported and nothing is written.
    PROGRAM itself may have some, such as missing frees, that a pass mends.  Nothing of
    the program is executed; a pass of a plugin is code of an installed package.
    """
    chosen = choose_passes(passes)
    show = showing(print_after, chosen)
    parsed, source = open_program(program)
    result = run_chosen(parsed, chosen, show)
    shown = printed(result, f"{source.name} (after the passes)") if passes else source
    exit_with_errors(errors_of(result), shown)
    write_output(output, format_as(result, to))


def errors_of(program: Program) -> list[Diagnostic]:
    """Return the errors that the verifier finds."""
    from wrapperir.verify import verify

    return [d for d in verify(program) if d.severity is Severity.ERROR]


def exit_with_errors(errors: Sequence[Diagnostic], source: Source) -> None:
    """End the command with a report of errors in ``source``, if there are any."""
    if errors:
        report(errors, source)
        click.get_current_context().exit(ERRORS)


@click.command(
    name="emit",
    epilog=options.examples(
        "wrapperir emit add.wir",
        "wrapperir emit --emitter python --pass remove_dead_lines add.wir -o add_python",
        "wrapperir emit --emitter fx add.wir -o add_graph",
        "wrapperir emit --check-memory add.wir -o add_checked",
    ),
)
@options.program_argument
@options.emitter_option("python", options.EMITTER)
@pass_option
@options.check_memory_option
@options.debug_info_option
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    help="Write the files to this directory; else the entry goes to standard output.",
)
@options.diagnostics_format_option
@bug_report_option
@reporting
def emit_command(
    program: str,
    emitter: str,
    passes: tuple[str, ...],
    check_memory: bool,
    debug_info: Literal["code", "program"] | None,
    output: str | None,
    form: Literal["text", "json"],
) -> None:
    """Write the files that an emitter makes of PROGRAM.

    The program is checked first.  Nothing of it is executed; an emitter is code of an
    installed package.
    """
    from wrapperir.emit import emit_program, write_artifact
    from wrapperir.emit.pipeline import find_emitter, prepare_program

    to_run = choose_passes(passes)
    parsed, _ = open_program(program)
    chosen = find_emitter(emitter)
    if check_memory:
        chosen = chosen.checking_memory()
    if debug_info is not None:
        chosen = chosen.debugging(debug_info)
    artifact = emit_program(prepare_program(parsed, to_run), chosen)
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


@click.command(
    name="package",
    epilog=options.examples(
        "wrapperir compile model.py:Model --emitter cpp -o model_library",
        "wrapperir package model_library model.pt2",
    ),
)
@click.argument("directory", metavar="DIR")
@click.argument("file", metavar="FILE")
@options.diagnostics_format_option
@reporting
def package_command(directory: str, file: str, form: Literal["text", "json"]) -> None:
    """Write the program that compile wrote to DIR to the single FILE.

    FILE holds the library, kernels, constants and texts.  wrapperir.load of Python loads
    it; and so do PyTorch's aoti_load_package and AOTIModelPackageLoader, where its name
    ends in .pt2.

    Nothing of the program is executed.
    """
    from wrapperir.emit.artifact import read_manifest
    from wrapperir.emit.pipeline import find_emitter
    from wrapperir.loading import find_artifact

    if Path(file).is_dir():
        raise Code.INVALID_ARTIFACT.error(
            f"{file} is a directory, and a package is a file",
            hint="give the name of the file to write, such as model.pt2",
        )
    artifact = find_artifact(Path(directory))
    _, manifest = read_manifest(artifact)
    target = Path(file)
    find_emitter(manifest.emitter).package(artifact, target)
    click.echo(f"{file}: {target.stat().st_size} bytes")
