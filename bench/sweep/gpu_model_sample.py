"""One model of the sweep on a GPU, in one process: every emitter beside plain Inductor."""

import warnings
from collections.abc import Mapping

import torch
from attrs import frozen

from bench.model_run import describe_excess
from bench.results import Record, Variant
from bench.sweep.compiled import CountingBackend, first_line
from bench.sweep.model_sample import (
    Compiled,
    Prepared,
    compile_something,
    describe_failure,
    empty_user_cache,
)
from bench.sweep.wide_zoo import WIDE_ZOO

CONTENDERS: Mapping[str, Variant] = {
    "python": Variant("python"),
    "cpp": Variant("cpp"),
    "fx": Variant("fx"),
    "lowering": Variant("python", "lowering"),
}
"""What each model is compiled with, by name."""
TRAINING_RUNS = 20
"""Runs of a training step of Inductor's; in training, kernels may add in any order."""


@frozen
class Sample:
    """A task of the zoo, the contenders that it is run with, and the device."""

    task: str
    contenders: tuple[str, ...]
    device: str


def record_name(task: str, contender: str) -> str:
    """Return the name of the record of a task and a contender."""
    return f"{task}/{contender}"


def run_sample(sample: Sample) -> list[Record]:
    """Return how a model fared, a record for each contender."""
    warnings.simplefilter("ignore")
    torch.backends.cuda.matmul.allow_tf32 = False
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        return _records(sample)


def _records(sample: Sample) -> list[Record]:
    try:
        prepared = Prepared.of(WIDE_ZOO[sample.task], sample.device)
    except Exception as failure:
        record = {"status": "eager_fails", "detail": first_line(failure)}
        return [{"name": record_name(sample.task, c)} | record for c in sample.contenders]
    compile_something([CountingBackend("inductor")], sample.device)
    runs = TRAINING_RUNS if prepared.training else 1
    inductor = prepared.compiled(CountingBackend("inductor"), runs)
    return [_record(sample, each, prepared, inductor) for each in sample.contenders]


def _record(
    sample: Sample, contender: str, prepared: Prepared, inductor: Compiled
) -> Record:
    backend = CountingBackend("wrapperir", CONTENDERS[contender].options)
    with empty_user_cache():
        try:
            compile_something([backend], sample.device)
        except Exception:
            backend.graphs = 0  # the model fails likewise, and its record says how
        ours = prepared.compiled(backend)
    record: dict[str, str | int | float | bool | None] = {
        "name": record_name(sample.task, contender),
        "graphs": ours.graphs,
        "inductor_error": inductor.error,
        "inductor_seconds": round(inductor.seconds, 1),
        "error": ours.error,
        "seconds": round(ours.seconds, 1),
    }
    if inductor.failure is not None:
        return record | {"status": "inductor_fails", "detail": first_line(inductor.failure)}
    if ours.failure is not None:
        return record | describe_failure(ours.failure)
    try:
        excess = describe_excess(
            prepared.expected,
            ours.tensors,
            inductor.tensors,
            inductor.error,
            prepared.exact,
        )
    except Exception as failure:
        excess = (
            f"error {ours.error:.3g} exceeds plain Inductor's {inductor.error:.3g},"
            f" and the model does not run in f64: {first_line(failure)}"
        )
    return record | {"status": "pass" if excess is None else "wrong", "detail": excess}
