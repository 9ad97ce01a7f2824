"""Choice of the policy that is recorded, from the times of a multi-kernel's cases."""

from collections.abc import Sequence

from wrapperir.ir import (
    ComputedChoice,
    Expr,
    ExprOp,
    Operation,
    RecordedChoice,
    Symbol,
    compare,
)
from wrapperir.tuning.decision import Sample, learn_decision
from wrapperir.tuning.report import CaseReport, totals


def decide(cases: Sequence[CaseReport]) -> Expr | None:
    """Return the best choice, or a decision tree over the cases' values.

    The result is ``None`` where no choice has a time in any case.
    """
    timed = [case for case in cases if case.best is not None]
    if not timed:
        return None
    varying = [
        at
        for at in range(len(timed[0].values))
        if len({case.values[at][1] for case in timed}) > 1
    ]
    if all(not case.symbols for case in timed):
        return _exact(timed, varying)
    if not varying:
        return best_in_total(timed)
    samples = [
        Sample(tuple(case.values[at][1] for at in varying), case.microseconds)
        for case in timed
    ]
    return learn_decision([timed[0].values[at][0] for at in varying], samples)


def _exact(cases: Sequence[CaseReport], names: Sequence[int]) -> Expr:
    """Return a tree for cases that are all the cases there can be.

    It splits them until one choice is best for each part or no size separates them.  Each
    split minimises the total time of the best choices of both sides.
    """
    single = best_in_total(cases)
    if all(case.best == single for case in cases):
        return single
    parts = [
        (low, high, at, value)
        for at in names
        for value in sorted({case.values[at][1] for case in cases})[:-1]
        for low, high in [_parted(cases, at, value)]
    ]
    if not parts:
        return single
    low, high, at, value = min(parts, key=lambda part: _joint_badness(part[0], part[1]))
    branches = _exact(low, names), _exact(high, names)
    if branches[0] == branches[1]:
        return branches[0]
    condition = compare(ExprOp.LE, Symbol(cases[0].values[at][0]), value)
    return Operation(ExprOp.WHERE, (condition, *branches))


def _parted(
    cases: Sequence[CaseReport], at: int, value: int
) -> tuple[list[CaseReport], list[CaseReport]]:
    low = [case for case in cases if case.values[at][1] <= value]
    return low, [case for case in cases if case.values[at][1] > value]


def _joint_badness(*parts: Sequence[CaseReport]) -> tuple[int, float]:
    found = [_badness(part, best_in_total(part)) for part in parts]
    return sum(failed for failed, _ in found), sum(time for _, time in found)


def best_in_total(cases: Sequence[CaseReport]) -> int:
    """Return the choice that takes the least time over all cases.

    Choices are compared by the number of cases in which they failed first.
    """
    return min(range(len(cases[0].microseconds)), key=lambda at: _badness(cases, at))


def _badness(cases: Sequence[CaseReport], choice: int) -> tuple[int, float]:
    """Return the number of cases in which a choice failed, and its time in the others."""
    times = [case.microseconds[choice] for case in cases]
    known = [time for time in times if time is not None]
    return len(times) - len(known), sum(known)


def selection_of(
    chosen: Expr, cases: Sequence[CaseReport], device: str
) -> RecordedChoice | ComputedChoice:
    """Return the policy for a choice or a decision tree, with the times that led to it."""
    if isinstance(chosen, int):
        return RecordedChoice(chosen, totals(cases), device)
    return ComputedChoice(chosen, device)
