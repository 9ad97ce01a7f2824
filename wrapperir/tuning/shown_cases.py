"""Selection of the cases and columns that a report shows."""

from collections.abc import Sequence

from attrs import frozen

from wrapperir.ir import symbols_in
from wrapperir.tuning.report import CaseReport, KernelReport

MOST_CASES = 12
"""The maximum number of cases of a kernel that are shown; a record has all."""


@frozen
class ShownCases:
    """Cases in the order of their values at ``columns``, positions in ``values``."""

    columns: tuple[int, ...]
    cases: tuple[CaseReport, ...]


def shown_cases(kernel: KernelReport) -> ShownCases:
    """Return at most :data:`MOST_CASES` of the cases that have a time.

    Cases on both sides of a change of the choice are taken first; the first, the last and
    some between fill the rest.  Columns are the values that distinguish cases, without
    duplicates; the values that decide the choice come first.
    """
    timed = [case for case in kernel.cases if case.best is not None]
    columns = _columns(kernel, timed)
    timed.sort(key=lambda case: [case.values[at][1] for at in columns])
    chosen = [kernel.chosen_at(case) for case in timed]
    changes = [at for at in range(1, len(timed)) if chosen[at - 1] != chosen[at]]
    shown: set[int] = set()
    for at in _spread(changes, MOST_CASES // 2):
        shown |= {at - 1, at}
    # the ends first, then ever finer between them, until the table is full
    wanted = min(MOST_CASES, len(timed))
    for count in range(2, len(timed) + 1):
        for at in _spread(range(len(timed)), count):
            if len(shown) < wanted:
                shown.add(at)
    if len(timed) == 1:
        shown.add(0)
    return ShownCases(columns, tuple(timed[at] for at in sorted(shown)))


def _columns(kernel: KernelReport, cases: Sequence[CaseReport]) -> tuple[int, ...]:
    """Return the positions of values that vary, without duplicates."""
    if not cases:
        return ()
    deciding = frozenset(() if kernel.chosen is None else symbols_in(kernel.chosen))
    names = [name for name, _ in cases[0].values]
    order = sorted(range(len(names)), key=lambda at: names[at] not in deciding)
    kept: dict[tuple[int, ...], int] = {}
    for at in order:
        column = tuple(case.values[at][1] for case in cases)
        if len(set(column)) > 1:
            kept.setdefault(column, at)
    return tuple(kept.values())


def _spread(items: Sequence[int], count: int) -> list[int]:
    """Return ``count`` of the items in order, the first and the last among them."""
    if len(items) <= count:
        return list(items)
    step = (len(items) - 1) / (count - 1)
    return [items[round(at * step)] for at in range(count)]
