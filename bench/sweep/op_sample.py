"""One sample of one operator of PyTorch's OpInfo database: eager, wrapperir, Inductor."""

import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path

import torch
from attrs import field, frozen
from torch._dynamo import config as dynamo_config
from torch._functorch import config as functorch_config
from torch._inductor import config as inductor_config
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils import _pytree as pytree

from bench.results import DEFAULT_FRONTEND, Record, Variant
from bench.sweep.compiled import CountingBackend, compile_fresh, diagnostic_code, first_line
from bench.sweep.kernel_origins import OriginCount, count_origins
from bench.sweep.op_groups import group_of
from wrapperir.emit import Artifact, Emitter, Loaded
from wrapperir.ir import ExternKernelLine, Program
from wrapperir.plugin import plugin_manager

RTOL, ATOL = 1e-4, 1e-4
SEED = 0


@frozen
class OpTask:
    """The operator to try, the folder of compiled C++ kernels, and how to compile."""

    name: str
    kernels: Path
    variant: Variant = field(factory=Variant)


class CountingEmitter(Emitter):
    """Emits with another emitter; ``programs`` gets what it is given."""

    def __init__(self, name: str, programs: list[Program]) -> None:
        """Keep what the emitter of that name is given."""
        self._inner = plugin_manager().emitter(name)
        self.name, self.support, self._programs = name, self._inner.support, programs

    def emit(self, program: Program) -> Artifact:
        """Emit with the inner emitter."""
        self._programs.append(program)
        return self._inner.emit(program)

    def load(self, artifact: Artifact, constants: Mapping[str, torch.Tensor]) -> Loaded:
        """Load with the inner emitter."""
        return self._inner.load(artifact, constants)


@frozen
class _Outcome:
    """The result of a run: outputs and inputs after it, or its exception."""

    values: list[object] | None
    error: Exception | None
    graphs: int
    seconds: float


def sample_names() -> list[str]:
    """Return the name of every entry of the database."""
    return list(_operators())


def _call(
    function: Callable[..., object], *arguments: object, **keywords: object
) -> object:
    return function(*arguments, **keywords)


@cache
def _operators() -> dict[str, OpInfo]:
    from torch.testing._internal import common_methods_invocations

    # it seeds inside the function, where Dynamo would stop; the runs are seeded outside
    common_methods_invocations.wrapper_set_seed = _call  # type: ignore[attr-defined, assignment]
    return {op.formatted_name: op for op in common_methods_invocations.op_db}


def _dtype(op: OpInfo) -> torch.dtype | None:
    supported = op.supported_dtypes("cpu")  # type: ignore[no-untyped-call]
    for dtype in (torch.float32, torch.float64, torch.int64, torch.bool):
        if dtype in supported:
            return dtype
    return min(supported, key=str, default=None)


def _outcome(
    function: Callable[..., object], sample: tuple[object, ...], graphs: Callable[[], int]
) -> _Outcome:
    inputs = pytree.tree_map_only(torch.Tensor, lambda t: t.detach().clone(), sample)
    torch.manual_seed(SEED)
    start = time.perf_counter()
    try:
        result = function(*inputs)
    except Exception as error:
        return _Outcome(None, error, graphs(), time.perf_counter() - start)
    seconds = time.perf_counter() - start
    return _Outcome(pytree.tree_leaves((result, inputs)), None, graphs(), seconds)


def _difference(name: str, expected: list[object], actual: list[object]) -> str | None:
    """Return the difference of ``actual``; of uninitialised memory only in its shape."""
    if len(expected) != len(actual):
        return f"{len(actual)} values for {len(expected)}"
    for left, right in zip(expected, actual, strict=True):
        if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
            if "empty" in name:
                left, right = torch.zeros_like(left), torch.zeros_like(right)
            if left.dtype == right.dtype and left.is_floating_point():
                left, right = left.double(), right.double()  # not all f8 compare
            try:
                torch.testing.assert_close(
                    right, left, rtol=RTOL, atol=ATOL, equal_nan=True
                )
            except AssertionError as error:
                return " ".join(str(error).split())[:160]
        elif type(left) is not type(right) or (left != right and left == left):
            return f"{right!r} for {left!r}"[:160]
    return None


@frozen(eq=False)
class _Sample:
    """A sample of an operator, and what eager makes of it."""

    call: Callable[..., object]
    given: tuple[object, ...]
    dtype: torch.dtype
    eager: _Outcome


@contextmanager
def _compiling_anew() -> Iterator[None]:
    """Have each backend compile anew, but for C++ kernels; random numbers are eager's."""
    with (
        inductor_config.patch(fx_graph_cache=False, fallback_random=True),
        functorch_config.patch(enable_autograd_cache=False),
        dynamo_config.patch(
            capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True
        ),
        torch.no_grad(),
    ):
        yield


@lru_cache(maxsize=1)  # of several emitters for an operator, the first runs it
def _sample(name: str) -> _Sample | None:
    """Return the first sample of an operator, if there is one."""
    op = _operators()[name]
    dtype = _dtype(op)
    if dtype is None:
        return None
    samples = op.sample_inputs("cpu", dtype)  # type: ignore[no-untyped-call]
    sample = next(iter(samples), None)
    if sample is None:
        return None

    def call(
        input: object, args: tuple[object, ...], keywords: dict[str, object]
    ) -> object:
        return op.op(input, *args, **keywords)

    given = (sample.input, sample.args, sample.kwargs)
    with _compiling_anew():
        eager = _outcome(call, given, lambda: 0)
    return _Sample(call, given, dtype, eager)


@lru_cache(maxsize=1)
def _inductor(sample: _Sample) -> _Outcome:
    return _compiled(sample.call, sample.given, "inductor")


def run_op(task: OpTask) -> Record:
    """Return how the operator fared; ``status`` is one of ``STATUSES``.

    Inductor runs where the compiled operator differs from eager.
    """
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(task.kernels)
    sample = _sample(task.name)
    if sample is None:
        return {"name": task.name, "status": "no_sample"}
    if sample.eager.values is None:
        return {"name": task.name, "status": "eager_fails"}
    programs: list[Program] = []
    emitter = CountingEmitter(task.variant.emitter, programs)
    options: dict[str, object] = {**task.variant.options, "emitter": emitter}
    with _compiling_anew():
        wrapperir = _compiled(sample.call, sample.given, "wrapperir", options)
    origins = sum(map(count_origins, programs), OriginCount())
    called: dict[str, None] = {}
    if task.variant.frontend != DEFAULT_FRONTEND:
        lines = [line for program in programs for line in program.lines]
        calls = [line for line in lines if isinstance(line, ExternKernelLine)]
        called = dict.fromkeys(line.operator for line in calls)
    return {
        "name": task.name,
        "group": group_of(_operators()[task.name]),
        "dtype": str(sample.dtype).removeprefix("torch."),
        "seconds": round(wrapperir.seconds, 2),
        "calls": ", ".join(called),
        "launched": origins.calls,
        "unnamed": origins.unnamed,
        "placeless": origins.placeless,
        **_classify(task.name, sample, wrapperir),
    }


def _compiled(
    call: Callable[..., object],
    given: tuple[object, ...],
    name: str,
    options: Mapping[str, object] | None = None,
) -> _Outcome:
    backend = CountingBackend(name, options)
    return _outcome(compile_fresh(call, backend), given, lambda: backend.graphs)


STATUSES = {
    "pass": "equal to eager within tolerance",
    "wrong": "wrong result: plain Inductor's is right",
    "diagnostic": "refused with a coded diagnostic",
    "error": "failed with another exception",
    "timeout": "took longer than the limit",
    "crash": "the process died",
    "inductor_fails": "plain Inductor fails or differs from eager too",
    "eager_fails": "eager itself refuses the sample",
    "not_captured": "Dynamo gave the backend no graph",
    "no_sample": "the database has no sample for the CPU",
}
"""Every status and what it means, those that count as failures among them."""


def _classify(name: str, sample: _Sample, wrapperir: _Outcome) -> dict[str, str | None]:
    """Return the status, with what is wrong; Inductor is tried if anything is."""
    assert sample.eager.values is not None
    failure = _failure(name, sample.eager.values, wrapperir)
    if failure is None:
        return {"status": "pass" if wrapperir.graphs else "not_captured"}
    with _compiling_anew():
        inductor = _inductor(sample)
    theirs = _failure(name, sample.eager.values, inductor)
    if theirs is not None:
        return {"status": "inductor_fails", "detail": theirs["detail"]}
    return failure if inductor.graphs else {"status": "not_captured"}


def _failure(
    name: str, expected: list[object], outcome: _Outcome
) -> dict[str, str | None] | None:
    if outcome.values is not None:
        difference = _difference(name, expected, outcome.values)
        return None if difference is None else {"status": "wrong", "detail": difference}
    assert outcome.error is not None
    code = diagnostic_code(outcome.error)
    status = "error" if code is None else "diagnostic"
    return {"status": status, "code": code, "detail": first_line(outcome.error)}
