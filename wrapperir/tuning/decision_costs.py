"""Estimates of what kernels take: weighted sums of terms, fitted to times."""

import math
from collections.abc import Sequence
from operator import mul

from wrapperir.ir.expr import Expr, ExprOp, Operation
from wrapperir.ir.expr import mul as times
from wrapperir.tuning.decision_terms import Feature, Term

MOST_TERMS = 20
_LEAST_GAIN = 0.005
_DIGITS = 1000.0
_MOST_COMPARED = 6


def estimate_features(
    terms: Sequence[Term],
    microseconds: Sequence[Sequence[float | None]],
    rows: Sequence[int],
    rank: int,
) -> list[Feature]:
    """Return ratios of the estimated times of two choices, for all that may be best.

    The estimates are fitted to ``rows`` only, and are numbers for all rows.  Splits by
    such a ratio are those by a linear combination of Breiman, Friedman, Olshen and Stone,
    "Classification and Regression Trees" (1984), 5.2.2, with the combinations given by
    models of the times.
    """
    choices = _competing(microseconds, rows)
    weights = [
        _fitted(terms, [times[choice] for times in microseconds], rows)
        for choice in choices
    ]
    smallest = min((w for found in weights for w, _ in found), default=1.0)
    heaviest = max((w for found in weights for w, _ in found), default=1.0)
    # Enough digits for the smallest weights, as far as the largest stay small, too.
    unit = max(smallest / 16, heaviest / 2**24)
    totals = [_total(terms, found, unit) for found in weights]
    features: list[Feature] = []
    for at, first in enumerate(totals):
        for second in totals[:at]:
            ratios = tuple(
                a / max(b, 1) for a, b in zip(first.values, second.values, strict=True)
            )
            if len(set(ratios)) > 1:
                features.append(Feature(first, second, ratios, rank))
    return features


def _competing(
    microseconds: Sequence[Sequence[float | None]], rows: Sequence[int]
) -> list[int]:
    """Return the choices that are the best of some row, the most frequent first."""
    wins: dict[int, int] = {}
    for row in rows:
        known = [math.inf if time is None else time for time in microseconds[row]]
        best = known.index(min(known))
        wins[best] = wins.get(best, 0) + 1
    return sorted(wins, key=lambda choice: (-wins[choice], choice))[:_MOST_COMPARED]


def _total(
    terms: Sequence[Term], weights: Sequence[tuple[float, int]], unit: float
) -> Term:
    exprs: list[Expr] = []
    values = [0] * len(terms[0].values)
    for weight, at in weights:
        factor = _rounded(weight / unit)
        if factor:
            exprs.append(times(factor, terms[at].expr))
            for row, value in enumerate(terms[at].values):
                values[row] += factor * value
    if len(exprs) < 2:
        return Term(exprs[0] if exprs else 0, tuple(values))
    return Term(Operation(ExprOp.ADD, tuple(exprs)), tuple(values))


def _rounded(factor: float) -> int:
    """Return a whole number with three digits that matter."""
    if factor < _DIGITS:
        return round(factor)
    step = int(10 ** (math.floor(math.log10(factor)) - 2))
    return round(factor / step) * step


def _fitted(
    terms: Sequence[Term], microseconds: Sequence[float | None], rows: Sequence[int]
) -> list[tuple[float, int]]:
    """Return weights, none negative, and the positions of their terms.

    They are found by orthogonal matching pursuit with non-negative weights (Bruckstein,
    Elad and Zibulevsky 2008): the term that the rest correlates with most comes next, then
    all weights are fitted anew, to the least sum of squared relative errors.
    """
    known = [(row, time) for row in rows if (time := microseconds[row]) is not None]
    scale = [1 / max(time, 1e-6) for _, time in known]
    columns = [
        list(map(mul, [float(term.values[row]) for row, _ in known], scale))
        for term in terms
    ]
    norms = [math.sqrt(sum(map(mul, column, column))) for column in columns]
    rest = [1.0] * len(known)
    error = float(len(known))
    active: list[int] = []
    weights: list[float] = []
    gram: list[list[float]] = []
    aims: list[float] = []
    while len(active) < MOST_TERMS:
        best, most = -1, 1e-9
        for at, column in enumerate(columns):
            if norms[at] > 0 and at not in active:
                gain = sum(map(mul, column, rest)) / norms[at]
                if gain > most:
                    best, most = at, gain
        if best < 0:
            break
        column = columns[best]
        row = [sum(map(mul, column, columns[at])) for at in active]
        for line, value in zip(gram, row, strict=True):
            line.append(value)
        gram.append([*row, norms[best] ** 2])
        aims.append(sum(column))
        active.append(best)
        weights.append(0.0)
        _descend(gram, aims, weights)
        rest = [1.0] * len(known)
        for at, weight in zip(active, weights, strict=True):
            if weight:
                rest = [
                    value - weight * x for value, x in zip(rest, columns[at], strict=True)
                ]
        squared = sum(map(mul, rest, rest))
        if squared > error * (1 - _LEAST_GAIN):
            break
        error = squared
    return [(w, at) for w, at in zip(weights, active, strict=True) if w > 0]


def _descend(
    gram: Sequence[Sequence[float]], aims: Sequence[float], weights: list[float]
) -> None:
    """Fit weights, none negative, by descent along one coordinate after another."""
    for _ in range(200):
        moved = 0.0
        for at, line in enumerate(gram):
            slope = sum(map(mul, line, weights)) - aims[at]
            new = max(0.0, weights[at] - slope / line[at])
            moved = max(moved, abs(new - weights[at]) * math.sqrt(line[at]))
            weights[at] = new
        if moved < 1e-6:
            return
