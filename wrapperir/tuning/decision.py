"""Decision trees learned from the times of choices at many sizes."""

import math
from collections.abc import Sequence

from attrs import frozen

from wrapperir.ir import Expr
from wrapperir.tuning.decision_terms import Feature, features_of
from wrapperir.tuning.decision_tree import Losses, grow_tree, prune_tree

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


def learn_decision(names: Sequence[str], samples: Sequence[Sample]) -> Expr:
    """Return a decision tree over ``names`` for calls of any size.

    ``names`` are the names of the samples' sizes, in order.  All samples have times of the
    same choices; the leaves of the tree are positions of choices.  The loss of a choice at
    a sample is ``log(t / t_best)``, or ``log(1000)`` where it failed.  The tree minimises
    the sum of losses and never loses more on the samples than the best single choice.

    This is CART (Breiman, Friedman, Olshen and Stone 1984) with costs in place of classes:
    a tree is grown by splits over :func:`~wrapperir.tuning.decision_terms.features_of` the
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
