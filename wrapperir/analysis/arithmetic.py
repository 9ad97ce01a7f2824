"""Sizes as intervals and as polynomials.

Interval arithmetic (Moore, 1966) is kept to what sizes and grids need: what is not known is
unbounded, so that excluded values are excluded for certain.  Two polynomials can be
subtracted and their difference bounded: ``s0 * 64 + 64`` and ``s0 * 64`` are apart by 64
for any ``s0``.  Operations other than sums and products (``min``, ``//`` …) are unknowns;
equal expressions are the same unknown.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from fractions import Fraction
from typing import TypeAlias, TypeVar

from wrapperir.ir import Expr, ExprOp, Operation, Symbol

Bound: TypeAlias = int | float
"""An exact integer, or an infinity."""

_Unknowns = TypeVar("_Unknowns", bound=Hashable)

Interval: TypeAlias = tuple[Bound, Bound]
"""The least and greatest value, inclusive."""

UNBOUNDED: Interval = (-math.inf, math.inf)
CONDITIONS = frozenset(
    {
        *(ExprOp.EQ, ExprOp.NE, ExprOp.LT, ExprOp.LE, ExprOp.GT, ExprOp.GE),
        *(ExprOp.NOT, ExprOp.AND, ExprOp.OR),
    }
)
"""Operators whose value is a bool, whatever kind of number they are given."""

_TRUTH: Interval = (0, 1)
_LARGEST = 1 << 1100


def plus(left: Bound, right: Bound) -> Bound:
    """Return the sum; an infinity wins, also over integers too large for a float."""
    if isinstance(left, float):
        return left
    return right if isinstance(right, float) else left + right


def times(left: Bound, right: Bound) -> Bound:
    """Return the product; zero times an infinity is zero, as it is for bounds."""
    if left == 0 or right == 0:
        return 0
    if isinstance(left, float) or isinstance(right, float):
        return math.inf if (left > 0) == (right > 0) else -math.inf
    return left * right


def multiply(left: Interval, right: Interval) -> Interval:
    """Return the interval of products."""
    corners = [times(a, b) for a in left for b in right]
    return (min(corners), max(corners))


def _sum(args: Sequence[Interval]) -> Interval:
    low, high = args[0]
    for other in args[1:]:
        low, high = plus(low, other[0]), plus(high, other[1])
    return (low, high)


def _product(args: Sequence[Interval]) -> Interval:
    result = args[0]
    for other in args[1:]:
        result = multiply(result, other)
    return result


def _negated(interval: Interval) -> Interval:
    return (times(-1, interval[1]), times(-1, interval[0]))


def _quotient(args: Sequence[Interval], round_up: bool) -> Interval:
    (low, high), (least, most) = args
    if least <= 0:
        return UNBOUNDED

    def divide(value: Bound, divisor: Bound) -> Bound:
        if isinstance(value, float):
            return value
        if isinstance(divisor, float):
            return (1 if value > 0 else 0) if round_up else (-1 if value < 0 else 0)
        return -(-value // divisor) if round_up else value // divisor

    corners = [divide(value, divisor) for value in (low, high) for divisor in (least, most)]
    return (min(corners), max(corners))


def _remainder(args: Sequence[Interval]) -> Interval:
    (low, high), (least, most) = args
    if least <= 0:
        return UNBOUNDED
    if low >= 0 and high < least:
        return (low, high)
    return (0, plus(most, -1))


def _absolute(interval: Interval) -> Interval:
    low, high = interval
    if low >= 0:
        return interval
    mirrored = _negated(interval)
    return mirrored if high <= 0 else (0, max(high, mirrored[1]))


def _extreme(
    args: Sequence[Interval], choose: Callable[[Sequence[Bound]], Bound]
) -> Interval:
    return (choose([low for low, _ in args]), choose([high for _, high in args]))


_MOST_POWER = 64


def _power(args: Sequence[Interval]) -> Interval:
    base, (exponent, most) = args
    if (
        exponent != most
        or not isinstance(exponent, int)
        or not 0 <= exponent <= _MOST_POWER
    ):
        return UNBOUNDED
    return _product(((1, 1), *[base] * exponent))


_OPERATIONS: Mapping[ExprOp, Callable[[Sequence[Interval]], Interval]] = {
    ExprOp.ADD: _sum,
    ExprOp.SUB: lambda a: _sum((a[0], _negated(a[1]))),
    ExprOp.MUL: _product,
    ExprOp.POW: _power,
    ExprOp.NEG: lambda a: _negated(a[0]),
    ExprOp.FLOORDIV: lambda a: _quotient(a, round_up=False),
    ExprOp.CEILDIV: lambda a: _quotient(a, round_up=True),
    ExprOp.MOD: _remainder,
    ExprOp.MIN: lambda a: _extreme(a, min),
    ExprOp.MAX: lambda a: _extreme(a, max),
    ExprOp.ABS: lambda a: _absolute(a[0]),
    ExprOp.WHERE: lambda a: (min(a[1][0], a[2][0]), max(a[1][1], a[2][1])),
    **dict.fromkeys(CONDITIONS, lambda _: _TRUTH),
}


def interval_of(
    expr: Expr, ranges: Callable[[str], Interval], known: dict[int, Interval]
) -> Interval:
    """Return an interval that holds every value of ``expr``.

    ``ranges`` gives each symbol's interval.  ``known`` remembers operations by identity,
    so that an expression whose parts are shared costs its parts, not its paths; the
    caller keeps them alive.
    """
    if isinstance(expr, Symbol):
        return ranges(expr.name)
    if isinstance(expr, Operation):
        found = known.get(id(expr))
        if found is None:
            args = [interval_of(arg, ranges, known) for arg in expr.args]
            rule = _OPERATIONS.get(expr.op)
            found = UNBOUNDED if rule is None else _clipped(rule(args))
            known[id(expr)] = found
        return found
    if isinstance(expr, int):
        return (expr, expr)
    return (math.floor(expr), math.ceil(expr)) if math.isfinite(expr) else UNBOUNDED


def _clipped(interval: Interval) -> Interval:
    """Bound the cost of hostile products: values beyond any size become infinite."""
    low, high = interval
    return (
        low if -_LARGEST < low < _LARGEST else -math.inf,
        high if -_LARGEST < high < _LARGEST else math.inf,
    )


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
                result = combine(result, self.of(arg))
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

    def most_times(self, left: Polynomial, right: Polynomial) -> Fraction | None:
        """Return a factor by which ``right`` is at least ``left``; ``None`` if unknown.

        Each term of ``left`` is bounded by a multiple of one term of ``right``: ``s0`` is
        at most ``s0 * s1`` over the least ``s1``, and ``s0 * s0`` at most ``s0`` times the
        greatest ``s0``.
        """
        known = {unknown for term in right for unknown in term}
        more = {unknown for term in left for unknown in term} - known
        if any(self._range(unknown, frozenset())[1] == math.inf for unknown in more):
            return None
        coefficients = (*left.values(), *right.values())
        lows = [self._range(unknown, frozenset())[0] for unknown in known | more]
        if min((*lows, *coefficients), default=0) < 0:
            return None
        sums: dict[tuple[Unknown, ...], Fraction] = {}
        for term, coefficient in left.items():
            found = [
                (ratio * coefficient / divisor, other)
                for other, divisor in right.items()
                if (ratio := self._term_ratio(term, other)) is not None
            ]
            if not found:
                return None
            times, other = min(found, key=lambda each: each[0])
            sums[other] = sums.get(other, Fraction(0)) + times
        return max(sums.values(), default=Fraction(0))

    def _term_ratio(
        self, left: tuple[Unknown, ...], right: tuple[Unknown, ...]
    ) -> Fraction | None:
        """Return a factor by which one product of unknowns >= 0 is at least another.

        An unknown in both products is taken to be 1 at least: both are 0 otherwise.
        """
        above, below = Counter(left) - Counter(right), Counter(right) - Counter(left)
        ratio = Fraction(1)
        for unknown in above.elements():
            high = self._range(unknown, frozenset())[1]
            if isinstance(high, float):
                return None
            ratio *= high
        for unknown in below.elements():
            low = self._range(unknown, frozenset())[0]
            low = max(low, 1) if unknown in left else low
            if isinstance(low, float) or low <= 0:
                return None
            ratio /= low
        return ratio

    def _range(self, unknown: Unknown, at_least_one: frozenset[str]) -> Interval:
        if isinstance(unknown, int):
            return interval_of(self._operations[unknown], self._ranges, self.intervals)
        low, high = self._ranges(unknown)
        return (max(low, 1), high) if unknown in at_least_one and high >= 1 else (low, high)


def combine(
    left: Mapping[_Unknowns, int], right: Mapping[_Unknowns, int], sign: int = 1
) -> dict[_Unknowns, int]:
    """Return ``left + sign · right``, of coefficients by monomial, without zeros."""
    result = dict(left)
    for monomial, coefficient in right.items():
        total = result.get(monomial, 0) + sign * coefficient
        if total:
            result[monomial] = total
        else:
            result.pop(monomial, None)
    return result


def scaled(polynomial: Mapping[_Unknowns, int], factor: int) -> dict[_Unknowns, int]:
    """Return a polynomial times a number other than zero."""
    return {monomial: coefficient * factor for monomial, coefficient in polynomial.items()}


def _is_huge(polynomial: Polynomial) -> bool:
    return any(n.bit_length() > _MOST_BITS for n in polynomial.values())
