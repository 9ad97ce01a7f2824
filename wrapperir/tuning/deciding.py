"""From the times of a multi-kernel's cases to the policy that is recorded."""

from collections.abc import Sequence

from wrapperir.ir.expr import Expr
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
    return best_in_total(timed)


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
