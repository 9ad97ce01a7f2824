"""One model of a sweep, in one process: eager, plain Inductor, wrapperir."""

import contextlib
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from unittest import mock

import torch
from attrs import frozen
from torch._inductor.utils import fresh_cache

from bench.model_run import ModelTask, max_error, run_exactly, run_step
from bench.results import Record, Variant
from bench.sweep.compiled import CountingBackend, compile_fresh, diagnostic_code, first_line
from bench.sweep.kernel_origins import count_dumped
from bench.sweep.model_zoo import ZOO

TOLERANCE = 1e-4

Tensors = Mapping[str, torch.Tensor]


@frozen
class Compiled:
    """The results of a compiled model and its error against eager, or the exception."""

    error: float
    graphs: int
    seconds: float
    tensors: Tensors
    failure: Exception | None = None


@frozen
class Prepared:
    """A model of a task as it is before each run, its inputs, and eager's results."""

    model: torch.nn.Module
    inputs: Tensors
    training: bool
    start: Tensors
    expected: Tensors

    @classmethod
    def of(cls, task: ModelTask, device: str = "cpu") -> "Prepared":
        """Make the model and its inputs from a fixed seed, and run it in eager mode."""
        torch.manual_seed(0)
        model = task.model().to(device).train(task.training)
        inputs = {name: value.to(device) for name, value in task.inputs().items()}
        start = {key: value.clone() for key, value in model.state_dict().items()}
        expected = run_step(model, model, inputs, training=task.training)
        return cls(model, inputs, task.training, start, expected)

    def run(self, call: Callable[..., object]) -> Tensors:
        """Run what was compiled from the model, with the weights of the start."""
        self.model.load_state_dict(self.start)
        return run_step(self.model, call, self.inputs, training=self.training)

    def exact(self) -> Tensors:
        """Return the results of the model in f64."""
        self.model.load_state_dict(self.start)
        return run_exactly(self.model, self.inputs, training=self.training)

    def compiled(self, backend: CountingBackend, runs: int = 1) -> Compiled:
        """Compile with empty caches, and return the first results.

        The error is the largest of as many ``runs``, the seconds are those of the first.
        """
        began = time.perf_counter()
        try:
            with fresh_cache():
                call = compile_fresh(self.model, backend)
                tensors = self.run(call)
                seconds = time.perf_counter() - began
                later = [self.run(call) for _ in range(runs - 1)]
        except Exception as failure:
            seconds = time.perf_counter() - began
            return Compiled(float("inf"), backend.graphs, seconds, {}, failure)
        error = max(max_error(self.expected, each) for each in (tensors, *later))
        return Compiled(error, backend.graphs, seconds, tensors)


def run_model(chosen: tuple[str, Variant]) -> Record:
    """Return how a task of ``ZOO`` fared, given its name and how to compile it."""
    name, variant = chosen
    warnings.simplefilter("ignore")
    prepared = Prepared.of(ZOO[name])
    with empty_user_cache(), tempfile.TemporaryDirectory() as folder:
        backends = (
            CountingBackend("inductor"),
            CountingBackend("wrapperir", {**variant.options, "dump_dir": folder}),
        )
        compile_something(backends, "cpu")
        for dumped in Path(folder).iterdir():  # torch.sin alone has no place in a source
            shutil.rmtree(dumped)
        inductor, wrapperir = map(prepared.compiled, backends)
        origins = count_dumped(Path(folder))
    record: dict[str, str | int | float | bool | None] = {
        "name": name,
        "graphs": wrapperir.graphs,
        "inductor_error": inductor.error,
        "inductor_seconds": round(inductor.seconds, 1),
        "error": wrapperir.error,
        "seconds": round(wrapperir.seconds, 1),
        "calls": origins.calls,
        "unnamed": origins.unnamed,
        "placeless": origins.placeless,
    }
    if inductor.failure is not None or inductor.error > TOLERANCE:
        detail = None if inductor.failure is None else first_line(inductor.failure)
        return record | {"status": "inductor_fails", "detail": detail}
    if wrapperir.failure is not None:
        return record | describe_failure(wrapperir.failure)
    return record | {"status": "pass" if wrapperir.error <= TOLERANCE else "wrong"}


def describe_failure(failure: Exception) -> dict[str, str | int | float | bool | None]:
    """Return what a record says of an exception."""
    code = diagnostic_code(failure)
    return {
        "status": "error" if code is None else "diagnostic",
        "code": code,
        "detail": first_line(failure),
    }


def compile_something(backends: Sequence[CountingBackend], device: str) -> None:
    """Compile a small function, so that no model pays for what only the first costs."""
    with fresh_cache():
        for backend in backends:
            compile_fresh(torch.sin, backend)(torch.ones(8, device=device))
            backend.graphs = 0


@contextlib.contextmanager
def empty_user_cache() -> Iterator[None]:
    """Empty the user's cache, in which emitters keep what they build."""
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, XDG_CACHE_HOME=folder),
    ):
        yield
