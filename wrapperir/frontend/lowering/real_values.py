"""Real numbers of a nest that is being built, with Python's operators; and series."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import mpmath  # pyright: ignore[reportMissingTypeStubs]
from attrs import frozen

from wrapperir.frontend.lowering.nest_builder import NestBuilder
from wrapperir.ir import DType
from wrapperir.lowering.scalar_op import ScalarOp as Op

mp: Any = mpmath.mp
_DIGITS = 34
_NODES = {DType.F32: 32, DType.F64: 48}
_SMALLEST = {DType.F32: 2.0**-27, DType.F64: 2.0**-56}
"""The coefficients that are left out, as parts of the largest."""


@frozen
class Real:
    """A value of type ``f32`` or ``f64``, or a condition; operators append to its nest."""

    builder: NestBuilder
    name: str

    def apply(self, op: Op, *others: "Real | float") -> "Real":
        """Apply an operator to this and other operands."""
        names = [self.name, *(self._named(other) for other in others)]
        return Real(self.builder, self.builder.apply(op, *names))

    def _named(self, other: "Real | float") -> str:
        if isinstance(other, Real):
            return other.name
        return self.builder.literal(float(other), self.dtype)

    @property
    def dtype(self) -> DType:
        """The dtype."""
        return self.builder.dtype(self.name)

    def like(self, number: float) -> "Real":
        """Return a number of the same dtype."""
        return Real(self.builder, self._named(number))

    def __add__(self, other: "Real | float") -> "Real":
        """Return the sum."""
        return self.apply(Op.ADD, other)

    def __sub__(self, other: "Real | float") -> "Real":
        """Return the difference."""
        return self.apply(Op.SUB, other)

    def __mul__(self, other: "Real | float") -> "Real":
        """Return the product."""
        return self.apply(Op.MUL, other)

    def __truediv__(self, other: "Real | float") -> "Real":
        """Return the quotient."""
        return self.apply(Op.DIV, other)

    def __rsub__(self, other: float) -> "Real":
        """Return the difference from a number."""
        return self.like(other) - self

    def __rtruediv__(self, other: float) -> "Real":
        """Return the quotient of a number."""
        return self.like(other) / self

    def __neg__(self) -> "Real":
        """Return the number with the other sign."""
        return self.apply(Op.NEG)

    def __abs__(self) -> "Real":
        """Return the absolute value."""
        return self.apply(Op.ABS)

    def is_below(self, other: "Real | float") -> "Real":
        """Return whether this is less, as a condition."""
        return self.apply(Op.LT, other)

    def is_at_most(self, other: "Real | float") -> "Real":
        """Return whether this is not more, as a condition."""
        return self.apply(Op.LE, other)

    def is_equal(self, other: "Real | float") -> "Real":
        """Return whether this is equal, as a condition."""
        return self.apply(Op.EQ, other)


def where(condition: Real, yes: Real, no: Real | float) -> Real:
    """Return ``yes`` where a condition holds, and ``no`` elsewhere."""
    return condition.apply(Op.WHERE, yes, no if isinstance(no, Real) else yes.like(no))


def series(
    x: Real, function: Callable[..., Any], low: float, high: float, *given: int
) -> Real:
    """Return ``function(x, *given)`` for ``x`` from ``low`` to ``high``, else any number.

    The function is of numbers of mpmath.  Its Chebyshev series is summed as C. W. Clenshaw
    does (1955).
    """
    wide = high - low
    double = x * (4 / wide) - 2 * (high + low) / wide
    first, *others = _coefficients(function, given, low, high, x.dtype)
    last, before = double.like(others.pop()), double.like(0)
    for coefficient in reversed(others):
        last, before = double * last - before + coefficient, last
    return double * last * 0.5 - before + first / 2


@lru_cache(maxsize=256)
def _coefficients(
    function: Callable[..., Any],
    given: tuple[int, ...],
    low: float,
    high: float,
    dtype: DType,
) -> tuple[float, ...]:
    """Return the coefficients of the function that interpolates at Chebyshev's nodes."""
    nodes = _NODES[dtype]
    with mp.workdps(_DIGITS):
        cosines = [mp.cospi(mp.mpf(number) / (2 * nodes)) for number in range(4 * nodes)]
        middle, half = (mp.mpf(high) + low) / 2, (mp.mpf(high) - low) / 2
        odd = range(1, 2 * nodes, 2)
        heights = [function(middle + half * cosines[each], *given) for each in odd]
        found = [
            mp.fdot(heights, [cosines[degree * each % (4 * nodes)] for each in odd])
            for degree in range(nodes)
        ]
        least = max(map(abs, found)) * _SMALLEST[dtype]
        count = max(degree for degree in range(nodes) if abs(found[degree]) > least) + 1
        return tuple(float(2 * each / nodes) for each in found[: max(count, 3)])
