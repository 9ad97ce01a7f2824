"""Host time of emitted Python beside plain Inductor's Python wrapper.

Both run the same kernels on 8×8 tensors with one thread, so that what differs is the host
program alone: the inner callable, without Dynamo and AOTAutograd.  The two take turns in
one process; the smallest time of each is compared.

    X  100 × (extern mm, then a fused add and relu)
    M  200 extern mms
    P  200 fused pointwise kernels, kept apart

    python -m bench.host_time [rounds]
"""

import contextlib
import inspect
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, cast
from unittest import mock

import torch
from torch._inductor import config
from torch._inductor.codegen.cpp import CppScheduling
from torch._inductor.compile_fx import compile_fx, compile_fx_inner

from wrapperir.emit import compile_program
from wrapperir.frontend.inductor import capture

Tensors: TypeAlias = Sequence[torch.Tensor]
Inner: TypeAlias = Callable[[list[torch.Tensor]], Any]

SHAPE = (8, 8)
CALLS = 20
"""Calls timed together: one clock reading costs as much as a line."""


def mm_add_relu(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """X: a matrix product, then a fused pointwise kernel, 100 times."""
    for _ in range(100):
        x = torch.relu(torch.mm(x, w) + b)
    return x


def mms(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """M: 200 matrix products."""
    for _ in range(200):
        x = torch.mm(x, w)
    return x


def pointwise(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """P: 200 pointwise kernels: an add, 198 of relu and add, a relu."""
    for _ in range(199):
        x = torch.relu(x + b)
    return x


PROGRAMS: dict[str, Callable[..., torch.Tensor]] = {
    "X": mm_add_relu,
    "M": mms,
    "P": pointwise,
}


def example_inputs(function: Callable[..., torch.Tensor]) -> list[torch.Tensor]:
    """Return matrices whose products stay small, one for each parameter."""
    torch.manual_seed(0)
    count = len(inspect.signature(function).parameters)
    return [torch.rand(SHAPE) / 4 for _ in range(count)]


def inductor_callable(function: Callable[..., torch.Tensor]) -> Inner:
    """Return the callable of Inductor's own wrapper module."""
    found: list[Inner] = []

    def inner(graph: torch.fx.GraphModule, inputs: Any, **keywords: Any) -> Any:
        compiled = compile_fx_inner(graph, inputs, **keywords)
        found.append(cast(Any, compiled).current_callable)
        return compiled

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        return compile_fx(graph, inputs, inner_compile=inner)

    torch._dynamo.reset()
    torch.compile(function, backend=backend)(*example_inputs(function))
    (only,) = found
    return only


def our_callable(function: Callable[..., torch.Tensor]) -> Inner:
    """Return the callable of the module that the Python emitter writes."""
    torch._dynamo.reset()
    (lowered,) = capture(function, example_inputs(function))
    loaded = compile_program(lowered.program, constants=lowered.constants)
    return cast(Inner, loaded)


@contextlib.contextmanager
def kept_apart() -> Iterator[None]:
    """Have Inductor write one kernel for each pointwise operator."""
    with (
        config.patch(
            max_fusion_size=1, realize_opcount_threshold=0, realize_reads_threshold=0
        ),
        mock.patch.object(CppScheduling, "MAX_FUSED_KERNEL_ARGS_NUM", 0),
    ):
        yield


def microseconds(call: Inner, given: Tensors) -> float:
    """Return the time of one call."""
    start = time.perf_counter()
    for _ in range(CALLS):
        call(list(given))
    return (time.perf_counter() - start) / CALLS * 1e6


def main() -> None:
    """Print both times and their ratio for each program."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    torch.set_num_threads(1)
    print(f"{'':2} {'Inductor':>10} {'wrapperir':>10} {'ratio':>7} {'median':>7}")
    with (
        torch.no_grad(),
        config.patch(fx_graph_cache=False),
        torch._functorch.config.patch(enable_autograd_cache=False),
    ):
        for name, function in PROGRAMS.items():
            with kept_apart() if name == "P" else contextlib.nullcontext():
                theirs, ours = inductor_callable(function), our_callable(function)
            given = example_inputs(function)
            (expected,), (actual,) = theirs(list(given)), ours(list(given))
            assert torch.equal(expected, actual), name
            times: dict[Inner, list[float]] = {theirs: [], ours: []}
            for number in range(rounds):
                turn = (theirs, ours) if number % 2 else (ours, theirs)
                for call in turn:
                    times[call].append(microseconds(call, given))
            best = min(times[theirs]), min(times[ours])
            middle = statistics.median(times[ours]) / statistics.median(times[theirs])
            print(
                f"{name:2} {best[0]:7.1f} us {best[1]:7.1f} us"
                f" {best[1] / best[0]:7.3f} {middle:7.3f}"
            )


if __name__ == "__main__":
    main()
