"""Windows of poolings along one dimension: the positions that each result reads.

Backward, the windows that a position belongs to are neighbours: *candidates* are counted
from one of them, and some may be others or not exist.
"""

from typing import TypeAlias

from attrs import frozen

from wrapperir.frontend.lowering.element_positions import less, within
from wrapperir.frontend.lowering.nest_builder import NestBuilder
from wrapperir.ir import (
    Expr,
    add,
    ceildiv,
    floordiv,
    maximum,
    minimum,
    mul,
    sub,
)


@frozen(kw_only=True)
class FixedWindow:
    """Windows of one length; padding may surround the source."""

    source: Expr
    results: Expr
    kernel: int
    stride: int
    padding: int
    dilation: int = 1

    @property
    def length(self) -> Expr:
        """The number of offsets in a window."""
        return self.kernel

    @property
    def candidates(self) -> Expr:
        """The number of windows that may have one position."""
        return self._reach // self.stride + 1

    @property
    def _reach(self) -> int:
        """The distance from the first to the last position of a window."""
        return (self.kernel - 1) * self.dilation

    @property
    def _ends_inside(self) -> bool:
        """Whether no window goes past the last position."""
        if not isinstance(self.results, int) or not isinstance(self.source, int):
            return False
        last = (self.results - 1) * self.stride - self.padding + self._reach
        return last < self.source

    def _start(self, result: Expr) -> Expr:
        return sub(mul(result, self.stride), self.padding)

    def position(self, result: Expr, offset: Expr) -> Expr:
        """Return the position at an offset of a window."""
        return add(self._start(result), mul(offset, self.dilation))

    def has_offset(
        self, builder: NestBuilder, result: Expr, offset: Expr
    ) -> list[str | None]:
        """Return the conditions for an offset of a window to be in the source."""
        found: list[str | None] = []
        if self.padding:
            at = add(mul(result, self.stride), mul(offset, self.dilation))
            found.append(within(builder, at, self.padding, None))
        if not self._ends_inside:
            found.append(less(builder, self.position(result, offset), self.source))
        return found

    def first_offset(self, result: Expr, offset: Expr) -> Expr:
        """Return an offset, or the first in the source where that is later."""
        if not self.padding:
            return offset
        before = maximum(sub(0, self._start(result)), 0)
        return maximum(offset, ceildiv(before, self.dilation))

    def candidate(self, position: Expr, number: Expr) -> Expr:
        """Return a window that may have a position."""
        return sub(floordiv(add(position, self.padding), self.stride), number)

    def has_position(
        self, builder: NestBuilder, result: Expr, position: Expr
    ) -> list[str | None]:
        """Return the conditions for a candidate to exist and to have the position."""
        found: list[str | None] = [less(builder, result, self.results)]
        if self.candidates != 1:
            found.append(less(builder, -1, result))
        if self.kernel % self.stride or self.dilation != 1:
            distance = sub(position, self._start(result))
            found.append(less(builder, distance, self._reach + 1))
        return found

    def span(self, result: Expr, *, counts_padding: bool) -> Expr:
        """Return how many positions a window has."""
        start = self._start(result)
        end = add(start, self.kernel)
        if not counts_padding:
            end = end if self._ends_inside else minimum(end, self.source)
            return sub(end, maximum(start, 0) if self.padding else start)
        ends = self.results
        if isinstance(ends, int) and isinstance(self.source, int):
            last = (ends - 1) * self.stride - self.padding + self.kernel
            if last <= self.source + self.padding:
                return self.kernel
        return sub(minimum(end, add(self.source, self.padding)), start)


@frozen(kw_only=True)
class AdaptiveWindow:
    """Windows that divide the source evenly; neighbours may share a position."""

    source: Expr
    results: Expr

    @property
    def length(self) -> Expr:
        """The number of offsets in a window; some may be outside of it."""
        return self._overlaps(self.source, self.results)

    @property
    def candidates(self) -> Expr:
        """The number of windows that may have one position."""
        return self._overlaps(self.results, self.source)

    @property
    def _is_aligned(self) -> bool:
        """Whether each window has whole parts of the source, or each part whole windows."""
        return _divides(self.results, self.source) or _divides(self.source, self.results)

    def _overlaps(self, whole: Expr, parts: Expr) -> Expr:
        """Return how many of ``whole`` positions touch one of ``parts`` equal parts."""
        if self._is_aligned:
            return floordiv(whole, parts) if _divides(parts, whole) else 1
        return add(ceildiv(whole, parts), 1)

    def position(self, result: Expr, offset: Expr) -> Expr:
        """Return the position at an offset of a window."""
        return add(floordiv(mul(result, self.source), self.results), offset)

    def has_offset(
        self, builder: NestBuilder, result: Expr, offset: Expr
    ) -> list[str | None]:
        """Return the conditions for an offset of a window to be in the source."""
        if self._is_aligned:
            return []
        return [less(builder, offset, self.span(result, counts_padding=False))]

    def first_offset(self, result: Expr, offset: Expr) -> Expr:
        """Return the offset."""
        return offset

    def candidate(self, position: Expr, number: Expr) -> Expr:
        """Return a window that may have a position."""
        return add(floordiv(mul(position, self.results), self.source), number)

    def has_position(
        self, builder: NestBuilder, result: Expr, position: Expr
    ) -> list[str | None]:
        """Return the conditions for a candidate to exist and to have the position."""
        if self._is_aligned:
            return []
        end = ceildiv(mul(add(position, 1), self.results), self.source)
        return [less(builder, result, end)]

    def span(self, result: Expr, *, counts_padding: bool) -> Expr:
        """Return how many positions a window has."""
        if self._is_aligned:
            return self.length
        end = ceildiv(mul(add(result, 1), self.source), self.results)
        return sub(end, self.position(result, 0))


Window: TypeAlias = FixedWindow | AdaptiveWindow
"""Windows along a dimension: ``results`` of them, over ``source`` positions."""


def _divides(divisor: Expr, number: Expr) -> bool:
    if not isinstance(divisor, int) or not isinstance(number, int):
        return False
    return divisor > 0 and number % divisor == 0
