"""Decision trees that pick the choice with the least loss, and the features they use."""

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import accumulate
from operator import mul, sub

from attrs import frozen

from wrapperir.ir import Expr, ExprOp, Operation, Symbol, compare, mod, product
from wrapperir.ir import mul as times

DEEPEST = 12
"""The maximum depth of a tree."""

_LEAST_ROWS = 2
_PER_RANK = 0.03
_SPREAD = 0.3
_FAR = 0.7
"""Losses above this, twice the best time, count alike in the spread."""
_PLACES = 64
_NOTHING = 1e-9

_REMAINDERS = (2, 4, 8, 16, 32, 64, 128, 256)
_TAILS = (4, 8, 16, 32, 64, 128)
_MOST_FACTORS = 3
_MANY_SIZES = 5
_LARGEST = 1 << 44
"""Bound of terms at the samples, so that they fit in 64 bits at much larger shapes, too."""


@frozen
class Term:
    """An expression over the sizes and its value at each sample."""

    expr: Expr
    values: tuple[int, ...]


@frozen
class Feature:
    """A number that a split compares with a threshold: ``term``, or its ratio to ``to``.

    ``ratios`` has the number at each sample.  Of features that split alike, the one with
    the lowest ``rank``, the simplest, is taken.
    """

    term: Term
    to: Term | None
    ratios: tuple[float, ...]
    rank: int


def features_of(names: Sequence[str], samples: Sequence[tuple[int, ...]]) -> list[Feature]:
    """Return the features by which a tree may split samples.

    These are sizes, products of two, of three and of all sizes, ratios of two, remainders
    by powers of two, and the ratios of these remainders to their sizes: kernels that
    process blocks treat the remainder after the last whole block differently.
    """
    symbols = [Symbol(name) for name in names]
    columns = [tuple(column) for column in zip(*samples, strict=True)]
    sizes = [Term(s, column) for s, column in zip(symbols, columns, strict=True)]
    found = [_feature(size, None, 0) for size in sizes]
    for factors in _subsets(len(names)):
        expr = product(tuple(symbols[at] for at in factors))
        values = tuple(math.prod(sample[at] for at in factors) for sample in samples)
        found.append(_feature(Term(expr, values), None, len(factors)))
    for first, second in itertools.combinations(sizes, 2):
        found.append(_feature(first, second, 2))
    for size in sizes:
        for block in _REMAINDERS:
            left = Term(mod(size.expr, block), tuple(n % block for n in size.values))
            found.append(_feature(left, None, 3))
            if block in _TAILS:
                found.append(_feature(left, size, 4))
    return [
        item
        for item in found
        if max(map(abs, item.term.values)) <= _LARGEST and len(set(item.ratios)) > 1
    ]


def _feature(term: Term, to: Term | None, rank: int) -> Feature:
    below = to.values if to is not None else (1,) * len(term.values)
    ratios = tuple(a / max(b, 1) for a, b in zip(term.values, below, strict=True))
    return Feature(term, to, ratios, rank)


def _subsets(count: int) -> Iterator[tuple[int, ...]]:
    """Yield positions of sizes to multiply: all pairs, triples unless too many."""
    most = _MOST_FACTORS if count <= _MANY_SIZES else 2
    for factors in range(2, most + 1):
        yield from itertools.combinations(range(count), factors)
    if count > most:
        yield tuple(range(count))


@frozen
class Condition:
    """The condition that a feature is at most a threshold, computed with integers."""

    feature: Feature
    threshold: Fraction

    def holds(self, row: int) -> bool:
        """Return whether the condition holds at a sample."""
        term, to = self.feature.term, self.feature.to
        below = 1 if to is None else to.values[row]
        limit = self.threshold
        return term.values[row] * limit.denominator <= limit.numerator * below

    def expr(self) -> Expr:
        """Return the condition as an expression."""
        term, to, limit = self.feature.term.expr, self.feature.to, self.threshold
        if limit == 0 and isinstance(term, Operation) and term.op is ExprOp.MOD:
            return compare(ExprOp.EQ, term, 0)
        right = limit.numerator if to is None else times(limit.numerator, to.expr)
        return compare(ExprOp.LE, times(limit.denominator, term), right)


@frozen
class Tree:
    """A node: the best choice of the rows it was grown from, and a split of them if any.

    ``loss`` is the sum of the choice's losses at these rows.
    """

    choice: int
    loss: float
    split: "tuple[Condition, Tree, Tree] | None" = None

    @property
    def leaves(self) -> int:
        """The number of leaves."""
        return 1 if self.split is None else sum(side.leaves for side in self.split[1:])

    @property
    def total(self) -> float:
        """The sum of the losses of its leaves."""
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


class Losses:
    """The loss of each choice at each sample."""

    def __init__(self, rows: Sequence[Sequence[float]]) -> None:
        """Take the losses of each sample."""
        self.columns = [list(column) for column in zip(*rows, strict=True)]
        self.near = [[min(lost, _FAR) for lost in column] for column in self.columns]


def grow_tree(
    features: Sequence[Feature], losses: Losses, rows: Sequence[int], depth: int = 0
) -> Tree:
    """Return a tree grown as in CART (Breiman, Friedman, Olshen, Stone 1984).

    Each split maximises the decrease of the loss of both sides' best choices.  A split may
    pay off only through later ones, so the decrease of the spread of losses, as in
    regression trees, counts with a small weight.
    """
    sums = [math.fsum(map(column.__getitem__, rows)) for column in losses.columns]
    loss = min(sums)
    leaf = Tree(sums.index(loss), loss)
    if depth == DEEPEST or loss <= _NOTHING or len(rows) < 2 * _LEAST_ROWS:
        return leaf
    condition = _best_split(features, losses, rows, sums)
    if condition is None:
        return leaf
    yes = [row for row in rows if condition.holds(row)]
    no = [row for row in rows if not condition.holds(row)]
    if not yes or not no:
        return leaf
    first = grow_tree(features, losses, yes, depth + 1)
    return Tree(
        leaf.choice, loss, (condition, first, grow_tree(features, losses, no, depth + 1))
    )


def prune_tree(tree: Tree, penalty: float) -> Tree:
    """Return a tree without splits that lower the loss by less than their leaves cost.

    The result never loses more than the single choice at its root.
    """
    if tree.split is None:
        return tree
    condition, yes, no = tree.split
    kept = Tree(
        tree.choice,
        tree.loss,
        (condition, prune_tree(yes, penalty), prune_tree(no, penalty)),
    )
    if kept.total + penalty * kept.leaves >= tree.loss + penalty:
        return Tree(tree.choice, tree.loss)
    return kept


def _best_split(
    features: Sequence[Feature],
    losses: Losses,
    rows: Sequence[int],
    sums: Sequence[float],
) -> Condition | None:
    """Return the split with the largest gain, or ``None`` where no split gains."""
    scale = _Gain(losses, rows, sums)
    most = _NOTHING
    best: tuple[Feature, float, float] | None = None
    for feature in features:
        ratios = feature.ratios
        order = sorted(rows, key=ratios.__getitem__)
        places = [
            place
            for place in range(_LEAST_ROWS, len(order) - _LEAST_ROWS + 1)
            if ratios[order[place - 1]] < ratios[order[place]]
        ]
        if not places:
            continue
        gain, place = scale.best(order, places)
        gain -= _PER_RANK * feature.rank
        if gain > most + _NOTHING:
            most, best = gain, (feature, ratios[order[place - 1]], ratios[order[place]])
    if best is None:
        return None
    feature, low, high = best
    return Condition(feature, threshold_between(low, high, whole=feature.to is None))


class _Gain:
    """The gains of splitting some rows in two."""

    def __init__(self, losses: Losses, rows: Sequence[int], sums: Sequence[float]) -> None:
        self._losses = losses
        self._sums = sums
        self._near = [sum(map(column.__getitem__, rows)) for column in losses.near]
        self._loss = min(sums)
        self._spread = sum(map(mul, self._near, self._near)) / len(rows)

    def best(self, order: Sequence[int], places: Sequence[int]) -> tuple[float, int]:
        """Return the largest gain, and the position of the first row of the right side.

        Where there are many positions, some are tried first, then all around the best.
        """
        count = len(order)
        lost = [
            list(accumulate(map(column.__getitem__, order)))
            for column in self._losses.columns
        ]
        near = [
            list(accumulate(map(column.__getitem__, order))) for column in self._losses.near
        ]

        def gain(at: int) -> float:
            place = places[at]
            left = [column[place - 1] for column in lost]
            close = [column[place - 1] for column in near]
            rest = list(map(sub, self._near, close))
            less = self._loss - min(left) - min(map(sub, self._sums, left))
            spread = sum(map(mul, close, close)) / place
            spread += sum(map(mul, rest, rest)) / (count - place)
            return float(less + _SPREAD * (spread - self._spread))

        stride = max(1, len(places) // _PLACES)
        found = max(range(0, len(places), stride), key=gain)
        around = range(max(0, found - stride + 1), min(len(places), found + stride))
        if stride > 1:
            found = max(around, key=gain)
        return gain(found), places[found]


def threshold_between(low: float, high: float, *, whole: bool) -> Fraction:
    """Return a simple number that is at least ``low`` and less than ``high``.

    It is taken from the middle third of the gap on a logarithmic scale.  A ``whole`` number
    has the fewest significant bits, and a fraction the least denominator.
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

    It descends the Stern-Brocot tree by continued fractions.
    """
    if low >= high:
        return low
    floor = low.numerator // low.denominator
    if low == floor:
        return Fraction(floor)
    if floor + 1 < high:
        return Fraction(floor + 1)
    # Reciprocals of the parts above floor: the ends swap, the upper one stays excluded.
    below = high - floor
    inner = _simplest(1 / below, 1 / (low - floor))
    return floor + 1 / inner
