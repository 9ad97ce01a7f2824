"""From a program to a callable: verify, passes, verify, check support, emit, load."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, cast

from attrs import evolve

from wrapperir.diagnostics import (
    TRACEBACKS,
    Code,
    Diagnostic,
    DiagnosticError,
    LinePath,
    Note,
    Severity,
    describe_failure,
)
from wrapperir.emit.artifact import keep_files, write_artifact
from wrapperir.emit.constants import check_constants
from wrapperir.emit.contract import Artifact, DebugSource, Emitter, Loaded, OutputCode
from wrapperir.emit.line_record import recording_lines
from wrapperir.emit.support import check_support, fit_program, on_host
from wrapperir.emit.torch_dtypes import UnknownDeviceError
from wrapperir.ir import ExternKernelLine, OriginTable, Program
from wrapperir.ir.blocks import walk_places

if TYPE_CHECKING:
    import torch

    from wrapperir.passes import CaptureReport
    from wrapperir.pipelines import ChosenPass, PassLike, PassObserver


def compile_program(
    program: Program,
    *,
    emitter: str | Emitter = "python",
    passes: "str | Sequence[PassLike]" = (),
    constants: Mapping[str, "torch.Tensor"] | None = None,
    dump_dir: Path | None = None,
    check_memory: bool = False,
    debug_info: DebugSource | None = None,
    show: Callable[[OutputCode], None] | None = None,
    after: "PassObserver | None" = None,
) -> Loaded:
    """Return a callable that runs ``program``; kernels are compiled and code executed.

    ``passes`` are those of :func:`wrapperir.pipelines.run_passes`.
    ``constants`` maps each constant's key to its tensor.  With ``dump_dir``, the text
    ``program.wir``, the report ``graphs.txt`` of ``capture_graphs`` and the artifact
    ``<emitter>/`` are written there, as far as they are made before an error.  The text is
    the program after the passes, or before them if it is refused there.
    With ``check_memory``, the emitted code checks its memory as it runs: a difference from
    the program is raised as WIR842.  With ``debug_info``, debuggers step through the code
    that runs, or through the text of the program; both stay in files, in the user's cache
    without ``dump_dir``.  ``show`` is given the emitted code, before it is
    loaded, and ``after`` each pass with the programs before and after it.

    Raises:
        DiagnosticError: all errors of the verifier; or the emitter is unknown or lacks
            something the program needs, or fails; or a constant is missing or of another
            type; or a kernel does not compile.
        OSError: ``dump_dir`` cannot be written.
    """
    chosen = find_emitter(emitter) if isinstance(emitter, str) else emitter
    if check_memory:
        chosen = chosen.checking_memory()
    if debug_info is not None:
        chosen = chosen.debugging(debug_info)
    try:
        prepared = prepare_program(program, passes, dump_dir, after)
    except DiagnosticError:
        _dump_program(program, dump_dir)
        raise
    _dump_program(prepared, dump_dir)
    artifact = emit_program(prepared, chosen)
    if dump_dir is not None:
        folder = dump_dir.absolute() / artifact.emitter
        write_artifact(artifact, folder)
        artifact = evolve(artifact, folder=folder)
    elif debug_info is not None:
        artifact = keep_files(artifact)
    if show is not None:
        show(output_code(prepared, artifact, chosen))
    return load_artifact(prepared, artifact, chosen, {} if constants is None else constants)


def _ignore(ran: "ChosenPass", old: Program, new: Program) -> None:
    """Observe a pass by doing nothing."""


def _dump_program(program: Program, folder: Path | None) -> None:
    if folder is not None:
        from wrapperir.text import format_program

        folder.mkdir(parents=True, exist_ok=True)
        (folder / "program.wir").write_text(format_program(program), encoding="utf-8")


def find_emitter(name: str) -> Emitter:
    """Return the installed emitter of that name.

    ``opencl+python`` is ``opencl``, with ``python`` for what that one lacks.

    Raises:
        DiagnosticError: there is none, or two.
    """
    from wrapperir.plugin import plugin_manager  # plugins are imported late

    return plugin_manager().emitter(name)


def prepare_program(
    program: Program,
    passes: "str | Sequence[PassLike]",
    dump_dir: Path | None = None,
    after: "PassObserver | None" = None,
) -> Program:
    """Verify the program, run the passes, and verify the result.

    ``passes`` and ``after`` are those of :func:`wrapperir.pipelines.run_passes`.  The
    report of ``capture_graphs`` goes to the log, and to ``graphs.txt`` in ``dump_dir``.

    Raises:
        DiagnosticError: all errors of the verifier, before or after the passes; or a pass
            does not exist or fails.
        OSError: ``dump_dir`` cannot be written.
    """
    from wrapperir.pipelines import run_passes
    from wrapperir.verify import verify

    def report(captured: "CaptureReport") -> None:
        # Imported late: most programs have no report.
        from wrapperir.emit.graph_report import log_capture, write_capture

        log_capture(captured)
        if dump_dir is not None:
            write_capture(captured, dump_dir)

    _raise_errors(verify(program), program)
    if passes:
        program = run_passes(program, passes, report, after or _ignore)
        _raise_errors(verify(program, is_well_formed=True), program)
    return program


def emit_program(program: Program, emitter: Emitter) -> Artifact:
    """Return the artifact for a verified program.

    Raises:
        DiagnosticError: the emitter lacks something that the program needs, and all such
            places are named before any code is written; or WIR711, it fails.
    """
    program = fit_program(program, emitter.support)
    _raise_errors(check_support(program, emitter.name, emitter.support), program)
    with _placing(program, emitter), _blaming(emitter):
        artifact = cast(object, emitter.emit(program))
    if not isinstance(artifact, Artifact):
        raise _fault(emitter, f"made a {type(artifact).__name__}, not an Artifact")
    return artifact


def emit_with_paths(
    program: Program, emitter: Emitter
) -> tuple[Artifact, dict[str, tuple[LinePath, ...]]]:
    """Return the artifact for a verified program, and paths for the lines of its files.

    Each line of a file has the path of the line of the program that it is for, as
    :class:`~wrapperir.emit.line_record.LineRecord` has them.  A file that no recorded
    source writer wrote has none.

    Raises:
        DiagnosticError: as :func:`emit_program`.
    """
    with recording_lines() as record:
        artifact = emit_program(program, emitter)
    found = {
        file: record.paths(content)
        for file, content in artifact.files.items()
        if isinstance(content, str)
    }
    return artifact, {file: paths for file, paths in found.items() if paths}


def output_code(program: Program, artifact: Artifact, emitter: Emitter) -> OutputCode:
    """Return a program and the code of its artifact, for people to read."""
    suffix = PurePosixPath(emitter.shown_files(artifact)[0]).suffix
    text = format_code(artifact, emitter)
    return OutputCode(program=program, artifact=artifact, text=text, suffix=suffix)


def format_code(artifact: Artifact, emitter: Emitter) -> str:
    """Return the code of an artifact as one text.

    Further files follow the main one.  Beside Python they are strings in triple quotes, as
    Inductor writes kernels.
    """
    main, *others = emitter.shown_files(artifact)
    parts = [_shown(artifact, main)]
    for path in others:
        if main.endswith(".py"):
            parts.append(f"# {path}\n'''\n{_shown(artifact, path)}'''\n")
        else:
            parts.append(f"// {path}\n{_shown(artifact, path)}")
    return "\n\n".join(parts)


def _shown(artifact: Artifact, path: str) -> str:
    content = artifact.files[path]
    return content if isinstance(content, str) else f"({path} is not text)\n"


def build_artifact(
    program: Program,
    artifact: Artifact,
    emitter: Emitter,
    constants: Mapping[str, "torch.Tensor"],
) -> Artifact:
    """Return a program's artifact, with code compiled ahead of time where possible.

    Raises:
        DiagnosticError: a constant is missing or of another type; something does not
            compile; or WIR711, the emitter fails.
    """
    _check_constants(program, emitter, constants)
    with _blaming(emitter):
        return emitter.build(artifact, constants)


def load_artifact(
    program: Program,
    artifact: Artifact,
    emitter: Emitter,
    constants: Mapping[str, "torch.Tensor"],
) -> Loaded:
    """Return the callable of a program's artifact; kernels are compiled, code executed.

    Raises:
        DiagnosticError: a constant is missing or of another type; a kernel does not
            compile; an operator is not registered; or WIR711, the emitter fails.
    """
    _check_constants(program, emitter, constants)
    with _placing(program, emitter):
        return load_stored(artifact, emitter, constants)


def _check_constants(
    program: Program, emitter: Emitter, constants: Mapping[str, "torch.Tensor"]
) -> None:
    """Compare constants with their types; those of hosted devices are on the CPU."""
    held = on_host(program.constants, emitter.support.hosted)
    on_cpu = evolve(program, constants=held)
    _raise_errors(check_constants(on_cpu, constants), program)


def load_stored(
    artifact: Artifact, emitter: Emitter, constants: Mapping[str, "torch.Tensor"]
) -> Loaded:
    """Return the callable of an artifact that was kept with its constants.

    Raises:
        DiagnosticError: a constant is missing; a kernel does not compile; or WIR711, the
            emitter fails.
    """
    with _blaming(emitter):
        return emitter.load(artifact, constants)


@contextmanager
def _placing(program: Program, emitter: Emitter) -> Generator[None]:
    """Add the user's line to errors of a line, and to those about a device or operator.

    The latter get the place of the first use.
    """
    try:
        yield
    except DiagnosticError as error:
        found = [_placed(program, emitter, diagnostic) for diagnostic in error.diagnostics]
        raise DiagnosticError(*found) from error.__cause__


def _placed(program: Program, emitter: Emitter, found: Diagnostic) -> Diagnostic:
    places: Iterable[LinePath | None] = ()
    if found.path is not None and found.origin is None:
        return evolve(found, origin=origin_of(program, found.path))
    if found.path is not None or found.subject is None:
        return found
    if found.code is Code.UNSUPPORTED_FEATURE:
        places = (
            path
            for line, path in walk_places(program.lines)
            if isinstance(line, ExternKernelLine) and line.operator == found.subject
        )
    elif found.code is Code.UNSUPPORTED_DEVICE:
        support = evolve(emitter.support, devices=frozenset[str]())
        uses = check_support(program, emitter.name, support)
        places = (use.path for use in uses if use.subject == found.subject)
    path = next(iter(places), None)
    return evolve(found, path=path, origin=origin_of(program, path))


@contextmanager
def _blaming(emitter: Emitter) -> Generator[None]:
    """Turn errors of an emitter, other than diagnostics, into WIR711."""
    try:
        yield
    except DiagnosticError:
        raise
    except UnknownDeviceError as error:
        raise error.unsupported from None
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and (missing := missing_torch(error)):
            raise missing from None
        message, note = describe_failure(error)
        raise _fault(emitter, f"failed: {message}", note) from error


def _fault(emitter: Emitter, problem: str, *notes: Note) -> DiagnosticError:
    module = type(emitter).__module__
    return Code.EMITTER_FAILED.error(
        f"emitter {emitter.name!a} of {module} {problem}",
        notes=notes,
        hint="this is a fault of the emitter's plugin, not of the program;"
        f" with {TRACEBACKS}=1, the command line shows its traceback",
    )


def _raise_errors(diagnostics: Sequence[Diagnostic], program: Program) -> None:
    table = OriginTable(program)
    errors = [
        evolve(d, origin=table.source_of(d.path or ()))
        for d in diagnostics
        if d.severity is Severity.ERROR
    ]
    if errors:
        raise DiagnosticError(*errors)


def origin_of(program: Program, path: LinePath | None) -> str | None:
    """Return the place in the user's source that the line at a path has, if it has one."""
    return OriginTable(program).source_of(path or ())


def missing_torch(error: ModuleNotFoundError) -> DiagnosticError | None:
    """Return the error to raise if a module is missing because PyTorch is."""
    if (error.name or "").partition(".")[0] != "torch":
        return None
    return Code.MISSING_TORCH.error(
        "this needs PyTorch, which is not installed", hint="pip install 'wrapperir[torch]'"
    )
