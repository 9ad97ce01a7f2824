"""Pairs of values that two runs observed, matched by their names."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from attrs import frozen

from wrapperir.trace.points import Point, PointRole

ValueKey: TypeAlias = tuple[object, ...]


@frozen
class Mark:
    """An observed value without its elements: its digest, and its size in bytes.

    ``partial`` says that the program did not write all of its elements.
    """

    point: Point
    occurrence: int
    digest: str
    nbytes: int
    partial: bool

    @property
    def place(self) -> tuple[Point, int]:
        """The point and how often it was reached before."""
        return self.point, self.occurrence


@frozen
class Pair:
    """The same value in two runs."""

    first: Mark
    second: Mark

    @property
    def is_equal(self) -> bool:
        """Whether all bits are known to be equal."""
        partial = self.first.partial or self.second.partial
        return not partial and self.first.digest == self.second.digest


@frozen
class Pairs:
    """Values that both runs observed, in the order of the second run, and the others."""

    both: tuple[Pair, ...]
    only_first: tuple[Mark, ...]
    only_second: tuple[Mark, ...]


def match_marks(
    first: Sequence[Mark], second: Sequence[Mark], *, same_program: bool
) -> Pairs:
    """Return the pairs of two runs.

    Of the same program, values at one point are matched by occurrence.  Of others, passes
    may have moved lines: values of one name and role are matched in order, if both runs
    have as many of them; of buffers that views write, which may be in another order, the
    last.
    """
    partner: dict[tuple[Point, int], Mark] = {}
    key = _at_point if same_program else _named
    known = _grouped(first, key)
    for name, marks in _grouped(second, key).items():
        others = known.get(name, [])
        if same_program:
            partner.update(zip([m.place for m in marks], others, strict=False))
        elif len(marks) == len(others):
            since = len(marks) - 1 if marks[0].point.role is PointRole.STORAGE else 0
            places = [mark.place for mark in marks[since:]]
            partner.update(zip(places, others[since:], strict=True))
    both = [Pair(partner[mark.place], mark) for mark in second if mark.place in partner]
    used = {pair.first.place for pair in both}
    return Pairs(
        tuple(both),
        tuple([mark for mark in first if mark.place not in used]),
        tuple([mark for mark in second if mark.place not in partner]),
    )


def _at_point(mark: Mark) -> ValueKey:
    return (mark.point,)


def _named(mark: Mark) -> ValueKey:
    return mark.point.name, mark.point.role


def _grouped(
    marks: Sequence[Mark], key: Callable[[Mark], ValueKey]
) -> dict[ValueKey, list[Mark]]:
    grouped: dict[ValueKey, list[Mark]] = {}
    for mark in marks:
        grouped.setdefault(key(mark), []).append(mark)
    return grouped


def batches(pairs: Sequence[Pair], budget: int) -> Iterator[list[Pair]]:
    """Yield pairs that may differ, as many at once as fit ``budget`` bytes."""
    batch: list[Pair] = []
    size = 0
    for pair in pairs:
        if pair.is_equal:
            continue
        if batch and size + pair.first.nbytes > budget:
            yield batch
            batch, size = [], 0
        batch.append(pair)
        size += pair.first.nbytes
    if batch:
        yield batch
