"""Placements of storages in pools, and the live placements of each pool.

Offsets and sizes may be symbolic.  Each placement has *spans*, ranges of integers in some
unit.  Two placements certainly overlap if they have overlapping spans in one unit.  A span
in bytes has the bytes that the placement occupies for all values of the symbols.  A span
in multiples of a polynomial is exact, where begin and end are such multiples.  Placements
without a common unit are compared pair by pair, as polynomials, within a budget.
"""

from collections.abc import Iterator
from math import gcd
from typing import TYPE_CHECKING, TypeAlias

from attrs import define, field, frozen

from wrapperir.analysis.arithmetic import (
    Bound,
    Polynomial,
    Polynomials,
    Unknown,
    combine,
)
from wrapperir.analysis.range_map import RangeMap
from wrapperir.diagnostics import LinePath
from wrapperir.ir import Expr, PoolType, Symbol, TensorType
from wrapperir.verify.comparison import storage_bytes
from wrapperir.verify.layouts import Layouts

if TYPE_CHECKING:
    from wrapperir.verify.state import LineScope, StorageFacts, ValueFacts

SpanUnit: TypeAlias = frozenset[tuple[tuple[Unknown, ...], int]] | None
"""The unit of a span: a polynomial, or ``None`` for bytes."""


@frozen
class PlacedSpan:
    """A range of a placement, in units that are certainly greater than zero."""

    unit: SpanUnit
    begin: int
    end: int


@frozen(eq=False)
class PlacedExtent:
    """The bytes of a placement.

    ``latest`` is an upper bound of its begin, ``earliest`` a lower bound of its end.  Where
    these are not constant, ``begin`` and ``end`` are their polynomials, and ``unit`` is the
    polynomial that both are multiples of, if there is one.
    """

    spans: tuple[PlacedSpan, ...]
    latest: Bound
    earliest: Bound
    begin: Polynomial | None = None
    end: Polynomial | None = None
    at_least_one: frozenset[str] = frozenset()
    unit: SpanUnit = None


@define(eq=False)
class PoolContents:
    """The live placements of a pool, by span.

    ``symbolic`` has the placements whose bytes are not constant, by unit.
    """

    spans: dict[SpanUnit, RangeMap["Placement"]] = field(
        factory=dict[SpanUnit, RangeMap["Placement"]]
    )
    symbolic: dict[SpanUnit, dict[int, "Placement"]] = field(
        factory=dict[SpanUnit, dict[int, "Placement"]]
    )

    def enter(self, placement: "Placement") -> None:
        """Add a placement that does not overlap a live one."""
        extent = placement.extent
        if extent is None:
            return
        for span in extent.spans:
            spans = self.spans.get(span.unit)
            if spans is None:
                spans = self.spans[span.unit] = RangeMap()
            spans.insert(span.begin, span.end, placement)
        if extent.begin is not None:
            self.symbolic.setdefault(extent.unit, {})[id(placement)] = placement

    def leave(self, placement: "Placement") -> None:
        """Remove a placement."""
        extent = placement.extent
        if extent is None:
            return
        for span in extent.spans:
            self.spans[span.unit].remove(span.begin)
        if extent.begin is not None:
            group = self.symbolic[extent.unit]
            del group[id(placement)]
            if not group:
                del self.symbolic[extent.unit]

    def overlapping(self, spans: tuple[PlacedSpan, ...]) -> Iterator["Placement"]:
        """Yield the live placements that overlap one of ``spans``."""
        for span in spans:
            ranges = self.spans.get(span.unit)
            if ranges is not None:
                for _, _, placement in ranges.overlapping(span.begin, span.end):
                    yield placement

    def incomparable(self, unit: SpanUnit) -> Iterator["Placement"]:
        """Yield the symbolic placements that spans in ``unit`` are not compared with."""
        for other, group in self.symbolic.items():
            if unit is None or other != unit:
                yield from group.values()


@define(eq=False)
class Placement:
    """A storage's place in a pool.

    ``pool`` is the storage of the pool, ``lender`` the block parameter that it belongs to,
    if any.  ``names`` counts the names that keep the storage alive; ``ended`` is the line
    that dropped the last one.  ``extent`` is ``None`` where the bytes are unknown or there
    are none, or after an overlap was reported.  ``alignment`` is the alignment of the
    address in bytes, where the offset is constant.
    """

    owner: "ValueFacts"
    pool: "StorageFacts"
    lender: "ValueFacts | None"
    extent: PlacedExtent | None = None
    names: int = 1
    ended: LinePath | None = None
    alignment: int | None = None

    def drop(self, scope: "LineScope") -> None:
        """Drop a name; the last name of a placement is one of its pool, too."""
        placement: Placement | None = self
        while placement is not None:
            placement.names -= 1
            if placement.names:
                return
            placement.ended = (*scope.path, scope.index)
            if placement.pool.pool is not None:
                placement.pool.pool.leave(placement)
            placement = placement.pool.placement


def extent_of(
    layouts: Layouts, type: TensorType | PoolType, offset: Expr
) -> PlacedExtent | None:
    """Return the bytes of a sound type at an offset; ``None`` where there are none."""
    facts = layouts.of(type)
    if facts.reach == 0:
        return None
    if isinstance(offset, int) and facts.reach is not None:
        end = offset + facts.reach
        return PlacedExtent((PlacedSpan(None, offset, end),), offset, end)
    size = storage_bytes(layouts, type)
    if size is None:
        return None
    polynomials = layouts.expressions.polynomials
    begin = polynomials.of(offset)
    end_bytes = combine(begin, size)
    sizes = type.size if isinstance(type, TensorType) else (type.size,)
    at_least_one = frozenset(size.name for size in sizes if isinstance(size, Symbol))
    latest = polynomials.bounds(begin, at_least_one)[1]
    earliest = polynomials.bounds(end_bytes, at_least_one)[0]
    spans: list[PlacedSpan] = []
    if isinstance(latest, int) and isinstance(earliest, int) and latest < earliest:
        spans.append(PlacedSpan(None, latest, earliest))
    multiples = _multiples(polynomials, begin, size, at_least_one)
    if multiples is not None:
        spans.append(multiples)
    unit = None if multiples is None else multiples.unit
    return PlacedExtent(
        tuple(spans), latest, earliest, begin, end_bytes, at_least_one, unit
    )


def _multiples(
    polynomials: Polynomials,
    begin: Polynomial,
    size: Polynomial,
    at_least_one: frozenset[str],
) -> PlacedSpan | None:
    """Return the span in units of the size's primitive part, if the begin is a multiple."""
    content = gcd(*size.values())
    if not content or list(size) == [()]:
        return None
    unit = {monomial: n // content for monomial, n in size.items()}
    times = 0
    if begin:
        monomial, first = next(iter(unit.items()))
        times, rest = divmod(begin.get(monomial, 0), first)
        if rest or begin != {monomial: n * times for monomial, n in unit.items()}:
            return None
    if polynomials.bounds(unit, at_least_one)[0] <= 0:
        return None
    return PlacedSpan(frozenset(unit.items()), times, times + content)


def certainly_overlap(
    polynomials: Polynomials, left: PlacedExtent, right: PlacedExtent
) -> bool:
    """Say whether two extents share a byte whatever the symbols are."""
    if left.begin is None or left.end is None or right.begin is None or right.end is None:
        return left.latest < right.earliest and right.latest < left.earliest
    known = left.at_least_one | right.at_least_one
    return (
        polynomials.bounds(combine(right.end, left.begin, -1), known)[0] > 0
        and polynomials.bounds(combine(left.end, right.begin, -1), known)[0] > 0
    )


def certain_excess(
    layouts: Layouts, pool: PoolType, offset: Expr, extent: PlacedExtent | None
) -> bool:
    """Say whether a placement certainly ends after its pool does."""
    polynomials = layouts.expressions.polynomials
    size = layouts.of(pool).reach
    if extent is not None and extent.begin is None and size is not None:
        return extent.earliest > size
    if isinstance(offset, int) and extent is None and size is not None:
        return offset > size
    end = polynomials.of(offset)
    known: frozenset[str] = frozenset()
    if extent is not None:
        known = extent.at_least_one
        if extent.end is not None:
            end = extent.end
        elif isinstance(extent.earliest, int):
            end = {(): extent.earliest}
    excess = combine(end, polynomials.of(pool.size), -1)
    return polynomials.bounds(excess, known)[0] > 0
