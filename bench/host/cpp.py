"""Host time of the C++ emitter beside Inductor's wrappers and AOTInductor.

All run in one process and take turns, with one thread, on the chains of
``bench.host.chains`` and each at a tenth of the length; every call makes a fresh output.
``loader.run`` and ``wrapperir_run`` are called from a loop in C++ that makes handles of
the inputs and drops the output; the others from Python.  A bare loop does nothing but call
the same compiled kernels, and BLAS for products of matrices, on memory that is there.

    X  100 × (extern mm, then a fused add and relu): Inductor's patterns are off, which
       would make the product and the sum one addmm
    A  100 × (extern addmm, then a relu): what they make of the same function
    M  200 extern mms
    P  200 fused pointwise kernels, kept apart
    1  one fused kernel: what a call costs by itself

    python -m bench.host.cpp [rounds]
"""

import contextlib
import re
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from attrs import frozen
from torch._inductor import config

from bench.host import cpp_harness
from bench.host.chains import Chain, kept_apart, mm_add_relu, mms, pointwise
from bench.host.cpp_contenders import (
    AOTI,
    BARE,
    BARE_FRESH,
    CPP,
    CPP_PYTHON,
    Contenders,
    Timed,
    make,
)
from bench.machine import describe_machine

MOST_CALLS = 50
TOGETHER = 500_000
"""Nanoseconds of calls timed together: reading the clock costs as much as a line, and what
takes long is interrupted."""
PIECES = (
    "aoti_torch_empty_strided + delete",
    "aoti_torch__alloc_from_pool + delete",
    "aoti_torch_new_tensor_handle + delete",
    "aoti_torch_get_data_ptr",
    "aoti_torch_cpu_mm_out",
    "aoti_torch_cpu_addmm_out",
    "sgemm_",
)
"""What host programs do, each measured by itself."""
KERNEL = "a tiny kernel through a pointer, in P"
STATEMENTS = {
    r"^  op::gemm\(": "sgemm_",
    r"^  cpp_\w+\(": KERNEL,
    r"aoti_torch_cpu_mm_out\(c": "aoti_torch_cpu_mm_out",
    r"aoti_torch_cpu_addmm_out\(c": "aoti_torch_cpu_addmm_out",
    r"^  empty\(": "aoti_torch_empty_strided + delete",
    r"take\(c\.inputs": "aoti_torch_new_tensor_handle + delete",
    r"= data_of\(": "aoti_torch_get_data_ptr",
}
"""Which piece a statement of an emitted program is."""


@frozen
class Case:
    """A chain, and the settings with which Inductor compiles it as intended."""

    chain: Chain
    patterns: bool = True
    apart: bool = False
    bare: bool = True

    @contextlib.contextmanager
    def settings(self) -> Iterator[None]:
        """Compile with what the case needs."""
        separate = kept_apart() if self.apart else contextlib.nullcontext()
        with separate, config.patch(pattern_matcher=self.patterns):
            yield


CASES = {
    "X": Case(mm_add_relu(100), patterns=False),
    "X/10": Case(mm_add_relu(10), patterns=False),
    "A": Case(mm_add_relu(100), bare=False),
    "M": Case(mms(200)),
    "M/10": Case(mms(20)),
    "P": Case(pointwise(200), apart=True),
    "P/10": Case(pointwise(20), apart=True),
    "1": Case(pointwise(2)),
}


@frozen
class Times:
    """Microseconds of a contender's calls: the least, and the median over the rounds."""

    least: float
    median: float


def measure(timed: Mapping[str, Timed], rounds: int) -> dict[str, Times]:
    """Return the times of contenders that take turns."""
    calls = {
        name: max(1, min(MOST_CALLS, int(TOGETHER / one.nanoseconds(3))))
        for name, one in timed.items()
    }
    found: dict[str, list[float]] = {name: [] for name in timed}
    for number in range(rounds):
        for name in list(timed)[:: 1 if number % 2 else -1]:
            found[name].append(timed[name].nanoseconds(calls[name]) / 1000)
    return {
        name: Times(min(values), statistics.median(values))
        for name, values in found.items()
    }


def check_equal(case: str, contenders: Contenders) -> None:
    """Compare every result with that of ``loader.run``, bit for bit."""
    expected = contenders.timed[AOTI].output()
    for name, timed in contenders.timed.items():
        if not torch.equal(timed.output(), expected):
            raise AssertionError(f"{case}: {name} gives another result")


def main() -> None:
    """Print all times, their ratios to ``loader.run``, and where our time goes."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    torch.set_num_threads(1)
    print(describe_machine())
    units = measure_pieces(rounds)
    found: dict[str, dict[str, Times]] = {}
    made: dict[str, Contenders] = {}
    with (
        torch.no_grad(),
        tempfile.TemporaryDirectory() as folder,
        config.patch(fx_graph_cache=False),
        torch._functorch.config.patch(enable_autograd_cache=False),
    ):
        for name, case in CASES.items():
            place = Path(folder) / name.replace("/", "-")
            place.mkdir()
            with case.settings():
                made[name] = make(case.chain, place, bare=case.bare)
            check_equal(name, made[name])
            found[name] = measure(made[name].timed, rounds)
            print_times(name, found[name])
    units[KERNEL] = found["P"][BARE].least / 200 * 1000
    print_units(units)
    for name in ("X", "M", "P"):
        print_profile(name, made[name].text, found[name][CPP].least, units)
    print_goals(found)


def measure_pieces(rounds: int) -> dict[str, float]:
    """Return the nanoseconds of each piece, less those of a loop over nothing."""
    pieces = {name: cpp_harness.piece(name) for name in ("nothing", *PIECES)}
    times = measure(pieces, rounds)
    nothing = times["nothing"].least
    return {name: (times[name].least - nothing) * 1000 for name in PIECES}


def print_times(case: str, times: Mapping[str, Times]) -> None:
    """Print the least and the median time of each, and their ratios to ``loader.run``."""
    base = times[AOTI]
    print(f"\n{case:30}     least   ratio    median   ratio")
    for name, t in times.items():
        least = f"{t.least:8.2f} us {t.least / base.least:6.3f}"
        median = f"{t.median:7.2f} us {t.median / base.median:6.3f}"
        print(f"  {name:27} {least} {median}")


def print_units(units: Mapping[str, float]) -> None:
    """Print the cost of each piece of host programs."""
    print("\nunit costs")
    for name, nanoseconds in units.items():
        print(f"  {name:38} {nanoseconds:6.0f} ns")


def print_profile(case: str, text: str, least: float, units: Mapping[str, float]) -> None:
    """Print the count and the total time of each piece of our host program."""
    print(f"\n{case}: where the time of wrapperir_run goes")
    total = 0.0
    for pattern, unit in STATEMENTS.items():
        count = len(re.findall(pattern, text, re.MULTILINE))
        if count:
            total += count * units[unit] / 1000
            each = f"{units[unit]:6.0f} ns {count * units[unit] / 1000:7.2f} us"
            print(f"  {count:4} × {unit:38} {each}")
    print(f"  {'the rest of a call':45} {'':9} {least - total:7.2f} us")


@frozen
class Goal:
    """A figure and its limit."""

    name: str
    found: float
    most: float

    def __str__(self) -> str:
        """Say whether the goal is met."""
        verdict = "met" if self.found <= self.most else "NOT MET"
        return f"  {self.name:52} {self.found:7.3f}  at most {self.most:5.2f}  {verdict}"


def print_goals(found: Mapping[str, Mapping[str, Times]]) -> None:
    """Print the goals and what was found."""

    def ratio(case: str, to: str) -> float:
        return found[case][CPP].least / found[case][to].least

    goals = (
        *(Goal(f"{c}: wrapperir_run / loader.run", ratio(c, AOTI), 0.5) for c in "XM"),
        *(
            Goal(f"{c}: the same, where BLAS is called directly", ratio(c, AOTI), 0.25)
            for c in "XM"
        ),
        Goal("P: wrapperir_run / bare loop, a fresh output", ratio("P", BARE_FRESH), 1.15),
        Goal("P: the same, to memory that is there", ratio("P", BARE), 1.15),
        Goal("1: us of a call from Python", found["1"][CPP_PYTHON].least, 6.0),
    )
    print("\ngoals")
    for goal in goals:
        print(goal)


if __name__ == "__main__":
    main()
