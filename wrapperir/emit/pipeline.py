"""From a program to a callable: verify, passes, verify, check support, emit, load."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wrapperir.diagnostics import Diagnostic, DiagnosticError, Severity
from wrapperir.emit.artifact import write_artifact
from wrapperir.emit.constants import check_constants
from wrapperir.emit.contract import Artifact, Emitter, Loaded
from wrapperir.emit.support import check_support
from wrapperir.ir.program import Program

if TYPE_CHECKING:
    import torch


def compile_program(
    program: Program,
    *,
    emitter: str | Emitter = "python",
    passes: Sequence[str] = (),
    constants: Mapping[str, "torch.Tensor"] | None = None,
    dump_dir: Path | None = None,
) -> Loaded:
    """Return a callable that runs ``program``; kernels are compiled and code executed.

    ``constants`` maps each constant's key to its tensor.  With ``dump_dir``, the text
    ``program.wir`` (after the passes) and the artifact ``<emitter>/`` are written there.

    Raises:
        DiagnosticError: all errors of the verifier; or the emitter is unknown or lacks
            something the program needs; or a constant is missing or of another type; or
            a kernel does not compile.
        OSError: ``dump_dir`` cannot be written.
    """
    chosen = find_emitter(emitter) if isinstance(emitter, str) else emitter
    prepared = prepare_program(program, passes)
    given: Mapping[str, torch.Tensor] = {} if constants is None else constants
    _raise_errors(check_constants(prepared, given))
    artifact = emit_program(prepared, chosen)
    if dump_dir is not None:
        dump_program(prepared, artifact, dump_dir)
    return chosen.load(artifact, given)


def find_emitter(name: str) -> Emitter:
    """Return the installed emitter of that name.

    Raises:
        DiagnosticError: there is none, or two.
    """
    from wrapperir.plugin.manager import plugin_manager  # plugins are imported late

    return plugin_manager().emitter(name)


def prepare_program(program: Program, passes: Sequence[str]) -> Program:
    """Verify, run the named passes, and verify what they made.

    Raises:
        DiagnosticError: all errors of the verifier, before or after the passes.
    """
    from wrapperir.passes import run_passes
    from wrapperir.verify import verify

    _raise_errors(verify(program))
    if passes:
        program = run_passes(program, passes)
        _raise_errors(verify(program))
    return program


def emit_program(program: Program, emitter: Emitter) -> Artifact:
    """Return the artifact for a verified program.

    Raises:
        DiagnosticError: the emitter lacks something that the program needs; all such
            places are named before any code is written.
    """
    _raise_errors(check_support(program, emitter.name, emitter.support))
    return emitter.emit(program)


def dump_program(program: Program, artifact: Artifact, directory: Path) -> None:
    """Write ``program.wir`` and the artifact, in a folder named as its emitter.

    Raises:
        OSError: the files cannot be written.
    """
    from wrapperir.text import format_program

    directory.mkdir(parents=True, exist_ok=True)
    (directory / "program.wir").write_text(format_program(program), encoding="utf-8")
    write_artifact(artifact, directory / artifact.emitter)


def _raise_errors(diagnostics: Sequence[Diagnostic]) -> None:
    errors = [d for d in diagnostics if d.severity is Severity.ERROR]
    if errors:
        raise DiagnosticError(*errors)
