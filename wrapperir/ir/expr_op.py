"""The operators of expressions: their names, numbers of operands and values on numbers."""

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TypeAlias


class ExprOp(StrEnum):
    """The operators of an expression; the value is the name in JSON and in call form."""

    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    TRUEDIV = "truediv"
    FLOORDIV = "floordiv"
    MOD = "mod"
    POW = "pow"
    NEG = "neg"
    CEILDIV = "ceildiv"
    MIN = "min"
    MAX = "max"
    ABS = "abs"
    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"
    AND = "and"
    OR = "or"
    NOT = "not"
    WHERE = "where"
    SHL = "shl"
    SHR = "shr"
    BITAND = "bitand"
    BITOR = "bitor"
    BITXOR = "bitxor"
    TO_FLOAT = "to_float"
    FLOOR = "floor"
    CEIL = "ceil"
    TRUNC = "trunc"
    ROUND = "round"
    SQRT = "sqrt"
    LOG2 = "log2"


COMPARISONS = frozenset({ExprOp.EQ, ExprOp.NE, ExprOp.LT, ExprOp.LE, ExprOp.GT, ExprOp.GE})

VARIADIC = frozenset(
    {ExprOp.ADD, ExprOp.MUL, ExprOp.MIN, ExprOp.MAX, ExprOp.AND, ExprOp.OR}
)
_UNARY = frozenset(
    {
        *(ExprOp.NEG, ExprOp.ABS, ExprOp.NOT, ExprOp.TO_FLOAT, ExprOp.FLOOR, ExprOp.CEIL),
        *(ExprOp.TRUNC, ExprOp.ROUND, ExprOp.SQRT, ExprOp.LOG2),
    }
)


def accepts_arity(op: ExprOp, count: int) -> bool:
    """Say whether ``op`` may be applied to ``count`` arguments."""
    if op in VARIADIC:
        return count >= 2
    if op in _UNARY:
        return count == 1
    return count == (3 if op is ExprOp.WHERE else 2)


Number: TypeAlias = int | float

# Bounds the cost of evaluating a hostile file: 2**63 fits, 10**10**10 does not.
_MAX_BITS = 1024


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int):
        if exponent < 0:
            return float(base) ** exponent
        if base.bit_length() * exponent > _MAX_BITS:
            raise OverflowError("power too large")
    result: object = base**exponent
    if isinstance(result, complex):
        raise ValueError("power is not real")
    assert isinstance(result, int | float)
    return result


def _shift_left(value: Number, count: Number) -> Number:
    if count > _MAX_BITS:
        raise OverflowError("shift too large")
    return int(value) << int(count)


EVALUATE: Mapping[ExprOp, Callable[[Sequence[Number]], Number]] = {
    ExprOp.ADD: lambda a: functools.reduce(operator.add, a),  # sum() compensates floats
    ExprOp.SUB: lambda a: a[0] - a[1],
    ExprOp.MUL: lambda a: math.prod(a),
    ExprOp.TRUEDIV: lambda a: a[0] / a[1],
    ExprOp.FLOORDIV: lambda a: a[0] // a[1],
    ExprOp.MOD: lambda a: a[0] % a[1],
    ExprOp.POW: lambda a: _power(a[0], a[1]),
    ExprOp.NEG: lambda a: -a[0],
    ExprOp.CEILDIV: lambda a: -(-a[0] // a[1]),
    ExprOp.MIN: lambda a: min(a),
    ExprOp.MAX: lambda a: max(a),
    ExprOp.ABS: lambda a: abs(a[0]),
    ExprOp.EQ: lambda a: a[0] == a[1],
    ExprOp.NE: lambda a: a[0] != a[1],
    ExprOp.LT: lambda a: a[0] < a[1],
    ExprOp.LE: lambda a: a[0] <= a[1],
    ExprOp.GT: lambda a: a[0] > a[1],
    ExprOp.GE: lambda a: a[0] >= a[1],
    ExprOp.NOT: lambda a: not a[0],
    ExprOp.SHL: lambda a: _shift_left(a[0], a[1]),
    ExprOp.SHR: lambda a: int(a[0]) >> int(a[1]),
    ExprOp.BITAND: lambda a: int(a[0]) & int(a[1]),
    ExprOp.BITOR: lambda a: int(a[0]) | int(a[1]),
    ExprOp.BITXOR: lambda a: int(a[0]) ^ int(a[1]),
    ExprOp.TO_FLOAT: lambda a: float(a[0]),
    ExprOp.FLOOR: lambda a: math.floor(a[0]),
    ExprOp.CEIL: lambda a: math.ceil(a[0]),
    ExprOp.TRUNC: lambda a: math.trunc(a[0]),
    ExprOp.ROUND: lambda a: round(a[0]),
    ExprOp.SQRT: lambda a: math.sqrt(a[0]),
    ExprOp.LOG2: lambda a: math.log2(a[0]),
}
"""The value of each operator that evaluates all its operands."""
