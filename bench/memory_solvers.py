"""Height over the lower bound, and seconds, of every solver; how the fast tier grows.

Public instances come from ``../shared/bench`` (see its README; they are left out where it
is absent), the others from :mod:`wrapperir.planning.generate`: perfect packings, whose
optimum is the lower bound, and training steps.  Every plan is checked.

    python -m bench.memory_solvers [--exact seconds] [--oracle seconds]
"""

import argparse
import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from wrapperir.planning.anytime import AnytimeSolver
from wrapperir.planning.check import check_plan
from wrapperir.planning.exact import ExactSolver
from wrapperir.planning.generate import perfect_packing, training_step
from wrapperir.planning.greedy import GreedySolver
from wrapperir.planning.instance import Buffer, Plan
from wrapperir.planning.instances import read_instance
from wrapperir.planning.lower_bound import lower_bound
from wrapperir.planning.oracle import OrToolsSolver
from wrapperir.planning.plan import plan

PUBLIC = Path(__file__).parents[2] / "shared" / "bench"
COMPARED = (100, 1_000, 10_000)
GROWTH = (100, 1_000, 10_000, 60_000, 100_000)
UNLIMITED = 3600.0

Solve = Callable[[Sequence[Buffer]], Plan]


def instances() -> Iterator[tuple[str, tuple[Buffer, ...]]]:
    """Yield instances by name."""
    if not PUBLIC.is_dir():
        print(f"no public instances: {PUBLIC} is not there")
    for path in sorted(PUBLIC.glob("*/*.csv")):
        yield path.stem.split(".")[0], read_instance(path)
    for count in COMPARED:
        yield f"packing {count}", perfect_packing(count, 0)
        yield f"training {count}", training_step(count, 0)


def timed(
    solve: Solve, buffers: Sequence[Buffer], clock: Callable[[], float]
) -> tuple[Plan, float]:
    """Return a plan, checked, and the seconds that it took."""
    began = clock()
    found = solve(buffers)
    took = clock() - began
    faults = check_plan(buffers, found)
    assert not faults, faults
    return found, took


def compare(solvers: dict[str, Solve]) -> None:
    """Print what each solver makes of each instance."""
    print(f"{'instance':<16}{'buffers':>8}{'lower bound':>14}", end="")
    print("".join(f"{name:>18}" for name in solvers))
    for name, buffers in instances():
        print(f"{name:<16}{len(buffers):>8}{lower_bound(buffers):>14}", end="")
        for solve in solvers.values():
            found, took = timed(solve, buffers, time.perf_counter)
            print(f"{found.gap + 1:>10.4f}{took:>7.2f}s", end="", flush=True)
        print()


def grow(solve: Solve) -> None:
    """Print how a solver's processor seconds grow with the number of buffers."""
    print(f"{'instance':<16}{'buffers':>8}{'height':>10}{'seconds':>10}{'µs/n log n':>12}")
    for kind, make in (("packing", perfect_packing), ("training", training_step)):
        for count in GROWTH:
            buffers = make(count, 0)
            found, took = timed(solve, buffers, time.process_time)
            steps = len(buffers) * math.log2(len(buffers))
            print(f"{kind:<16}{len(buffers):>8}{found.gap + 1:>10.4f}", end="")
            print(f"{took:>10.3f}{1e6 * took / steps:>12.2f}")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--exact", type=float, default=15, help="seconds of exact search")
    parser.add_argument("--oracle", type=float, default=0, help="seconds of OR-tools")
    options = parser.parse_args()
    plan(perfect_packing(100, 0))  # builds the compiled cores
    solvers: dict[str, Solve] = {
        "greedy": lambda b: GreedySolver().solve(b, seconds=UNLIMITED),
        "plan": plan,
        "anytime 1 s": lambda b: AnytimeSolver().solve(b, seconds=1),
    }
    if options.exact:
        solvers["exact"] = lambda b: ExactSolver().solve(b, seconds=options.exact)
    if options.oracle:
        solvers["or-tools"] = lambda b: OrToolsSolver().solve(b, seconds=options.oracle)
    print("height / lower bound, seconds")
    compare(solvers)
    print("\ngreedy, all orders")
    grow(solvers["greedy"])


if __name__ == "__main__":
    main()
