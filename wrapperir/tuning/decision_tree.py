"""Trees that pick the choice with the least loss: grown, pruned, written."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from attrs import frozen

from wrapperir.ir.expr import Expr, ExprOp, Operation, compare, mul
from wrapperir.tuning.decision_terms import Feature

DEEPEST = 12
"""How many conditions a tree has one after another at most."""

_LEAST_ROWS = 2
_PER_RANK = 0.01
_NOTHING = 1e-9


@frozen
class Condition:
    """Whether a feature is at most a threshold, computed with whole numbers."""

    feature: Feature
    threshold: Fraction

    def holds(self, row: int) -> bool:
        """Say whether it is so at a sample."""
        term, to = self.feature.term, self.feature.to
        below = 1 if to is None else to.values[row]
        limit = self.threshold
        return term.values[row] * limit.denominator <= limit.numerator * below

    def expr(self) -> Expr:
        """Return the condition as an expression."""
        term, to, limit = self.feature.term.expr, self.feature.to, self.threshold
        right = limit.numerator if to is None else mul(limit.numerator, to.expr)
        return compare(ExprOp.LE, mul(limit.denominator, term), right)


@frozen
class Tree:
    """The best choice of the rows it was grown from, and a split of them if there is one.

    ``loss`` is that of the choice at all of those rows together.
    """

    choice: int
    loss: float
    split: "tuple[Condition, Tree, Tree] | None" = None

    @property
    def leaves(self) -> int:
        """How many choices it ends in."""
        return 1 if self.split is None else sum(side.leaves for side in self.split[1:])

    @property
    def total(self) -> float:
        """The loss of its leaves together."""
        if self.split is None:
            return self.loss
        return sum(side.total for side in self.split[1:])

    def at(self, row: int) -> int:
        """Return the choice at a sample."""
        tree = self
        while tree.split is not None:
            condition, yes, no = tree.split
            tree = yes if condition.holds(row) else no
        return tree.choice

    def expr(self) -> Expr:
        """Return the tree as an expression of ``where``."""
        if self.split is None:
            return self.choice
        condition, yes, no = self.split
        first, second = yes.expr(), no.expr()
        if first == second:
            return first
        return Operation(ExprOp.WHERE, (condition.expr(), first, second))


Losses = Sequence[Sequence[float]]
"""What each choice loses at each sample."""


def grown(
    features: Callable[[Sequence[int]], Sequence[Feature]],
    losses: Losses,
    rows: Sequence[int],
    depth: int = 0,
) -> Tree:
    """Return a tree whose every split lowers the loss the most, as CART's do.

    ``features`` gives what may be compared at some rows.  See Breiman, Friedman, Olshen
    and Stone, "Classification and Regression Trees" (1984); the impurity of rows is the
    loss of the one choice that is best for them.
    """
    sums = _sums(losses, rows)
    loss = min(sums)
    leaf = Tree(sums.index(loss), loss)
    if depth == DEEPEST or loss <= _NOTHING or len(rows) < 2 * _LEAST_ROWS:
        return leaf
    condition = _best_split(features(rows), losses, rows, sums)
    if condition is None:
        return leaf
    yes = [row for row in rows if condition.holds(row)]
    no = [row for row in rows if not condition.holds(row)]
    if not yes or not no:
        return leaf
    first = grown(features, losses, yes, depth + 1)
    return Tree(
        leaf.choice, loss, (condition, first, grown(features, losses, no, depth + 1))
    )


def pruned(tree: Tree, penalty: float) -> Tree:
    """Return a tree without the splits that lower the loss by less than their leaves cost.

    What is left never loses more than the one choice at its root.
    """
    if tree.split is None:
        return tree
    condition, yes, no = tree.split
    kept = Tree(
        tree.choice,
        tree.loss,
        (condition, pruned(yes, penalty), pruned(no, penalty)),
    )
    if kept.total + penalty * kept.leaves >= tree.loss + penalty:
        return Tree(tree.choice, tree.loss)
    return kept


def _sums(losses: Losses, rows: Sequence[int]) -> list[float]:
    return [
        math.fsum(column) for column in zip(*(losses[row] for row in rows), strict=True)
    ]


def _best_split(
    features: Sequence[Feature],
    losses: Losses,
    rows: Sequence[int],
    sums: Sequence[float],
) -> Condition | None:
    """Return the split with the least loss; where there is none, ``None``."""
    least = min(sums) - _NOTHING
    best: tuple[Feature, float, float] | None = None
    for feature in features:
        ratios = feature.ratios
        order = sorted(rows, key=ratios.__getitem__)
        if ratios[order[0]] == ratios[order[-1]]:
            continue
        handicap = _PER_RANK * feature.rank
        left = [0.0] * len(sums)
        last = len(order) - _LEAST_ROWS
        for place in range(1, last + 1):
            row = order[place - 1]
            left = [a + b for a, b in zip(left, losses[row])]  # noqa: B905
            low, high = ratios[row], ratios[order[place]]
            if place < _LEAST_ROWS or low == high:
                continue
            found = min(left) + handicap
            if found < least:
                found += min([a - b for a, b in zip(sums, left)])  # noqa: B905
                if found < least - _NOTHING:
                    least, best = found, (feature, low, high)
    if best is None:
        return None
    feature, low, high = best
    return Condition(feature, threshold_between(low, high, whole=feature.to is None))


def threshold_between(low: float, high: float, *, whole: bool) -> Fraction:
    """Return a simple number that is at least ``low`` and less than ``high``.

    It is taken from the middle of the gap, as its logarithm goes.  ``whole`` ones have as
    few binary digits as there are; of others the denominator is the least.
    """
    start, end = low, high
    if low > 0:
        third = (high / low) ** (1 / 3)
        start, end = low * third, high / third
    if whole:
        first, last = math.ceil(start), math.ceil(end) - 1
        if first > last:
            first, last = math.ceil(low), math.ceil(high) - 1
        for digits in range(last.bit_length(), -1, -1):
            number = last >> digits << digits
            if number >= first:
                return Fraction(number)
        return Fraction(first)
    return _simplest(Fraction(start), Fraction(end))


def _simplest(low: Fraction, high: Fraction) -> Fraction:
    """Return the fraction with the least denominator in ``[low, high)``.

    It walks down the tree of Stern and Brocot, as continued fractions do.
    """
    if low >= high:
        return low
    floor = low.numerator // low.denominator
    if low == floor:
        return Fraction(floor)
    if floor + 1 < high:
        return Fraction(floor + 1)
    # 1/x of what is above floor, with the ends exchanged; the upper end stays out.
    below = high - floor
    inner = _simplest(1 / below, 1 / (low - floor))
    return floor + 1 / inner
