"""Artifacts whose kernels for GPUs are those that are fastest on the GPU that is here."""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from attrs import evolve

from wrapperir.emit import Artifact
from wrapperir.ir import BenchmarkChoice, KernelCallLine, MultiKernelLine, Program
from wrapperir.ir.blocks import walk_lines
from wrapperir.kernels import Target, present_targets
from wrapperir.text import parse_program
from wrapperir_cpp.artifact_files import TEXT
from wrapperir_cpp.layout import KERNELS
from wrapperir_cpp.triton_kernels import KERNEL_FACTS

if TYPE_CHECKING:
    from wrapperir.tuning.choice_cache import ChoiceCache

logger = logging.getLogger("wrapperir.choices")

_TIMED_WITH = "python"
"""The emitter to time with: what it makes of a call needs no compiler."""
_SAMPLES = 8
_SECONDS = 0.05
"""Building is to be quick: ``wrapperir tune`` takes its time."""


def tune_artifact(
    artifact: Artifact, targets: Sequence[Target], emit: Callable[[Program], Artifact]
) -> Artifact:
    """Return an artifact with its kernels for GPUs chosen, and the record of that.

    These are multi-kernels that are to be timed, and kernels with several configs.  The
    artifact is as it was where it has a record or nothing to choose, or no GPU of a target
    is here.  ``emit`` is the emitter's.

    Raises:
        DiagnosticError: its program cannot be read.
    """
    from wrapperir.tuning.record import RECORD

    if RECORD in artifact.files:
        return artifact
    if not any(path.endswith(KERNEL_FACTS) for path in artifact.files):
        return artifact
    if not {*present_targets()} & {*targets}:
        return artifact
    text = artifact.files[TEXT]
    program = parse_program(text if isinstance(text, str) else text.decode())
    names = open_choices(program)
    if not names:
        return artifact
    from wrapperir.tuning.record import format_record
    from wrapperir.tuning.tune import tune_program

    tuned = tune_program(
        program,
        emitter=_TIMED_WITH,
        cache=_cache(),
        kernels=names,
        samples=_SAMPLES,
        seconds=_SECONDS,
    )
    chosen = emit(tuned.program)
    kept = {
        path: content
        for path, content in artifact.files.items()
        if not path.startswith(KERNELS)
    }
    files = {**kept, **chosen.files, RECORD: format_record(tuned.report)}
    return evolve(artifact, files=files)


def _cache() -> "ChoiceCache | None":
    from wrapperir.caching import CacheRefusedError
    from wrapperir.tuning.choice_cache import default_cache

    try:
        return default_cache()
    except CacheRefusedError as error:
        logger.warning("choices are not kept for later: %s", error)
        return None


def open_choices(program: Program) -> frozenset[str]:
    """Return the multi-kernels called on GPUs that are to be timed, by name.

    Kernels with several configs are among them.
    """
    from wrapperir.passes import split_configs

    split = split_configs(program)
    called = {
        line.kernel
        for line in walk_lines(split.lines)
        if isinstance(line, KernelCallLine) and line.device.kind == "cuda"
    }
    return frozenset(
        line.name
        for line in split.definitions
        if isinstance(line, MultiKernelLine)
        and isinstance(line.selection, BenchmarkChoice)
        and line.name in called
    )
