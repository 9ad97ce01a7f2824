"""Simplify index expressions by the ranges of axes and the signs of sizes.

An expression of whole numbers becomes a sum of products of *atoms*: names, and the
divisions, remainders and other operations that do not simplify.  Equal sums print the same,
so that two accesses are compared by ``==``::

    (i0 * 32 + i1) // 32        i0                        i1 < 32
    (i0 * s0 + i1) % s0         i1                        i1 < s0
    (i0 // 4) * 4 + i0 % 4      i0
    (i0 * 32 + i1) // 64        i0 // 2
    i0 // 4 // 8                i0 // 32

The body of a nest runs only where each axis has a value, so that extents are taken to be
one at least.
"""

from collections.abc import Iterable, Mapping, Sequence

from wrapperir.analysis.arithmetic import (
    UNBOUNDED,
    Bound,
    Interval,
    combine,
    interval_of,
    plus,
    scaled,
    times,
)
from wrapperir.ir import (
    EvaluationError,
    Expr,
    ExprOp,
    Operation,
    Symbol,
    add,
    evaluate,
    mul,
    symbols_in,
)
from wrapperir.lowering.index_sums import (
    Atom,
    LinearTerms,
    Sum,
    common_factors,
    divide_terms,
    expr_of,
    linear_terms,
    multiply_sums,
    operation_sum,
    without,
)
from wrapperir.lowering.loops import Axis

_REAL = frozenset(
    {
        *(ExprOp.TRUEDIV, ExprOp.TO_FLOAT, ExprOp.FLOOR, ExprOp.CEIL, ExprOp.TRUNC),
        *(ExprOp.ROUND, ExprOp.SQRT, ExprOp.LOG2, ExprOp.POW),
    }
)
_DEEPEST = 12
_ONE: Sum = {(): 1}


def is_whole(expr: Expr) -> bool:
    """Say whether an expression is made of whole numbers only."""
    if isinstance(expr, Operation):
        is_power = expr.op is ExprOp.POW and _exponent(expr) is not None
        return (is_power or expr.op not in _REAL) and all(map(is_whole, expr.args))
    return not isinstance(expr, float)


def _exponent(power: Operation) -> int | None:
    """Return the exponent of a power that is a product of equal factors."""
    exponent = power.args[1]
    return exponent if isinstance(exponent, int) and 0 <= exponent <= 8 else None


def distance(index: Sequence[Expr], strides: Sequence[Expr]) -> Expr:
    """Return the distance of an element from the first, in elements."""
    total: Expr = 0
    for part, stride in zip(index, strides, strict=True):
        total = add(total, mul(part, stride))
    return total


class IndexRanges:
    """Ranges of the names in index expressions, and what follows from them.

    ``extents`` has the axes' extents; ``symbols`` the intervals of size symbols, where
    known.  Values (indirect indices) are names without a range.
    """

    def __init__(
        self, extents: Mapping[str, Expr], symbols: Mapping[str, Interval] | None = None
    ) -> None:
        """Take each symbol that an extent is a multiple of as one at least."""
        self._symbols = dict(symbols or {})
        self._known: dict[int, Interval] = {}
        self._kept: list[Expr] = []
        self._simplified: dict[Expr, Expr] = {}
        self._sums: dict[Operation, Sum] = {}
        self._extents: dict[str, Sum] = {}
        self.extents = dict(extents)
        """The axes' extents."""
        for extent in extents.values():
            self._take_positive(extent)
        for axis, extent in extents.items():
            self._extents[axis] = self.sum_of(extent)

    @classmethod
    def of_axes(
        cls, axes: Iterable[Axis], symbols: Mapping[str, Interval] | None = None
    ) -> "IndexRanges":
        """Return the ranges of axes."""
        return cls({axis.name: axis.extent for axis in axes}, symbols)

    def _take_positive(self, extent: Expr) -> None:
        if isinstance(extent, Symbol):
            low, high = self._symbols.get(extent.name, UNBOUNDED)
            self._symbols[extent.name] = (max(low, 1), high)
        elif isinstance(extent, Operation) and extent.op is ExprOp.MUL:
            for arg in extent.args:
                self._take_positive(arg)

    def simplify(self, expr: Expr) -> Expr:
        """Return an equal expression in a form that equal sums share.

        Expressions with real numbers are returned as they are.
        """
        if isinstance(expr, Symbol):
            extent = self._extents.get(expr.name)
            return 0 if extent == {(): 1} else expr
        if not isinstance(expr, Operation):
            return expr
        done = self._simplified.get(expr)
        if done is None:
            done = expr_of(self.sum_of(expr)) if is_whole(expr) else expr
            self._simplified[expr] = done
        return done

    def interval(self, expr: Expr) -> Interval:
        """Return an interval that holds every value of an expression."""
        return self._bounds(self.sum_of(expr)) if is_whole(expr) else UNBOUNDED

    def is_nonnegative(self, expr: Expr) -> bool:
        """Say whether an expression is certainly zero or greater."""
        return is_whole(expr) and self._nonnegative(self.sum_of(expr))

    def is_below(self, expr: Expr, limit: Expr) -> bool:
        """Say whether ``0 <= expr < limit`` certainly."""
        return is_whole(expr) and self._below(self.sum_of(expr), self.sum_of(limit))

    def equal(self, left: Expr, right: Expr) -> bool:
        """Say whether two expressions are equal for all values of their names."""
        return left == right or self.sum_of(left) == self.sum_of(right)

    def linear_terms(self, expr: Expr, axes: Iterable[str]) -> LinearTerms:
        """Return the coefficients of axes in an expression of whole numbers, and the rest.

        The coefficients are over size symbols only.
        """
        return linear_terms(self.sum_of(expr), axes)

    def sum_of(self, expr: Expr) -> Sum:
        """Return an expression of whole numbers as a sum of products."""
        if isinstance(expr, Symbol):
            return {} if self._extents.get(expr.name) == {(): 1} else {(expr.name,): 1}
        if not isinstance(expr, Operation):
            return {(): int(expr)} if expr else {}
        found = self._sums.get(expr)
        if found is None:
            found = self._sums[expr] = self._recombine(self._build(expr))
        return found

    def _build(self, expr: Operation) -> Sum:
        args = [self.sum_of(arg) for arg in expr.args]
        match expr.op:
            case ExprOp.ADD:
                total: Sum = {}
                for arg in args:
                    total = combine(total, arg)
                return total
            case ExprOp.SUB:
                return combine(args[0], args[1], -1)
            case ExprOp.NEG:
                return scaled(args[0], -1)
            case ExprOp.MUL:
                result: Sum = {(): 1}
                for arg in args:
                    result = multiply_sums(result, arg)
                return result
            case ExprOp.POW:
                exponent = _exponent(expr)
                if exponent is not None:
                    power: Sum = {(): 1}
                    for _ in range(exponent):
                        power = multiply_sums(power, args[0])
                    return power
            case ExprOp.FLOORDIV:
                return self.quotient(args[0], args[1])
            case ExprOp.MOD:
                return self.remainder(args[0], args[1])
            case ExprOp.CEILDIV:
                if self._positive(args[1]):
                    most = combine(combine(args[0], args[1]), _ONE, -1)
                    return self.quotient(most, args[1])
            case _:
                pass
        return self._operation(expr.op, tuple(map(expr_of, args)))

    def _operation(self, op: ExprOp, args: tuple[Expr, ...]) -> Sum:
        atom = Operation(op, args)
        if not any(True for _ in symbols_in(atom)):
            try:
                value = evaluate(atom, {})
            except EvaluationError:
                return {(atom,): 1}
            if isinstance(value, int):
                return {(): int(value)} if value else {}
        return {(atom,): 1}

    def quotient(self, dividend: Sum, divisor: Sum) -> Sum:
        """Return ``dividend // divisor``."""
        if divisor == {(): 1}:
            return dividend
        if not self._positive(divisor):
            return self._operation(ExprOp.FLOORDIV, (expr_of(dividend), expr_of(divisor)))
        whole, rest = divide_terms(dividend, divisor)
        if not rest or self._below(rest, divisor):
            return whole
        for factor in common_factors(rest, divisor):
            multiple, low = divide_terms(rest, factor)
            if multiple and (not low or self._below(low, factor)):
                smaller, _ = divide_terms(divisor, factor)
                return combine(whole, self.quotient(multiple, smaller))
        nested = self._nested_quotient(rest, divisor)
        if nested is None:
            nested = operation_sum(ExprOp.FLOORDIV, rest, divisor)
        return combine(whole, nested)

    def _nested_quotient(self, rest: Sum, divisor: Sum) -> Sum | None:
        """Return a quotient of a quotient or remainder, or ``None``.

        ``(y // a + t) // n`` is ``(y + t·a) // (a·n)``, ``y % (m·n) // n`` is
        ``y // n % m``.
        """
        for monomial, coefficient in rest.items():
            if coefficient != 1 or len(monomial) != 1 or isinstance(monomial[0], str):
                continue
            op, args = monomial[0].op, monomial[0].args
            if op is ExprOp.FLOORDIV:
                by = self.sum_of(args[1])
                if self._positive(by):
                    others = {m: c for m, c in rest.items() if m != monomial}
                    dividend = combine(self.sum_of(args[0]), multiply_sums(others, by))
                    return self.quotient(dividend, multiply_sums(by, divisor))
            if op is ExprOp.MOD and len(rest) == 1:
                factor, low = divide_terms(self.sum_of(args[1]), divisor)
                if not low:
                    inner = self.quotient(self.sum_of(args[0]), divisor)
                    return self.remainder(inner, factor)
        return None

    def remainder(self, dividend: Sum, divisor: Sum) -> Sum:
        """Return ``dividend % divisor``."""
        if divisor == {(): 1}:
            return {}
        if not self._positive(divisor):
            return self._operation(ExprOp.MOD, (expr_of(dividend), expr_of(divisor)))
        _, rest = divide_terms(dividend, divisor)
        if not rest or self._below(rest, divisor):
            return rest
        for factor in common_factors(rest, divisor):
            multiple, low = divide_terms(rest, factor)
            if multiple and (not low or self._below(low, factor)):
                smaller, _ = divide_terms(divisor, factor)
                high = multiply_sums(self.remainder(multiple, smaller), factor)
                return combine(high, low)
        for monomial, coefficient in rest.items():
            atom = monomial[0] if len(monomial) == 1 else ""
            if not isinstance(atom, Operation) or atom.op is not ExprOp.MOD:
                continue
            if not divide_terms(self.sum_of(atom.args[1]), divisor)[1]:
                others = {m: c for m, c in rest.items() if m != monomial}
                inner = scaled(self.sum_of(atom.args[0]), coefficient)
                return self.remainder(combine(others, inner), divisor)
        return operation_sum(ExprOp.MOD, rest, divisor)

    def _recombine(self, total: Sum) -> Sum:
        """Return a sum with each ``y // n * n + y % n`` as ``y``."""
        for monomial, coefficient in total.items():
            for place, atom in enumerate(monomial):
                if isinstance(atom, str) or atom.op is not ExprOp.MOD:
                    continue
                value, divisor = map(self.sum_of, atom.args)
                if not self._positive(divisor):
                    continue
                others = {monomial[:place] + monomial[place + 1 :]: coefficient}
                high = multiply_sums(
                    multiply_sums(others, divisor), self.quotient(value, divisor)
                )
                if high and all(total.get(m) == c for m, c in high.items()):
                    pair = combine(high, {monomial: coefficient})
                    left = combine(total, pair, -1)
                    return self._recombine(combine(left, multiply_sums(others, value)))
        return total

    def _below(self, value: Sum, limit: Sum) -> bool:
        return self._nonnegative(value) and self._positive(combine(limit, value, -1))

    def _positive(self, total: Sum) -> bool:
        return self._nonnegative(combine(total, _ONE, -1))

    def _range(self, atom: Atom) -> Interval:
        if isinstance(atom, Operation):
            self._kept.append(atom)  # intervals are remembered by identity
            return interval_of(atom, self._name_range, self._known)
        return self._name_range(atom)

    def _name_range(self, name: str) -> Interval:
        extent = self._extents.get(name)
        if extent is None:
            return self._symbols.get(name, UNBOUNDED)
        return (0, max(plus(self._bounds(extent)[1], -1), 0))

    def _bounds(self, total: Sum) -> Interval:
        low: Bound = 0
        high: Bound = 0
        for monomial, coefficient in total.items():
            least: Bound = coefficient
            most: Bound = coefficient
            for atom in monomial:
                begin, end = self._range(atom)
                corners = [times(a, b) for a in (least, most) for b in (begin, end)]
                least, most = min(corners), max(corners)
            low, high = plus(low, least), plus(high, most)
        return (low, high)

    def _nonnegative(self, total: Sum, depth: int = 0) -> bool:
        """Say whether a sum is certainly at least zero.

        Axes and remainders are replaced by their least or greatest value, by the sign of
        what multiplies them; then a sum over symbols is at least zero if no coefficient
        is negative once each symbol is written as its least value plus another.
        """
        if not total or self._bounds(total)[0] >= 0:
            return True
        if depth > _DEEPEST:
            return False
        for atom in {atom for monomial in total for atom in monomial}:
            extent = self._extent(atom)
            if extent is None:
                continue
            factor: Sum = {}
            others: Sum = {}
            for monomial, coefficient in total.items():
                if monomial.count(atom) > 1:
                    return False
                if atom in monomial:
                    factor[without(monomial, atom)] = coefficient
                else:
                    others[monomial] = coefficient
            if self._nonnegative(factor, depth + 1):
                return self._nonnegative(others, depth + 1)
            if self._nonnegative(scaled(factor, -1), depth + 1):
                last = combine(extent, _ONE, -1)
                return self._nonnegative(
                    combine(others, multiply_sums(factor, last)), depth + 1
                )
            return False
        return self._shifted_nonnegative(total)

    def _extent(self, atom: Atom) -> Sum | None:
        """Return how many values, from zero, an axis or remainder takes."""
        if isinstance(atom, str):
            return self._extents.get(atom)
        if atom.op is ExprOp.MOD:
            divisor = self.sum_of(atom.args[1])
            if self._positive(divisor):
                return divisor
        return None

    def _shifted_nonnegative(self, total: Sum) -> bool:
        result: Sum = {}
        for monomial, coefficient in total.items():
            term: Sum = {(): coefficient}
            for atom in monomial:
                low = self._range(atom)[0]
                if not isinstance(low, int):
                    return False
                constant: Sum = {(): low} if low else {}
                term = multiply_sums(term, combine({(atom,): 1}, constant))
            result = combine(result, term)
        return all(coefficient >= 0 for coefficient in result.values())
