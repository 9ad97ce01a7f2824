"""Learns from times at many sizes which choice to take at any."""

import math
from collections.abc import Sequence

from attrs import frozen

from wrapperir.ir.expr import Expr
from wrapperir.tuning.decision_costs import estimate_features
from wrapperir.tuning.decision_terms import Feature, cost_terms, plain_features
from wrapperir.tuning.decision_tree import Losses, Tree, grown, pruned

_LARGEST_LOSS = math.log(1000)
_FOLDS = 5
_LEAST_FOR_FOLDS = 25
_LEAST_FOR_ESTIMATES = 12
_PENALTIES = (0.02, 0.04, 0.07, 0.1, 0.15, 0.25, 0.4, 0.6, 1.0, 1.5)
_SMALL_PENALTY = 0.04
_ESTIMATE_RANK = 5


@frozen
class Sample:
    """The times of all choices at sizes; ``None`` for one that failed there."""

    sizes: tuple[int, ...]
    microseconds: tuple[float | None, ...]


def learn_decision(names: Sequence[str], samples: Sequence[Sample]) -> Expr:
    """Return a decision tree over ``names`` for calls of any size.

    ``names`` are those of the samples' sizes, in order; all samples have times of the same
    choices, which the tree's leaves are positions of.  What a choice loses at a sample is
    ``log(t / t_best)``, and ``log(1000)`` where it failed; the tree is to lose little in
    sum, and never more on the samples themselves than the best single choice.

    This is CART (Breiman, Friedman, Olshen and Stone 1984) with costs in place of classes.
    Splits are by sizes, products, ratios, remainders, and by estimates of the choices'
    times (:mod:`~wrapperir.tuning.decision_costs`), which know the shape of costs and so
    need fewer samples; how far the tree is pruned is found by cross-validation.  The same
    samples give the same tree.

    Raises:
        ValueError: there are no samples, or they are not of the same sizes and choices.
    """
    if not samples:
        raise ValueError("there are no samples to learn from")
    shape = len(names), len(samples[0].microseconds)
    if any((len(s.sizes), len(s.microseconds)) != shape for s in samples) or not shape[1]:
        raise ValueError("samples differ in how many sizes or choices they have")
    learner = _Learner(names, samples)
    return learner.tree().expr()


def loss(microseconds: Sequence[float | None]) -> tuple[float, ...]:
    """Return what each choice loses at a sample."""
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


class _Learner:
    def __init__(self, names: Sequence[str], samples: Sequence[Sample]) -> None:
        sizes = [sample.sizes for sample in samples]
        self._times = [sample.microseconds for sample in samples]
        self._losses = [loss(times) for times in self._times]
        self._columns = Losses(self._losses)
        self._plain = plain_features(names, sizes)
        self._terms = cost_terms(names, sizes)

    def tree(self) -> Tree:
        """Return the tree that is likely to lose the least at other sizes."""
        rows = range(len(self._times))
        estimated, penalty = self._settings(rows)
        return pruned(self._grown(rows, estimated), penalty)

    def _grown(self, rows: Sequence[int], estimated: bool) -> Tree:
        found: list[Feature] = list(self._plain)
        if estimated:
            found += estimate_features(self._terms, self._times, rows, _ESTIMATE_RANK)
        return grown(found, self._columns, rows)

    def _settings(self, rows: Sequence[int]) -> tuple[bool, float]:
        """Return whether to compare estimates, and a leaf's penalty.

        They are those that do best on rows left out; of equals, the simplest.
        """
        if len(rows) < _LEAST_FOR_FOLDS:
            return len(rows) >= _LEAST_FOR_ESTIMATES, _SMALL_PENALTY
        lost = {
            (estimated, penalty): 0.0
            for estimated in (False, True)
            for penalty in reversed(_PENALTIES)
        }
        for fold in range(_FOLDS):
            kept = [row for row in rows if _fold(row) != fold]
            left_out = [row for row in rows if _fold(row) == fold]
            for estimated in (False, True):
                tree = self._grown(kept, estimated)
                for penalty in _PENALTIES:
                    smaller = pruned(tree, penalty * len(kept) / len(rows))
                    lost[estimated, penalty] += sum(
                        self._losses[row][smaller.at(row)] for row in left_out
                    )
        least = min(lost.values()) + 1e-9
        return next(setting for setting, value in lost.items() if value <= least)


def _fold(row: int) -> int:
    # Samples may come in a pattern; a multiplicative hash (Knuth) breaks it.
    return (row * 2654435761 % 2**32) * _FOLDS >> 32
