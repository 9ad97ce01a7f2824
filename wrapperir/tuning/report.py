"""The results of tuning as data, with scores of choices and the cases that are shown."""

import math
from collections.abc import Sequence

from attrs import frozen

from wrapperir.ir import Expr, Number, evaluate_int, symbols_in

MOST_CASES = 12
"""The maximum number of cases of a kernel that are shown; a record has all."""

_LEAST = 1e-3
"""The least time that counts, a nanosecond, to which recorded times are rounded."""


@frozen(kw_only=True)
class CaseReport:
    """The times of a call at values of its symbols.

    ``call`` is the index of the call among the kernel's different calls; ``values`` has the
    numbers that its policy may use, by name.  ``microseconds`` has one time a choice,
    ``None`` for a choice that failed.  ``cached`` says that the times were in the cache.
    """

    call: int
    symbols: tuple[tuple[str, Number], ...]
    values: tuple[tuple[str, int], ...]
    microseconds: tuple[float | None, ...]
    cached: bool

    @property
    def best(self) -> int | None:
        """The fastest choice, the first of equals; ``None`` where no choice has a time."""
        times = self.microseconds
        timed = [at for at, time in enumerate(times) if time is not None]
        return min(timed, key=lambda at: times[at] or 0.0, default=None)


@frozen(kw_only=True)
class FailureReport:
    """A reason for which a choice has no time in some case."""

    choice: str
    reason: str


@frozen(kw_only=True)
class KernelReport:
    """The result of tuning a multi-kernel, or a kernel with several configs.

    ``chosen`` is the position of a choice, or a decision tree over sizes and scalars of a
    call.  It is ``None`` where the kernel was left unchanged, and ``reason`` says why.
    """

    kernel: str
    device: str
    choices: tuple[str, ...]
    chosen: Expr | None
    reason: str = ""
    seconds: float = 0.0
    failures: tuple[FailureReport, ...] = ()
    cases: tuple[CaseReport, ...] = ()

    def chosen_at(self, case: CaseReport) -> int | None:
        """Return the choice that runs at a case; ``None`` where nothing was chosen."""
        if self.chosen is None:
            return None
        return evaluate_int(self.chosen, dict(case.values))


@frozen(kw_only=True)
class TuningReport:
    """The result of tuning a program, kernel by kernel in the program's order.

    ``seconds`` is the whole time, including compilation.  ``cache_problem`` says why the
    cache could not be used; it is empty where it could.
    """

    program: str
    emitter: str
    seconds: float
    cache_problem: str = ""
    kernels: tuple[KernelReport, ...]

    @property
    def cases(self) -> int:
        """The number of cases."""
        return sum(len(kernel.cases) for kernel in self.kernels)

    @property
    def cached(self) -> int:
        """The number of cases whose times were in the cache."""
        return sum(case.cached for kernel in self.kernels for case in kernel.cases)


def totals(cases: Sequence[CaseReport]) -> tuple[float | None, ...]:
    """Return the microseconds of each choice over all cases; ``None`` where one is missing.

    Cases without any time are ignored.
    """
    timed = [case.microseconds for case in cases if case.best is not None]
    columns = zip(*timed, strict=True) if timed else ()
    sums: list[float | None] = []
    for column in columns:
        known = [time for time in column if time is not None]
        sums.append(round(sum(known), 3) if len(known) == len(column) else None)
    return tuple(sums)


@frozen
class Score:
    """The ratio of a time to the fastest choice's time, over cases.

    ``mean`` is the geometric mean, ``worst`` the maximum.
    """

    mean: float
    worst: float


def score(cases: Sequence[CaseReport], choices: Sequence[int | None]) -> Score | None:
    """Return the score of taking a choice at each case.

    Cases where no choice has a time are ignored.  The score is ``None`` where there are no
    others, or where the choice taken has no time.
    """
    ratios: list[float] = []
    for case, choice in zip(cases, choices, strict=True):
        if case.best is None:
            continue
        least = case.microseconds[case.best]
        taken = None if choice is None else case.microseconds[choice]
        if taken is None or least is None:
            return None
        ratios.append(max(taken, _LEAST) / max(least, _LEAST))
    if not ratios:
        return None
    return Score(math.exp(math.fsum(map(math.log, ratios)) / len(ratios)), max(ratios))


def chosen_score(kernel: KernelReport) -> Score | None:
    """Return the score of the decision."""
    return score(kernel.cases, [kernel.chosen_at(case) for case in kernel.cases])


def single_scores(kernel: KernelReport) -> tuple[Score | None, ...]:
    """Return the score of always taking each choice."""
    count = len(kernel.cases)
    return tuple(score(kernel.cases, [at] * count) for at in range(len(kernel.choices)))


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
