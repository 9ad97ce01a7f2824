"""Selection policies, replayed on a table of times."""

import math
from collections.abc import Iterator, Mapping, Sequence

from attrs import frozen

from bench.selection.table import Row, Sizes, Table
from wrapperir.ir import Expr, Hint, evaluate_int, nearest

BENCHMARK_RUNS = 2
"""How often a benchmark at the first call runs each choice: once untimed, once timed."""

NO_TIME = 1e12
"""Microseconds that stand for a choice that fails, so that selecting it shows."""


@frozen
class Selected:
    """The choice of a policy at a shape of the table.

    ``per_call`` and ``once`` are the microseconds that deciding takes at each call and
    at the first.
    """

    row: Row
    choice: int
    per_call: float = 0.0
    once: float = 0.0

    def ratio(self, calls: float) -> float:
        """Return time over the oracle's, deciding included, for so many calls.

        The oracle is picked by the first half of the repetitions, and both are taken
        from the second.
        """
        taken = time_of(self.row.second, self.choice) + self.per_call + self.once / calls
        return taken / time_of(self.row.second, fastest(self.row.first))


def time_of(times: Sequence[float | None], choice: int) -> float:
    """Return the time of a choice; one that fails takes very long."""
    time = times[choice]
    return NO_TIME if time is None else time


def fastest(times: Sequence[float | None]) -> int:
    """Return the choice that takes the least."""
    return min(range(len(times)), key=lambda choice: time_of(times, choice))


@frozen
class Outcome:
    """The times of selected choices as multiples of the oracle's."""

    mean: float
    percentile95: float
    worst: float

    @classmethod
    def of(cls, selected: Sequence[Selected], calls: float) -> "Outcome":
        """Return the geometric mean, the 95th percentile and the greatest ratio."""
        ratios = sorted(one.ratio(calls) for one in selected)
        mean = math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
        return cls(mean, ratios[math.ceil(0.95 * len(ratios)) - 1], ratios[-1])


def best_single(table: Table) -> list[Selected]:
    """Select the one choice with the least geometric mean over the shapes themselves."""

    def badness(choice: int) -> float:
        return math.fsum(
            math.log(time_of(row.first, choice) / time_of(row.first, fastest(row.first)))
            for row in table.test
        )

    best = min(range(len(table.choices)), key=badness)
    return [Selected(row, best) for row in table.test]


def benchmark_once(table: Table) -> list[Selected]:
    """Select the fastest at the first shape for all; each shape comes first once.

    The benchmark runs at the first call and belongs to the calls of every shape alone, so
    with a single call it is all theirs.
    """
    found: list[Selected] = []
    for first in table.test:
        known = [time for time in first.first if time is not None]
        once = BENCHMARK_RUNS * math.fsum(known)
        choice = fastest(first.first)
        found.extend(Selected(row, choice, once=once) for row in table.test)
    return found


def hints_of(table: Table) -> tuple[Hint, ...]:
    """Return a hint for each square shape: the choice that is best there."""
    return tuple(Hint(fastest(row.first), row.sizes) for row in table.hints)


def nearest_hint(table: Table, per_call: float) -> list[Selected]:
    """Select by the nearest hint."""
    hints = hints_of(table)
    return [Selected(row, nearest(hints, row.sizes), per_call) for row in table.test]


def computed(table: Table, tree: Expr, per_call: float) -> list[Selected]:
    """Select by a decision tree over the sizes."""
    return [
        Selected(row, evaluate_int(tree, named(table, row.sizes)), per_call)
        for row in table.test
    ]


def oracle(table: Table) -> list[Selected]:
    """Select the fastest of the half that is scored, which shows the noise."""
    return [Selected(row, fastest(row.second)) for row in table.test]


def named(table: Table, sizes: Sizes) -> Mapping[str, int]:
    """Return sizes by name."""
    return dict(zip(table.size_names, sizes, strict=True))


def wins(table: Table) -> Iterator[tuple[str, int]]:
    """Yield the number of shapes at which each choice is the oracle's."""
    oracles = [fastest(row.first) for row in table.test]
    for at, choice in enumerate(table.choices):
        yield choice, oracles.count(at)
