"""Whole numbers that follow from a call's sizes: what a decision may compare."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

from attrs import frozen

from wrapperir.ir.expr import (
    Expr,
    ExprOp,
    Operation,
    Symbol,
    ceildiv,
    compare,
    maximum,
    mod,
    product,
    sub,
)

Sizes = tuple[int, ...]

BLOCKS = (4, 8, 16, 32, 64, 128)
"""The blocks that kernels may go by: what is left of a size after them costs."""

_REMAINDERS = (2, 4, 8, 16, 32, 64, 128, 256)
_TILES = (32, 64, 128, 256)
_ALIGNED = (128, 256, 512, 1024)
_MOST_FACTORS = 3
_MANY_SIZES = 5
_LARGEST = 1 << 44
"""Terms stay below this at the samples, so that weighted sums of them at shapes some
times larger still fit in 64 bits."""


@frozen
class Term:
    """An expression over the sizes and its value at each sample."""

    expr: Expr
    values: tuple[int, ...]


@frozen
class Feature:
    """What a split compares: ``term``, or its ratio to ``to``, with a threshold.

    ``ratios`` are that number at each sample.  ``rank`` orders features that split alike:
    simple ones come first.
    """

    term: Term
    to: Term | None
    ratios: tuple[float, ...]
    rank: int


def plain_features(names: Sequence[str], samples: Sequence[Sizes]) -> list[Feature]:
    """Return sizes, products, ratios, remainders and tails, those that differ at all."""
    terms = _Terms(names, samples)
    one = [terms.product((at,)) for at in range(len(names))]
    found = [_feature(term, None, 0) for term in one]
    for factors in _subsets(len(names)):
        if len(factors) > 1:
            found.append(_feature(terms.product(factors), None, len(factors)))
    for first, second in itertools.combinations(one, 2):
        found.append(_feature(first, second, 2))
    for at, size in enumerate(one):
        for block in _REMAINDERS:
            found.append(_feature(terms.remainder((at,), at, block), None, 3))
        for block in BLOCKS:
            found.append(_feature(terms.remainder((at,), at, block), size, 4))
    return [
        item
        for item in found
        if max(item.term.values) <= _LARGEST and len(set(item.ratios)) > 1
    ]


def cost_terms(names: Sequence[str], samples: Sequence[Sizes]) -> list[Term]:
    """Return what the time of a kernel may be a sum of, each with a factor.

    These are products of sizes; with one of them counted in whole blocks, or what is left
    after them, or two of all in tiles; what of a product is beyond a capacity; and all
    elements where a size is a multiple of a power of two, as strides are that share a
    cache's lines.
    """
    terms = _Terms(names, samples)
    found = [Term(1, (1,) * len(samples))]
    for factors in _subsets(len(names)):
        whole = terms.product(factors)
        found.append(whole)
        for at in factors:
            for block in BLOCKS:
                found.append(terms.remainder(factors, at, block))
                found.append(terms.blocks(factors, at, block))
        steps = range(3, 14, 2) if len(factors) == 1 else range(8, 24, 2)
        found.extend(terms.beyond(whole, 1 << step) for step in steps)
    everything = terms.product(tuple(range(len(names))))
    for pair in itertools.combinations(range(min(len(names), _MANY_SIZES)), 2):
        for tile in itertools.product(_TILES, _TILES):
            found.append(terms.tiles(pair, tile))
    for at in range(len(names)):
        for block in _ALIGNED:
            found.append(terms.aligned(everything, at, block))
    return [term for term in found if 0 < max(term.values) <= _LARGEST]


def _feature(term: Term, to: Term | None, rank: int) -> Feature:
    below = to.values if to is not None else (1,) * len(term.values)
    return Feature(
        term,
        to,
        tuple(a / max(b, 1) for a, b in zip(term.values, below, strict=True)),
        rank,
    )


def _subsets(count: int) -> Iterator[tuple[int, ...]]:
    """Yield what may be multiplied: all pairs and triples, unless there are too many."""
    most = _MOST_FACTORS if count <= _MANY_SIZES else 2
    for factors in range(1, most + 1):
        yield from itertools.combinations(range(count), factors)
    if count > most:
        yield tuple(range(count))


class _Terms:
    """Makes terms over the sizes of some samples."""

    def __init__(self, names: Sequence[str], samples: Sequence[Sizes]) -> None:
        self._symbols = [Symbol(name) for name in names]
        self._samples = samples

    def product(self, factors: Sequence[int]) -> Term:
        expr = product(tuple(self._symbols[at] for at in factors))
        return Term(
            expr, tuple(math.prod(sizes[at] for at in factors) for sizes in self._samples)
        )

    def remainder(self, factors: Sequence[int], of: int, block: int) -> Term:
        """Return a product with a factor replaced by what is left of it after blocks."""
        return self._with(factors, of, mod(self._symbols[of], block), lambda n: n % block)

    def blocks(self, factors: Sequence[int], of: int, block: int) -> Term:
        """Return a product with a factor counted in blocks, begun ones included."""
        counted = ceildiv(self._symbols[of], block)
        return self._with(factors, of, counted, lambda n: -(-n // block))

    def tiles(self, pair: tuple[int, ...], tile: tuple[int, ...]) -> Term:
        """Return the product of all sizes, with two of them counted in blocks."""
        blocks = dict(zip(pair, tile, strict=True))
        exprs = [
            ceildiv(symbol, blocks[at]) if at in blocks else symbol
            for at, symbol in enumerate(self._symbols)
        ]
        return Term(
            product(tuple(exprs)),
            tuple(
                math.prod(-(-size // blocks.get(at, 1)) for at, size in enumerate(sizes))
                for sizes in self._samples
            ),
        )

    def _with(
        self, factors: Sequence[int], of: int, expr: Expr, count: Callable[[int], int]
    ) -> Term:
        others = [at for at in factors if at != of]
        return Term(
            product((*(self._symbols[at] for at in others), expr)),
            tuple(
                count(sizes[of]) * math.prod(sizes[at] for at in others)
                for sizes in self._samples
            ),
        )

    def beyond(self, term: Term, capacity: int) -> Term:
        return Term(
            maximum(0, sub(term.expr, capacity)),
            tuple(max(0, value - capacity) for value in term.values),
        )

    def aligned(self, term: Term, at: int, block: int) -> Term:
        condition = compare(ExprOp.EQ, mod(self._symbols[at], block), 0)
        return Term(
            Operation(ExprOp.WHERE, (condition, term.expr, 0)),
            tuple(
                value if sizes[at] % block == 0 else 0
                for value, sizes in zip(term.values, self._samples, strict=True)
            ),
        )
