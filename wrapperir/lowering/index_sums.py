"""Sums of products of names: the canonical form of index expressions."""

import math
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from attrs import frozen

from wrapperir.analysis.arithmetic import combine
from wrapperir.ir import Expr, ExprOp, Operation, Symbol, mul, sub, symbols_in

Atom: TypeAlias = str | Operation
"""A name, or an operation that is neither a sum nor a product."""

Monomial: TypeAlias = tuple[Atom, ...]
"""A product of atoms, in a fixed order; ``()`` is 1."""

Sum: TypeAlias = dict[Monomial, int]
"""Coefficients, none of them zero, by monomial."""

_MOST_TERMS = 64


def multiply_sums(left: Sum, right: Sum) -> Sum:
    """Return the product; a sum of very many terms becomes one atom."""
    if len(left) * len(right) > _MOST_TERMS:
        return operation_sum(ExprOp.MUL, left, right)
    result: Sum = {}
    for a, m in left.items():
        for b, n in right.items():
            monomial = tuple(sorted(a + b, key=_order)) if a and b else a or b
            total = result.get(monomial, 0) + m * n
            if total:
                result[monomial] = total
            else:
                result.pop(monomial, None)
    return result


def _order(atom: Atom) -> str:
    return atom if isinstance(atom, str) else f"~{atom}"


def operation_sum(op: ExprOp, left: Sum, right: Sum) -> Sum:
    """Return an operation on two sums as one atom."""
    return {(Operation(op, (expr_of(left), expr_of(right))),): 1}


def without(monomial: Monomial, atom: Atom) -> Monomial:
    """Return a product without one occurrence of an atom of it."""
    place = monomial.index(atom)
    return monomial[:place] + monomial[place + 1 :]


def _divide_monomial(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    for atom in divisor:
        if atom not in monomial:
            return None
        monomial = without(monomial, atom)
    return monomial


def divide_terms(dividend: Sum, divisor: Sum) -> tuple[Sum, Sum]:
    """Return ``q`` and ``r`` with ``dividend = q · divisor + r``, term by term."""
    whole: Sum = {}
    rest: Sum = {}
    if len(divisor) == 1:
        ((by, number),) = divisor.items()
        for monomial, coefficient in dividend.items():
            part = _divide_monomial(monomial, by)
            if part is None or (coefficient % number and monomial):
                rest[monomial] = coefficient
                continue
            if coefficient // number:
                whole[part] = coefficient // number
            if coefficient % number:
                rest[monomial] = coefficient % number
        return whole, rest
    # Several terms: s0 + 1 divides i0 * s0 + i0, by any term of it.
    ((first, number), *_) = divisor.items()
    rest = dict(dividend)
    for monomial, coefficient in dividend.items():
        part = _divide_monomial(monomial, first)
        if part is None or coefficient % number or rest.get(monomial) != coefficient:
            continue
        product = multiply_sums({part: coefficient // number}, divisor)
        if all(rest.get(m) == c for m, c in product.items()):
            rest = combine(rest, product, -1)
            whole = combine(whole, {part: coefficient // number})
    return whole, rest


def common_factors(rest: Sum, divisor: Sum) -> list[Sum]:
    """Return factors of the divisor that some terms are multiples of, greatest first."""
    if len(divisor) != 1:
        return []
    ((by, number),) = divisor.items()
    found: dict[tuple[Monomial, int], None] = {}
    for monomial, coefficient in rest.items():
        if not monomial:
            continue
        left = monomial
        common: list[Atom] = []
        for atom in by:
            if atom in left:
                common.append(atom)
                left = without(left, atom)
        key = (tuple(common), math.gcd(coefficient, number))
        if key != ((), 1) and key != (by, number):
            found[key] = None
    ordered = sorted(found, key=lambda key: (len(key[0]), key[1]), reverse=True)
    return [{monomial: coefficient} for monomial, coefficient in ordered]


def expr_of(total: Sum) -> Expr:
    """Return a sum as an expression; equal sums give equal expressions."""
    if len(total) <= 1:
        for monomial, coefficient in total.items():
            return _product(monomial, coefficient)
        return 0
    terms = sorted(total.items(), key=_term_order)
    result: Expr | None = None
    for monomial, coefficient in terms:
        if result is None:
            result = _product(monomial, coefficient)
        elif coefficient < 0:
            result = sub(result, _product(monomial, -coefficient))
        else:
            result = result + _product(monomial, coefficient)
    return 0 if result is None else result


def _term_order(term: tuple[Monomial, int]) -> tuple[bool, bool, int, int, list[str]]:
    """Put positive terms first, greatest coefficient first, and the constant last."""
    monomial, coefficient = term
    names = [_order(atom) for atom in monomial]
    return (coefficient < 0, not monomial, -len(monomial), -abs(coefficient), names)


def _product(monomial: Monomial, coefficient: int) -> Expr:
    result: Expr = 1
    for atom in monomial:
        result = mul(result, Symbol(atom) if isinstance(atom, str) else atom)
    return mul(result, coefficient)


@frozen
class LinearTerms:
    """An expression as ``Σ coefficient · axis + rest``.

    ``coefficients`` has the axes that occur only so; ``rest`` has what is left, with the
    axes that occur in another way.
    """

    coefficients: Mapping[str, Expr]
    rest: Expr


def linear_terms(total: Sum, axes: Iterable[str]) -> LinearTerms:
    """Return the coefficients of axes in a sum, and the rest."""
    names = set(axes)
    coefficients: dict[str, Sum] = {}
    rest: Sum = {}
    for monomial, coefficient in total.items():
        used = [atom for atom in monomial if isinstance(atom, str) and atom in names]
        if len(used) == 1 and all(
            isinstance(atom, str) or names.isdisjoint(symbols_in(atom)) for atom in monomial
        ):
            found = coefficients.setdefault(used[0], {})
            found[without(monomial, used[0])] = coefficient
        else:
            rest[monomial] = coefficient
    left = expr_of(rest)
    for axis in {*symbols_in(left)} & coefficients.keys():
        found = coefficients.pop(axis)
        rest = combine(rest, multiply_sums(found, {(axis,): 1}))
    return LinearTerms(
        {axis: expr_of(found) for axis, found in coefficients.items()}, expr_of(rest)
    )
