"""Numbers of elements as messages say them."""

from collections.abc import Sequence

from wrapperir.analysis.arithmetic.polynomial import Polynomial
from wrapperir.ir.expr import Expr, Operation
from wrapperir.text.expressions import format_expression

_MOST_PARTS = 24


def amount(factors: Sequence[Expr], value: Polynomial) -> str:
    """Return a product of sound expressions for a reader, and its value where it is one.

    ``4 * n = 32``; ``s0 * 8``; ``64``.  A long expression is not written out.
    """
    number = str(value.get((), 0)) if value.keys() <= {()} else None
    if number is not None and all(isinstance(factor, int) for factor in factors):
        return number
    if _is_long(factors):
        return number or "another number of"
    level = len(factors) > 1
    parts = [format_expression(factor, lambda name: name) for factor in factors]
    shown = " * ".join(
        f"({part})" if level and isinstance(factor, Operation) else part
        for part, factor in zip(parts, factors, strict=True)
    )
    return shown if number is None else f"{shown} = {number}"


def _is_long(factors: Sequence[Expr]) -> bool:
    """Say whether factors have many parts, each counted as often as it is written."""
    waiting, count = list(factors), 0
    while waiting and count <= _MOST_PARTS:
        count += 1
        part = waiting.pop()
        if isinstance(part, Operation):
            waiting += part.args
    return bool(waiting)
