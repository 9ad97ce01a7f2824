"""Artifacts whose kernels are launched with the configs that are fastest here."""

from collections.abc import Sequence

import torch
from attrs import evolve

from wrapperir.emit.contract import Artifact
from wrapperir.text import parse_program
from wrapperir_cpp.artifact_files import TEXT, emit_artifact
from wrapperir_cpp.targets import Target, present_targets
from wrapperir_cpp.triton_kernels import KERNEL_FACTS
from wrapperir_cpp.tuning import RECORD, apply_tuning, format_tuning


def tune_artifact(artifact: Artifact, targets: Sequence[Target]) -> Artifact:
    """Return an artifact with its kernels' configs chosen, and the record of that.

    It is as it was where it has no kernels with a choice, or no GPU of a target is here.

    Raises:
        DiagnosticError: its program cannot be read.
    """
    if not any(path.endswith(KERNEL_FACTS) for path in artifact.files):
        return artifact
    if not torch.cuda.is_available() or not {*present_targets()} & {*targets}:
        return artifact
    from wrapperir_cpp.kernel_timer import tune_here  # it imports Triton

    text = artifact.files[TEXT]
    program = parse_program(text if isinstance(text, str) else text.decode())
    tuning = tune_here(program, artifact.files.get(RECORD))
    if tuning is None:
        return artifact
    chosen = emit_artifact(apply_tuning(program, tuning), artifact.emitter)
    files = {**artifact.files, **chosen.files, RECORD: format_tuning(tuning)}
    return evolve(artifact, files=files)
