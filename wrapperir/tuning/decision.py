"""Policies from the times of choices: one choice, or a decision tree over sizes."""

import math
from collections.abc import Sequence

from attrs import frozen

from wrapperir import ir as wir
from wrapperir.tuning.decision_tree import (
    Feature,
    Losses,
    features_of,
    grow_tree,
    prune_tree,
)
from wrapperir.tuning.report import CaseReport, totals

_LARGEST_LOSS = math.log(1000)
_FOLDS = 5
_LEAST_FOR_FOLDS = 25
_PENALTIES = (0.02, 0.04, 0.07, 0.1, 0.15, 0.25, 0.4, 0.6, 1.0, 1.5)
_SMALL_PENALTY = 0.04


@frozen
class Sample:
    """The times of all choices at some sizes; ``None`` for a choice that failed."""

    sizes: tuple[int, ...]
    microseconds: tuple[float | None, ...]


def learn_decision(names: Sequence[str], samples: Sequence[Sample]) -> wir.Expr:
    """Return a decision tree over ``names`` for calls of any size.

    ``names`` are the names of the samples' sizes, in order.  All samples have times of the
    same choices; the leaves of the tree are positions of choices.  The loss of a choice at
    a sample is ``log(t / t_best)``, or ``log(1000)`` where it failed.  The tree minimises
    the sum of losses and never loses more on the samples than the best single choice.

    This is CART (Breiman, Friedman, Olshen and Stone 1984) with costs in place of classes:
    a tree is grown by splits over :func:`~wrapperir.tuning.decision_tree.features_of` the
    sizes, then splits that cross-validation does not support are removed.  The time is
    proportional to samples times sizes.  The same samples give the same tree.

    Raises:
        ValueError: there are no samples, or they are not of the same sizes and choices.
    """
    if not samples:
        raise ValueError("there are no samples to learn from")
    shape = len(names), len(samples[0].microseconds)
    if any((len(s.sizes), len(s.microseconds)) != shape for s in samples) or not shape[1]:
        raise ValueError("samples differ in how many sizes or choices they have")
    rows = range(len(samples))
    features = features_of(names, [sample.sizes for sample in samples])
    losses = Losses([loss(sample.microseconds) for sample in samples])
    penalty = _penalty(features, losses, rows)
    return prune_tree(grow_tree(features, losses, rows), penalty).expr()


def loss(microseconds: Sequence[float | None]) -> tuple[float, ...]:
    """Return the loss of each choice at a sample."""
    known = [time for time in microseconds if time is not None]
    if not known:
        return (0.0,) * len(microseconds)
    least = max(min(known), 1e-6)
    return tuple(
        _LARGEST_LOSS
        if time is None
        else min(math.log(max(time, 1e-6) / least), _LARGEST_LOSS)
        for time in microseconds
    )


def _penalty(features: Sequence[Feature], losses: Losses, rows: Sequence[int]) -> float:
    """Return the leaf penalty that does best on held-out rows, the largest of equals."""
    if len(rows) < _LEAST_FOR_FOLDS:
        return _SMALL_PENALTY
    lost = dict.fromkeys(_PENALTIES, 0.0)
    for fold in range(_FOLDS):
        kept = [row for row in rows if _fold(row) != fold]
        left_out = [row for row in rows if _fold(row) == fold]
        tree = grow_tree(features, losses, kept)
        for penalty in lost:
            smaller = prune_tree(tree, penalty * len(kept) / len(rows))
            lost[penalty] += math.fsum(
                losses.columns[smaller.at(row)][row] for row in left_out
            )
    least = min(lost.values()) + 1e-9
    return max(penalty for penalty, value in lost.items() if value <= least)


def _fold(row: int) -> int:
    # Samples may come in a pattern; a multiplicative hash (Knuth) breaks it.
    return (row * 2654435761 % 2**32) * _FOLDS >> 32


def decide(cases: Sequence[CaseReport]) -> wir.Expr | None:
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


def _exact(cases: Sequence[CaseReport], names: Sequence[int]) -> wir.Expr:
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
    condition = wir.compare(wir.ExprOp.LE, wir.Symbol(cases[0].values[at][0]), value)
    return wir.Operation(wir.ExprOp.WHERE, (condition, *branches))


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
    chosen: wir.Expr, cases: Sequence[CaseReport], device: str
) -> wir.RecordedChoice | wir.ComputedChoice:
    """Return the policy for a choice or a decision tree, with the times that led to it."""
    if isinstance(chosen, int):
        return wir.RecordedChoice(chosen, totals(cases), device)
    return wir.ComputedChoice(chosen, device)
