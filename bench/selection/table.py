"""Shapes at which the choices of a task are timed, and the table of the times."""

import json
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from attrs import asdict, frozen

Sizes = tuple[int, ...]

_GOLDEN = 0.6180339887498949


@frozen
class Range:
    """The least and the greatest value of a size."""

    low: int
    high: int

    def at(self, fraction: float) -> int:
        """Return the number at a fraction of the range's logarithm."""
        value = round(self.low * math.pow(self.high / self.low, fraction))
        return min(max(value, self.low), self.high)

    def clipped(self, value: int) -> int:
        """Return the nearest number in the range."""
        return min(max(value, self.low), self.high)


class Task(Protocol):
    """A computation that several kernels perform."""

    @property
    def name(self) -> str: ...
    @property
    def size_names(self) -> tuple[str, ...]: ...
    @property
    def ranges(self) -> tuple[Range, ...]: ...
    @property
    def choices(self) -> tuple[str, ...]: ...

    def fits(self, sizes: Sizes) -> bool:
        """Say whether a shape is neither too small nor too large to be timed."""
        ...

    def measure(self, sizes: Sizes, rounds: int) -> list[list[float] | None]:
        """Return the microseconds of each choice, which took turns; ``None``: it failed."""
        ...

    def typical(self, times: Sequence[float]) -> float:
        """Return the one number that stands for repetitions of the same."""
        ...


@frozen
class Row:
    """A shape, and a choice's time in each half of the repetitions."""

    sizes: Sizes
    first: tuple[float | None, ...]
    second: tuple[float | None, ...]


@frozen
class Table:
    """The times of one task at the shapes to test, and at those to learn from.

    The two halves of a training row are the same.  ``seconds`` is what timing those took.
    """

    task: str
    size_names: tuple[str, ...]
    choices: tuple[str, ...]
    test: tuple[Row, ...]
    training: tuple[Row, ...]
    hints: tuple[Row, ...]
    seconds: float


def test_shapes(task: Task, count: int, seed: int) -> list[Sizes]:
    """Return log-uniform shapes; a third of their sizes are at a boundary or beside it.

    A boundary is a power of two or an end of the size's range.
    """
    chance = random.Random(f"{seed} {task.name}")
    found: dict[Sizes, None] = {}
    while len(found) < count:
        sizes: list[int] = []
        for extent in task.ranges:
            value = extent.at(chance.random())
            if chance.random() < 0.3:
                value = (1 << round(math.log2(value))) + chance.choice((-1, 0, 1))
            elif chance.random() < 0.05:
                value = chance.choice((extent.low, extent.high)) + chance.choice((-1, 0, 1))
            sizes.append(extent.clipped(value))
        if task.fits(tuple(sizes)):
            found[tuple(sizes)] = None
    return list(found)


def training_shapes(task: Task, count: int, without: Sequence[Sizes]) -> list[Sizes]:
    """Return shapes spread evenly over the logarithm of the ranges, as tuning draws them.

    It is the additive recurrence of M. Roberts, "The unreasonable effectiveness of
    quasirandom sequences"; every second is at a power of two or beside one.  Those in
    ``without`` are left out.
    """
    dimensions = len(task.ranges)
    root = 2.0
    for _ in range(40):
        root = (1 + root) ** (1 / (dimensions + 1))
    excluded = set(without)
    found: dict[Sizes, None] = {}
    index = 0
    while len(found) < count:
        sizes: list[int] = []
        for at, extent in enumerate(task.ranges):
            value = extent.at((0.5 + index * (1 / root) ** (at + 1)) % 1.0)
            if index % 2:
                value = (1 << round(math.log2(value))) + (index // 2 + at) % 3 - 1
            sizes.append(extent.clipped(value))
        index += 1
        if task.fits(tuple(sizes)) and tuple(sizes) not in excluded:
            found[tuple(sizes)] = None
    return list(found)


def measured(
    task: Task,
    *,
    tests: int,
    rounds: int,
    trainings: int,
    training_rounds: int,
    hints: Sequence[int],
    progress: Callable[[str], None],
) -> Table:
    """Return the table of a task; both sets of shapes are timed in turns."""
    shapes = test_shapes(task, tests, seed=3)
    squares = [tuple(extent.clipped(hint) for extent in task.ranges) for hint in hints]
    squares = list(dict.fromkeys(_fitting(task, square) for square in squares))
    to_learn = training_shapes(task, trainings, (*shapes, *squares))
    seconds = 0.0
    test: list[Row] = []
    training: list[Row] = []
    total = len(shapes) + len(to_learn)
    begin = time.perf_counter()
    # Turns, so that a machine that changes does so for both.
    for number in range(total):
        if len(training) * len(shapes) <= len(test) * len(to_learn) and len(training) < len(
            to_learn
        ):
            before = time.perf_counter()
            sizes = to_learn[len(training)]
            training.append(_row(task, sizes, training_rounds, halves=False))
            seconds += time.perf_counter() - before
        else:
            test.append(_row(task, shapes[len(test)], rounds, halves=True))
        if (number + 1) % 200 == 0:
            took = time.perf_counter() - begin
            progress(f"{task.name}: {number + 1} of {total} shapes, {took:.0f} s")
    hinted = tuple(_row(task, square, rounds, halves=False) for square in squares)
    return Table(
        task.name,
        task.size_names,
        task.choices,
        tuple(test),
        tuple(training),
        hinted,
        seconds,
    )


def _fitting(task: Task, sizes: Sizes) -> Sizes:
    """Return the square shape nearest to one that can be timed."""
    side = max(sizes)
    for step in range(32):
        for near in (side >> step, side << step):
            square = tuple(extent.clipped(near) for extent in task.ranges)
            if task.fits(square):
                return square
    raise ValueError(f"{task.name} fits no square")


def turns(choices: Sequence[int], rounds: int) -> Iterator[list[int]]:
    """Yield an order of the choices for each round, always another.

    What comes before a kernel changes its time a little, so no half of the repetitions
    may have its choices in an order of its own.
    """
    chance = random.Random(rounds)
    for _ in range(rounds):
        yield chance.sample(choices, len(choices))


def _row(task: Task, sizes: Sizes, rounds: int, *, halves: bool) -> Row:
    times = task.measure(sizes, rounds)
    parts = (slice(0, None, 2), slice(1, None, 2)) if halves else (slice(None),) * 2
    first, second = (
        tuple(None if one is None else task.typical(one[part]) for one in times)
        for part in parts
    )
    return Row(sizes, first, second)


def least(times: Sequence[float]) -> float:
    """Return the least time, for a CPU, where disturbances only add time."""
    return min(times)


def median(times: Sequence[float]) -> float:
    """Return the median time, for a GPU."""
    return statistics.median(times)


def save_tables(
    tables: Sequence[Table], path: Path, device: str = "", machine: str = ""
) -> None:
    """Write tables as JSON, and where the times are from."""
    content = {
        "device": device,
        "machine": machine,
        "tables": [asdict(table) for table in tables],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def load_tables(path: Path) -> list[Table]:
    """Return the tables that :func:`save_tables` wrote."""

    def rows(found: list[dict[str, list[float | None]]]) -> tuple[Row, ...]:
        return tuple(
            Row(
                tuple(int(size or 0) for size in row["sizes"]),
                tuple(row["first"]),
                tuple(row["second"]),
            )
            for row in found
        )

    return [
        Table(
            item["task"],
            tuple(item["size_names"]),
            tuple(item["choices"]),
            rows(item["test"]),
            rows(item["training"]),
            rows(item["hints"]),
            item["seconds"],
        )
        for item in json.loads(path.read_text())["tables"]
    ]
