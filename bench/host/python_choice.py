"""Cost of a call of a multi-kernel whose choice is known, beside Inductor's.

All contenders call the same kernel, a function that does nothing, with the same three
matrices and three sizes, in one process and by turns.  The cost of deciding is the time of
a call less that of a direct call of the kernel, made in the same way.

    direct         emitted Python that calls the kernel, as for ``first`` and ``forced``
    recorded       emitted Python of ``select recorded``
    benchmark      emitted Python of ``select benchmark``, after the first call
    nearest_shape  emitted Python of ``select nearest_shape``, for a shape that it knows
    computed       emitted Python of ``select computed``, a tree of three conditions
    Inductor       ``SizeHintMultiKernelCall.run``, for a shape that it knows

    python -m bench.host.python_choice [rounds]
"""

import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from itertools import repeat
from typing import Any

import torch

from bench.machine import describe_machine
from wrapperir.ir import Program
from wrapperir.text import parse_program
from wrapperir.tuning.choice_cache import fresh_choice_cache
from wrapperir_python.emitter import PythonEmitter

CALLS = 200
"""Kernel calls of one program."""

GOAL = 350.0
"""Nanoseconds that deciding may cost at most."""

ROWS, INNER, COLUMNS = 96, 64, 32
SELECTIONS = {
    "direct": "forced(1)",
    "recorded": "recorded(1) microseconds(2, 1)",
    "benchmark": "benchmark",
    "nearest_shape": "nearest_shape(0: (4096, 4096, 4096), 1: (64, 64, 64))",
    "computed": "computed(where(M * N <= 65536, where(K < 512, 1, 0), where(M < N, 0, 1)))",
}


def nothing(a: object, b: object, c: object, m: int, n: int, k: int) -> None:
    """Stand in for a kernel."""


class Stubs:
    """Stands in for Inductor's ``AsyncCompile``, so that nothing is built."""

    def cpp_pybinding(self, types: list[str], source: str) -> Callable[..., None]:
        return nothing

    def wait(self, scope: Mapping[str, object]) -> None:
        pass


def program_with(select: str) -> Program:
    """Return a program of many calls of a product, whose sizes are its inputs'."""
    parameters = "a: read f32*, b: read f32*, c: write f32*, m: i64, n: i64, k: i64"
    kernels = "".join(
        f"kernel_definition @{name} cpp({parameters}) {{\n  entry = kernel\n"
        f"  source {{\n    | {name}\n  }}\n}}\n"
        for name in ("small", "large")
    )
    body = "  kernel_call @mm(%a, %b, %c, s0, s2, s1)\n" * CALLS
    return parse_program(f"""\
wrapperir 1

{kernels}
multi_kernel @mm({parameters}) {{
  size M = size(a, 0)
  size K = size(a, 1)
  size N = size(b, 1)
  choice @large(0, 1, 2, 3, 4, 5)
  choice @small(0, 1, 2, 3, 4, 5)
  select {select}
}}

program @main(%a: f32[s0, s1], %b: f32[s1, s2], %c: mutated f32[s0, s2]) {{
  symbol s0: int 1.. = size(%a, 0)
  symbol s1: int 1.. = size(%a, 1)
  symbol s2: int 1.. = size(%b, 1)
{body}  return
}}
""")


def matrices() -> list[Any]:
    return [
        torch.empty(ROWS, INNER),
        torch.empty(INNER, COLUMNS),
        torch.empty(ROWS, COLUMNS),
    ]


def emitted(select: str) -> Callable[[], object]:
    """Return a function that runs the emitted program once; it has decided."""
    import torch._inductor.async_compile as builder

    real = builder.AsyncCompile
    builder.AsyncCompile = Stubs  # type: ignore[assignment,misc]
    try:
        emitter = PythonEmitter(trusts_inputs=True)
        call = emitter.load(emitter.emit(program_with(select)), {})
    finally:
        builder.AsyncCompile = real  # type: ignore[misc]
    given = matrices()
    call(list(given))
    return lambda: call(list(given))


def inductors() -> tuple[Callable[[], object], Callable[[], object]]:
    """Return functions that call Inductor's multi-kernel, and its kernel directly."""
    os.environ["TORCHINDUCTOR_DISABLE_MULTI_KERNEL_CACHE"] = "1"
    from torch._inductor.codegen.multi_kernel import SizeHintMultiKernelCall

    class Kernel:
        inductor_meta = {"kernel_name": "mm"}  # noqa: RUF012
        run = staticmethod(nothing)

    hints = [((size, size),) * 3 for size in (4096, 64)]
    kernels = {hint: Kernel() for hint in hints}
    every = [slice(0, 6)]
    multi: Any = SizeHintMultiKernelCall("mm", kernels, {0: every, 1: every})  # type: ignore[no-untyped-call]
    a, b, c = matrices()

    def decided() -> None:
        for _ in repeat(None, CALLS):
            multi.run(a, b, c, ROWS, COLUMNS, INNER)

    direct = Kernel()

    def undecided() -> None:
        for _ in repeat(None, CALLS):
            direct.run(a, b, c, ROWS, COLUMNS, INNER)

    return decided, undecided


def nanoseconds(run: Callable[[], object]) -> float:
    """Return the time of one kernel call, of a program of many."""
    begin = time.perf_counter_ns()
    run()
    return (time.perf_counter_ns() - begin) / CALLS


def measure(rounds: int) -> dict[str, list[float]]:
    """Return the nanoseconds of a call of each contender, one a round."""
    contenders = {name: emitted(select) for name, select in SELECTIONS.items()}
    contenders["Inductor"], contenders["its kernel"] = inductors()
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for run in contenders.values():
        run()
    for number in range(rounds):
        turn = list(contenders) if number % 2 else list(contenders)[::-1]
        for name in turn:
            times[name].append(nanoseconds(contenders[name]))
    return times


def main() -> None:
    """Print the cost of deciding."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    torch.set_num_threads(1)
    with torch.no_grad(), fresh_choice_cache():
        times = measure(rounds)
    print(f"{describe_machine()}; {rounds} rounds of {CALLS} calls, ns a call\n")
    print(
        "| select | call, least | call, median | deciding, least | median | of Inductor's |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    least = {name: min(values) for name, values in times.items()}
    middle = {name: statistics.median(values) for name, values in times.items()}
    of_inductor = least["Inductor"] - least["its kernel"]
    worst = 0.0
    for name in (*SELECTIONS, "Inductor"):
        direct = "its kernel" if name == "Inductor" else "direct"
        added = [max(t[name] - t[direct], 0.0) for t in (least, middle)]
        print(
            f"| {name} | {least[name]:.0f} | {middle[name]:.0f} | {added[0]:.0f} |"
            f" {added[1]:.0f} | {added[0] / of_inductor:.3f} |"
        )
        if name != "Inductor":
            worst = max(worst, *added)
    told = "within" if worst <= GOAL else "beyond"
    print(f"\nDeciding costs {worst:.0f} ns at most, {told} the goal of {GOAL:.0f} ns.")


if __name__ == "__main__":
    main()
