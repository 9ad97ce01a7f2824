"""Sizes as polynomials, so that two of them can be subtracted and their difference bounded.

``s0 * 64 + 64`` and ``s0 * 64`` are apart by 64 for any ``s0``.  Other operations than
sums and products (``min``, ``//`` …) are unknowns; equal expressions are the same unknown.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import TypeAlias

from wrapperir.analysis.arithmetic.interval import Interval, interval_of, multiply, plus
from wrapperir.ir import Expr, ExprOp, Operation, Symbol

Unknown: TypeAlias = str | int
"""A symbol's name, or the number of an operation that is treated as one."""

Polynomial: TypeAlias = dict[tuple[Unknown, ...], int]
"""Coefficients by monomial; a monomial lists its unknowns in a fixed order."""

_MOST_TERMS = 32
_MOST_BITS = 1024


class Polynomials:
    """Builds polynomials and bounds them; one a verification.

    Operations are remembered by identity: the program that holds them outlives this.
    ``ranges`` gives each symbol's interval, ``definitions`` the polynomial of a symbol
    that was computed from others.
    """

    def __init__(
        self,
        ranges: Callable[[str], Interval],
        definitions: Callable[[str], Polynomial | None],
    ) -> None:
        """Start with nothing known."""
        self._ranges = ranges
        self._definitions = definitions
        self._order: dict[Unknown, int] = {}
        self._built: dict[int, Polynomial] = {}
        self._numbers: dict[object, int] = {}
        self._numbered: dict[int, int] = {}
        self._operations: dict[int, Operation] = {}
        self.intervals: dict[int, Interval] = {}
        """Intervals of operations, by identity."""

    def of(self, expr: Expr) -> Polynomial:
        """Return the polynomial of an expression of whole numbers."""
        if isinstance(expr, int):
            return {(): int(expr)} if expr else {}
        if isinstance(expr, Symbol):
            known = self._definitions(expr.name)
            return self._unknown(expr.name) if known is None else known
        if not isinstance(expr, Operation):
            return {(): int(expr)}
        built = self._built.get(id(expr))
        if built is None:
            built = self._built[id(expr)] = self._build(expr)
        return built

    def _build(self, expr: Operation) -> Polynomial:
        args = expr.args
        result: Polynomial | None = None
        if expr.op is ExprOp.ADD:
            result = {}
            for arg in args:
                result = combine(result, self.of(arg), 1)
        elif expr.op is ExprOp.SUB:
            result = combine(self.of(args[0]), self.of(args[1]), -1)
        elif expr.op is ExprOp.NEG:
            result = combine({}, self.of(args[0]), -1)
        elif expr.op is ExprOp.MUL:
            result = {(): 1}
            for arg in args:
                if result is not None:
                    result = self.product(result, self.of(arg))
        if result is None or len(result) > _MOST_TERMS or _is_huge(result):
            return self._unknown(self._number(expr))
        return result

    def product(self, left: Polynomial, right: Polynomial) -> Polynomial | None:
        """Return the product, or ``None`` where it has too many terms to be of use."""
        if len(left) * len(right) > _MOST_TERMS:
            return None
        result: Polynomial = {}
        for a, m in left.items():
            for b, n in right.items():
                if len(a) + len(b) > _MOST_TERMS:
                    return None
                monomial = tuple(sorted(a + b, key=self._order.__getitem__))
                result[monomial] = result.get(monomial, 0) + m * n
        return {monomial: n for monomial, n in result.items() if n}

    def written(self, expr: Expr) -> Hashable:
        """Return a key that expressions share if they are written the same."""
        if isinstance(expr, Operation):
            return self._number(expr)
        return (type(expr), expr)

    def _unknown(self, unknown: Unknown) -> Polynomial:
        self._order.setdefault(unknown, len(self._order))
        return {(unknown,): 1}

    def _number(self, expr: Operation) -> int:
        """Return one number for operations that are written the same.

        Parts are numbered before the whole (hash-consing), so that an expression whose
        parts are shared costs its parts, not its paths.
        """
        number = self._numbered.get(id(expr))
        if number is None:
            parts = tuple(
                self._number(arg) if isinstance(arg, Operation) else (type(arg), arg)
                for arg in expr.args
            )
            number = self._numbers.setdefault((expr.op, parts), len(self._numbers))
            self._numbered[id(expr)] = number
            self._operations.setdefault(number, expr)
        return number

    def bounds(
        self, polynomial: Polynomial, at_least_one: frozenset[str] = frozenset()
    ) -> Interval:
        """Return an interval of its values, with the symbols in ``at_least_one`` ≥ 1."""
        total: Interval = (0, 0)
        for monomial, coefficient in polynomial.items():
            term: Interval = (coefficient, coefficient)
            for unknown in monomial:
                term = multiply(term, self._range(unknown, at_least_one))
            total = (plus(total[0], term[0]), plus(total[1], term[1]))
        return total

    def _range(self, unknown: Unknown, at_least_one: frozenset[str]) -> Interval:
        if isinstance(unknown, int):
            return interval_of(self._operations[unknown], self._ranges, self.intervals)
        low, high = self._ranges(unknown)
        return (max(low, 1), high) if unknown in at_least_one and high >= 1 else (low, high)


def combine(
    left: Polynomial, right: Mapping[tuple[Unknown, ...], int], sign: int
) -> Polynomial:
    """Return ``left + sign · right``."""
    result = dict(left)
    for monomial, coefficient in right.items():
        total = result.get(monomial, 0) + sign * coefficient
        if total:
            result[monomial] = total
        else:
            result.pop(monomial, None)
    return result


def scaled(polynomial: Polynomial, factor: int) -> Polynomial:
    """Return the polynomial times a number other than zero."""
    return {monomial: coefficient * factor for monomial, coefficient in polynomial.items()}


def _is_huge(polynomial: Polynomial) -> bool:
    return any(n.bit_length() > _MOST_BITS for n in polynomial.values())
