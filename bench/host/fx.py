"""Host time of the FX emitter's graphs beside those of Inductor's FX backend.

All run the same operators on 8×8 matrices with one thread, so that only the host program
differs: the compiled callable, without Dynamo and AOTAutograd.  They take turns in one
process.  Inductor's FX backend has no C++ kernels, so the chains call operators only.

    M     200 matrix products
    M/10  20 matrix products
    A     200 times addmm
    B     100 times a batched matrix product and a matrix product of views of it

Ours are made as ``torch.compile`` makes them: with its memory passes, and without checks of
inputs, since its guards check them.  The wrappers that
Inductor and we write in Python run beside them, for comparison.

    python -m bench.host.fx [rounds]
"""

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import torch
from torch._inductor import config

from bench.host.chains import Chain, example_inputs, mms
from bench.host.python import inductor_callable, lower
from bench.machine import describe_machine
from wrapperir.emit import compile_program
from wrapperir.emit.pipeline import find_emitter
from wrapperir.passes import MEMORY_PASSES

Call: TypeAlias = Callable[[list[torch.Tensor]], Any]

CALLS = 10
"""Calls timed together: one clock reading costs as much as a line."""
THEIRS = "Inductor, FX backend"


def addmms(count: int) -> Chain:
    """A: matrix products to each of which a matrix is added."""

    def chain(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        for _ in range(count):
            x = torch.addmm(b, x, w)
        return x

    return chain


def batched(count: int) -> Chain:
    """B: batched matrix products, seen as matrices in between."""

    def chain(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        for _ in range(count):
            halves = torch.bmm(x.view(2, 4, 8), w.expand(2, 8, 8))
            x = torch.mm(halves.view(8, 8), w)
        return x

    return chain


PROGRAMS: dict[str, tuple[Chain, int]] = {
    "M": (mms(200), 200),
    "M/10": (mms(20), 20),
    "A": (addmms(200), 200),
    "B": (batched(100), 200),
}
"""Each chain, and the operators in it."""


def make(function: Chain) -> dict[str, Call]:
    """Return the callables that take turns."""
    with config.patch(fx_wrapper=True):
        theirs = inductor_callable(function)
    lowered = lower(function)

    def ours(emitter: str) -> Call:
        made = compile_program(
            lowered.program,
            emitter=find_emitter(emitter).trusting_inputs(),
            passes=MEMORY_PASSES,
            constants=lowered.constants,
        )
        return cast(Call, made)

    return {
        THEIRS: theirs,
        "wrapperir, FX emitter": ours("fx"),
        "Inductor, Python wrapper": inductor_callable(function),
        "wrapperir, Python emitter": ours("python"),
    }


def microseconds(call: Call, given: Sequence[torch.Tensor]) -> float:
    """Return the time of one call."""
    start = time.perf_counter()
    for _ in range(CALLS):
        call(list(given))
    return (time.perf_counter() - start) / CALLS * 1e6


def only(outputs: Any) -> torch.Tensor:
    """Return the output of a chain, which Inductor's FX backend returns without a tuple."""
    found = outputs if isinstance(outputs, torch.Tensor) else outputs[0]
    assert isinstance(found, torch.Tensor)
    return found


def compare(name: str, function: Chain, operators: int, rounds: int) -> None:
    """Print the times of one program."""
    given = example_inputs(function)
    calls = make(function)
    expected = only(calls[THEIRS](list(given)))
    for kind, call in calls.items():
        assert torch.equal(only(call(list(given))), expected), (name, kind)
    times: dict[str, list[float]] = {kind: [] for kind in calls}
    for number in range(rounds):
        for kind in list(calls) if number % 2 else list(calls)[::-1]:
            times[kind].append(microseconds(calls[kind], given))
    print(f"\n{name}  {operators} operators")
    base = times[THEIRS]
    for kind, taken in times.items():
        least, middle = min(taken), statistics.median(taken)
        ratios = least / min(base), middle / statistics.median(base)
        each = least / operators * 1000
        print(
            f"  {kind:26} {least:8.1f} us {ratios[0]:6.3f} {middle:9.1f} us"
            f" {ratios[1]:6.3f} {each:8.0f} ns an operator"
        )


def main() -> None:
    """Print all times and their ratios to those of Inductor's FX backend."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    torch.set_num_threads(1)
    print(describe_machine())
    print(f"\n{'':28} {'least':>11} {'ratio':>6} {'median':>12} {'ratio':>6}")
    with (
        torch.no_grad(),
        config.patch(fx_graph_cache=False),
        torch._functorch.config.patch(enable_autograd_cache=False),
    ):
        for name, (function, operators) in PROGRAMS.items():
            compare(name, function, operators, rounds)


if __name__ == "__main__":
    main()
