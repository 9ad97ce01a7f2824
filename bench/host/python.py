"""Host time of emitted Python beside plain Inductor's Python wrapper.

All run the same kernels on 8×8 tensors with one thread, so that only the host program
differs: the compiled callable, without Dynamo and AOTAutograd.  They take turns in one
process; the smallest time of each is compared.

    X  100 × (extern mm, then a fused add and relu)
    M  200 extern mms
    P  200 fused pointwise kernels, kept apart

Inductor's wrapper is made as it is by default, and with pools of its own
(``config.memory_planning``); ours with the memory passes that ``torch.compile`` runs, and
with every buffer in a pool, outputs too.  A second table says what the statements of the
latter cost, each measured alone.

    python -m bench.host.python [rounds]
"""

import contextlib
import re
import statistics
import sys
import time
import timeit
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, cast

import torch
from attrs import frozen
from torch._inductor import config
from torch._inductor.compile_fx import compile_fx, compile_fx_inner

from bench.host.chains import (
    SHAPE,
    Chain,
    example_inputs,
    kept_apart,
    mm_add_relu,
    mms,
    pointwise,
)
from wrapperir.emit import compile_program
from wrapperir.frontend import Lowered
from wrapperir.frontend.inductor import capture
from wrapperir.passes import MEMORY_PASSES
from wrapperir.passes.plan_memory import Planned, plan_pools
from wrapperir_python.emitter import PythonEmitter

Tensors: TypeAlias = Sequence[torch.Tensor]
Inner: TypeAlias = Callable[[list[torch.Tensor]], Any]

BINDINGS = {
    "mm_out": "torch.mm(a, b, out=c)",
    "addmm_out": "torch.addmm(x, a, b, beta=1, alpha=1, out=c)",
}
"""What Inductor's wrapper calls for the operators that we call directly."""
CALLS = 20
"""Calls timed together: one clock reading costs as much as a line."""


PROGRAMS: dict[str, Chain] = {"X": mm_add_relu(100), "M": mms(200), "P": pointwise(200)}


def inductor_callable(function: Chain) -> Inner:
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


def lower(function: Chain) -> Lowered:
    """Return the program of Inductor's wrapper."""
    torch._dynamo.reset()
    (lowered,) = capture(function, example_inputs(function))
    return lowered


def microseconds(call: Inner, given: Tensors) -> float:
    """Return the time of one call."""
    start = time.perf_counter()
    for _ in range(CALLS):
        call(list(given))
    return (time.perf_counter() - start) / CALLS * 1e6


@frozen
class Contenders:
    """The callables that take turns, and the text of the last one's module."""

    calls: dict[str, Inner]
    text: str


def make(function: Chain) -> Contenders:
    """Return Inductor's wrappers and ours."""
    theirs = inductor_callable(function)
    with config.patch(memory_planning=True):
        with_pools = inductor_callable(function)
    lowered = lower(function)
    planned = plan_pools(lowered.program, Planned.BOTH).program
    constants = lowered.constants
    # As under torch.compile, whose guards check the inputs: Inductor's wrapper checks none.
    emitter = PythonEmitter(trusts_inputs=True)
    ours = compile_program(
        lowered.program, emitter=emitter, passes=MEMORY_PASSES, constants=constants
    )
    pooled = compile_program(planned, emitter=emitter, constants=constants)
    calls: dict[str, Inner] = {
        "Inductor": theirs,
        "its pools": with_pools,
        "wrapperir": cast(Inner, ours),
        "pools": cast(Inner, pooled),
    }
    return Contenders(calls, str(emitter.emit(planned).files["program.py"]))


def pieces(contenders: Contenders) -> Iterator[tuple[str, int, float]]:
    """Yield each kind of statement of our pooled call, its count and nanoseconds.

    A statement is timed alone, with 8×8 tensors for all its variables, and without the
    loop that repeats it.
    """
    body = contenders.text.split("def call(args):")[1]
    counts: Counter[str] = Counter()
    first: dict[str, str] = {}
    for line in body.splitlines():
        found = re.match(r"    (?:\w+ = )?(\w+)\(", line)
        if found:
            kind = "C++ kernel" if found[1].startswith("cpp_") else found[1]
            counts[kind] += 1
            first.setdefault(kind, line.strip())
    known = cast(Any, contenders.calls["pools"]).__globals__
    for kind, count in counts.items():
        names = {
            name: torch.rand(SHAPE) / 4
            for name in re.findall(r"[A-Za-z_]\w*", first[kind])
            if name not in known
        }
        setup = "\n".join(f"{name} = given[{name!r}]" for name in names)
        yield kind, count, cost(first[kind], setup, {**known, "given": names})


def pytorchs(kind: str) -> float:
    """Return the nanoseconds of PyTorch's own binding of an operator."""
    given = {name: torch.rand(SHAPE) / 4 for name in "xabc"}
    setup = "; ".join(f"{name} = given[{name!r}]" for name in given)
    return cost(BINDINGS[kind], setup, {"torch": torch, "given": given})


def cost(statement: str, setup: str, known: dict[str, Any]) -> float:
    """Return the nanoseconds of a statement whose variables are local."""
    empty, timed = (
        min(timeit.Timer(text, setup, globals=known).repeat(200, 500))
        for text in ("pass", statement)
    )
    return (timed - empty) / 500 * 1e9


def compare(name: str, contenders: Contenders, given: Tensors, rounds: int) -> None:
    """Print the times of one program, and where the time of our call goes."""
    calls = contenders.calls
    expected = calls["Inductor"](list(given))[0]
    for kind, call in calls.items():
        assert torch.equal(call(list(given))[0], expected), (name, kind)
    times: dict[str, list[float]] = {kind: [] for kind in calls}
    for number in range(rounds):
        turn = list(calls) if number % 2 else list(calls)[::-1]
        for kind in turn:
            times[kind].append(microseconds(calls[kind], given))
    best = {kind: min(values) for kind, values in times.items()}
    middle = {kind: statistics.median(values) for kind, values in times.items()}
    for kind in calls:
        ratios = best[kind] / best["Inductor"], middle[kind] / middle["Inductor"]
        print(f"{name:2} {kind:10} {best[kind]:7.1f} us {ratios[0]:7.3f} {ratios[1]:7.3f}")
    total = 0.0
    for kind, count, cost in pieces(contenders):
        total += count * cost / 1000
        print(f"     {count:4} × {kind:20} {cost:7.0f} ns {count * cost / 1000:7.1f} us")
        if kind in BINDINGS:
            print(f"            {BINDINGS[kind].split('(')[0]:20} {pytorchs(kind):7.0f} ns")
    print(f"     {'the rest of a call':27} {'':10} {best['pools'] - total:7.1f} us")


def main() -> None:
    """Print all times, their ratios to Inductor's, and what the statements cost."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    torch.set_num_threads(1)
    print(f"{'':13} {'least':>10} {'ratio':>7} {'median':>7}")
    with (
        torch.no_grad(),
        config.patch(fx_graph_cache=False),
        torch._functorch.config.patch(enable_autograd_cache=False),
    ):
        for name, function in PROGRAMS.items():
            with kept_apart() if name == "P" else contextlib.nullcontext():
                contenders = make(function)
            compare(name, contenders, example_inputs(function), rounds)


if __name__ == "__main__":
    main()
