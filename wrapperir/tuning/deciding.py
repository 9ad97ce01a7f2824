"""From the times of a multi-kernel's cases to the policy that is recorded."""

import math
from collections.abc import Sequence

from wrapperir.ir.expr import Expr, ExprOp, Operation, Symbol, compare
from wrapperir.ir.selection import ComputedChoice, RecordedChoice
from wrapperir.tuning.report import CaseReport, totals


def decide(cases: Sequence[CaseReport]) -> Expr | None:
    """Return the best choice, or a decision tree over the cases' values.

    It is ``None`` where no choice has a time at any case.
    """
    timed = [case for case in cases if case.best is not None]
    if not timed:
        return None
    varying = [
        name
        for at, (name, _) in enumerate(timed[0].values)
        if len({case.values[at][1] for case in timed}) > 1
    ]
    if not varying:
        return best_in_total(timed)
    return _split_once(timed, varying)


def _split_once(cases: Sequence[CaseReport], names: Sequence[str]) -> Expr:
    """Return the best choice, or the best two on both sides of a threshold."""
    best: Expr = best_in_total(cases)
    least = _badness(cases, best_in_total(cases))
    for name in names:
        values = [dict(case.values)[name] for case in cases]
        for threshold in sorted(set(values))[:-1]:
            sides = [
                [
                    c
                    for c, value in zip(cases, values, strict=True)
                    if (value <= threshold) is low
                ]
                for low in (True, False)
            ]
            picks = [_least_bad(side) for side in sides]
            badness = sum(
                _badness(side, pick) for side, pick in zip(sides, picks, strict=True)
            )
            if badness < least - 1e-9:
                condition = compare(ExprOp.LE, Symbol(name), threshold)
                best = Operation(ExprOp.WHERE, (condition, *picks))
                least = badness
    return best


def _least_bad(cases: Sequence[CaseReport]) -> int:
    return min(range(len(cases[0].microseconds)), key=lambda at: _badness(cases, at))


def _badness(cases: Sequence[CaseReport], at: int) -> float:
    """Return the sum of the logarithms of a choice's time over the best."""
    total = 0.0
    for case in cases:
        time, least = case.microseconds[at], case.microseconds[case.best or 0]
        total += (
            100.0 if time is None else math.log(max(time, 1e-3) / max(least or 0.0, 1e-3))
        )
    return total


def best_in_total(cases: Sequence[CaseReport]) -> int:
    """Return the choice that takes the least time over all cases.

    A choice without a time at a case comes after those that have one at more cases.
    """
    count = len(cases[0].microseconds)

    def badness(at: int) -> tuple[int, float]:
        times = [case.microseconds[at] for case in cases]
        known = [time for time in times if time is not None]
        return len(times) - len(known), sum(known)

    return min(range(count), key=badness)


def selection_of(
    chosen: Expr, cases: Sequence[CaseReport], device: str
) -> RecordedChoice | ComputedChoice:
    """Return the policy that takes what was chosen, with the times it was chosen by."""
    if isinstance(chosen, int):
        return RecordedChoice(chosen, totals(cases), device)
    return ComputedChoice(chosen, device)
