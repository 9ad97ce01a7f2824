"""Running what an emitter made; an error that the emitted code raises is a diagnostic."""

import traceback
from collections.abc import Mapping, Sequence

import torch

from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError, Note
from wrapperir.emit.contract import Artifact, Emitter, Value
from wrapperir.emit.pipeline import load_artifact
from wrapperir.ir.program import Program


def run_emitted(
    program: Program,
    artifact: Artifact,
    emitter: Emitter,
    inputs: Sequence[Value],
    constants: Mapping[str, torch.Tensor],
) -> tuple[Value, ...]:
    """Load an artifact and call it once, with inputs that are as ``program`` declares.

    Raises:
        DiagnosticError: the artifact does not load; or WIR906, what it runs raised.
    """
    call = load_artifact(program, artifact, emitter, constants)
    try:
        return call(list(inputs))
    except DiagnosticError:
        raise
    except Exception as error:
        raise DiagnosticError(_failure(artifact, error)) from error


def _failure(artifact: Artifact, error: Exception) -> Diagnostic:
    cause = (str(error).strip().splitlines() or ["no message"])[0]
    return Diagnostic(
        code=Code.EMITTED_CODE_FAILED,
        message=f"the code of emitter {artifact.emitter} raised"
        f" {type(error).__name__}: {cause}"[:1000],
        notes=tuple(
            Note(message=f"raised at {place}") for place in _place(artifact, error)
        ),
        hint="without --emitter the interpreter says which line of the program it is",
    )


def _place(artifact: Artifact, error: Exception) -> list[str]:
    """Return the innermost place in the emitted files, or nothing."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        for file in artifact.files:
            if frame.filename.endswith(f"/{file}"):
                code = f": {frame.line}" if frame.line else ""
                return [f"{file}:{frame.lineno}, in {frame.name}{code}"]
    return []
