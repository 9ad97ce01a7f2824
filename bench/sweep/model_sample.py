"""One model of the sweep, in one process: eager, plain Inductor, wrapperir."""

import contextlib
import os
import tempfile
import time
import warnings
from collections.abc import Iterator
from unittest import mock

import torch
from attrs import frozen
from torch._inductor.utils import fresh_cache

from bench.model_run import ModelTask, max_error, run_step
from bench.results import Record, Variant
from bench.sweep.compiled import CountingBackend, compile_fresh, diagnostic_code, first_line
from bench.sweep.model_zoo import ZOO

TOLERANCE = 1e-4


@frozen
class _Compiled:
    """The result of a compiled model: its error against eager, or the exception."""

    error: float
    graphs: int
    seconds: float
    failure: Exception | None = None


def run_model(chosen: tuple[str, Variant]) -> Record:
    """Return how a task of ``ZOO`` fared, given its name and how to compile it."""
    name, variant = chosen
    warnings.simplefilter("ignore")
    task = ZOO[name]
    torch.manual_seed(0)
    model = task.model().train(task.training)
    inputs = task.inputs()
    start = {key: value.clone() for key, value in model.state_dict().items()}
    expected = run_step(model, model, inputs, training=task.training)
    backends = (
        CountingBackend("inductor"),
        CountingBackend("wrapperir", variant.options),
    )
    with _empty_user_cache():
        with fresh_cache():  # what only a first compilation costs is no one's
            for backend in backends:
                compile_fresh(torch.sin, backend)(torch.ones(8))
                backend.graphs = 0
        inductor, wrapperir = (
            _compiled(task, model, start, inputs, expected, backend) for backend in backends
        )
    record: dict[str, str | int | float | bool | None] = {
        "name": name,
        "graphs": wrapperir.graphs,
        "inductor_error": inductor.error,
        "inductor_seconds": round(inductor.seconds, 1),
        "error": wrapperir.error,
        "seconds": round(wrapperir.seconds, 1),
    }
    if inductor.failure is not None or inductor.error > TOLERANCE:
        detail = None if inductor.failure is None else first_line(inductor.failure)
        return record | {"status": "inductor_fails", "detail": detail}
    if wrapperir.failure is not None:
        code = diagnostic_code(wrapperir.failure)
        return record | {
            "status": "error" if code is None else "diagnostic",
            "code": code,
            "detail": first_line(wrapperir.failure),
        }
    return record | {"status": "pass" if wrapperir.error <= TOLERANCE else "wrong"}


@contextlib.contextmanager
def _empty_user_cache() -> Iterator[None]:
    """Empty the user's cache, in which emitters keep what they build."""
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, XDG_CACHE_HOME=folder),
    ):
        yield


def _compiled(
    task: ModelTask,
    model: torch.nn.Module,
    start: dict[str, torch.Tensor],
    inputs: dict[str, torch.Tensor],
    expected: dict[str, torch.Tensor],
    backend: CountingBackend,
) -> _Compiled:
    model.load_state_dict(start)
    began = time.perf_counter()
    try:
        with fresh_cache():
            actual = run_step(
                model, compile_fresh(model, backend), inputs, training=task.training
            )
    except Exception as failure:
        seconds = time.perf_counter() - began
        return _Compiled(float("inf"), backend.graphs, seconds, failure)
    seconds = time.perf_counter() - began
    return _Compiled(max_error(expected, actual), backend.graphs, seconds)
