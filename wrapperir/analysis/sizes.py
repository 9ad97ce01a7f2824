"""Bytes of storages, as expressions and as multiples of a unit."""

import math
from collections.abc import Mapping

from attrs import define, field, frozen

from wrapperir.ir.expr import Expr, Symbol, ceildiv, evaluate_int, mul, product
from wrapperir.ir.types import PoolType, TensorType, storage_extent
from wrapperir.verify.interval import UNBOUNDED
from wrapperir.verify.polynomial import Polynomial, Polynomials

UNIT = 64
"""Bytes that allocators round up to; sizes of storages are counted in them."""

Number = int | float


def storage_bytes(type: TensorType | PoolType) -> Expr:
    """Return the bytes of a storage of this type."""
    if isinstance(type, PoolType):
        return type.size
    extent = storage_extent(type)
    if extent == 0:
        return 0
    return mul(type.offset + extent, type.dtype.itemsize)


def rounded_up(bytes: Expr) -> Expr:
    """Return ``bytes`` rounded up to a multiple of :data:`UNIT`."""
    return mul(ceildiv(bytes, UNIT), UNIT)


def allocated_bytes(type: TensorType | PoolType, symbols: Mapping[str, Number]) -> int:
    """Return the bytes that a storage takes, rounded up to :data:`UNIT`.

    Raises:
        EvaluationError: a symbol has no value in ``symbols``, or the size has none.
    """
    if isinstance(type, TensorType) and any(
        evaluate_int(n, symbols) == 0 for n in type.size
    ):
        return 0
    return evaluate_int(rounded_up(storage_bytes(type)), symbols)


@frozen
class Size:
    """``count`` times ``unit`` bytes; equal units are equal expressions.

    It is not ``exact`` where the bytes are fewer if a size is 0.
    """

    count: int
    unit: Expr
    exact: bool = True


@define
class Sizes:
    """Writes the bytes of types as multiples of units.

    Sizes that are whole multiples of one expression, whatever its symbols' values, have
    the same unit, so that they can be planned together.  The unit of constants is 64.
    """

    _polynomials: Polynomials = field(
        init=False, factory=lambda: Polynomials(lambda name: UNBOUNDED, lambda name: None)
    )
    _kept: list[Expr] = field(init=False, factory=list[Expr])
    _units: dict[object, Expr] = field(init=False, factory=dict[object, Expr])

    def of(self, type: TensorType | PoolType) -> Size:
        """Return the bytes of a storage of this type, rounded up to :data:`UNIT`."""
        if isinstance(type, TensorType) and 0 in type.size:
            return Size(0, UNIT)
        bytes = storage_bytes(type)
        if isinstance(bytes, int):
            return Size(-(-bytes // UNIT), UNIT)
        self._kept.append(bytes)  # polynomials are remembered by identity
        polynomial = self._polynomials.of(bytes)
        exact = isinstance(type, PoolType) or polynomial == self._dense(type)
        content = math.gcd(*polynomial.values())
        whole: Expr | None = None
        if content % UNIT == 0:
            polynomial = {monomial: n // content for monomial, n in polynomial.items()}
            whole = self._expression(polynomial)
        if whole is None:
            return Size(1, self._unit("up", polynomial, rounded_up(bytes)), exact)
        return Size(content // UNIT, self._unit("", polynomial, mul(whole, UNIT)), exact)

    def _dense(self, type: TensorType) -> Polynomial:
        """Return the bytes of all elements, next to each other."""
        elements = mul(product(type.size), type.dtype.itemsize)
        self._kept.append(elements)
        return self._polynomials.of(elements)

    def _unit(self, rounding: str, polynomial: Polynomial, expr: Expr) -> Expr:
        key = (rounding, *sorted(polynomial.items(), key=repr))
        return self._units.setdefault(key, expr)

    def _expression(self, polynomial: Polynomial) -> Expr | None:
        """Return the expression of a polynomial over symbols alone."""
        total: Expr = 0
        for monomial, coefficient in polynomial.items():
            term: Expr = coefficient
            for unknown in monomial:
                if not isinstance(unknown, str):
                    return None
                term = mul(Symbol(unknown), term)
            total = total + term
        return total
