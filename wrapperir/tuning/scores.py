"""Scores of choices over the timed cases."""

import math
from collections.abc import Sequence

from attrs import frozen

from wrapperir.tuning.report import CaseReport, KernelReport


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


_LEAST = 1e-3
"""The least time that counts, a nanosecond, to which recorded times are rounded."""
