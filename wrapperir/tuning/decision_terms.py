"""Features of a call's sizes that a decision tree can compare."""

import itertools
import math
from collections.abc import Iterator, Sequence

from attrs import frozen

from wrapperir.ir import Expr, Symbol, mod, product

Sizes = tuple[int, ...]

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


def features_of(names: Sequence[str], samples: Sequence[Sizes]) -> list[Feature]:
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
