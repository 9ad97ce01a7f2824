"""What drawn nests know of their values, and which operators renderers agree about.

A value is *rough* where renderers may round otherwise than the interpreter; no comparison,
rounding or position may depend on it.
"""

from collections.abc import Sequence
from math import exp, inf, prod

from attrs import frozen

from wrapperir.ir import (
    DType,
    Expr,
    Symbol,
    evaluate_int,
)
from wrapperir.lowering.kernel import SizeSymbol
from wrapperir.lowering.scalar_op import (
    COMPARISONS,
    REDUCED_REAL,
    TESTS,
    ReduceOp,
    ScalarOp,
)

_HALVES = (DType.F16, DType.BF16)
DTYPES = (
    *(DType.F32, DType.F64, *_HALVES, DType.I64, DType.I32, DType.I16, DType.I8, DType.U8),
    DType.BOOL,
)
WHOLE_FLOATS = {DType.F64: 2**53, DType.F32: 2**24, DType.F16: 2**11, DType.BF16: 2**8}
"""Up to which numbers all whole numbers are exact."""

GREATEST = 4
"""The greatest number in inputs."""

MOST = 1e6
"""The greatest rough value; above it, differences would be large."""

SIZES = {"s0": SizeSymbol(low=1)}
"""The size symbols of drawn nests and graphs."""

SIZE_VALUES = {"s0": 4}
"""The values of :data:`SIZES` that inputs are made for."""

EXTENTS: tuple[Expr, ...] = (1, 2, 3, 4, 7, Symbol("s0"))
SMOOTH = frozenset(
    {
        *(ScalarOp.NEG, ScalarOp.ABS, ScalarOp.ADD, ScalarOp.SUB, ScalarOp.MUL),
        *(ScalarOp.MINIMUM, ScalarOp.MAXIMUM, ScalarOp.FMIN, ScalarOp.FMAX),
    }
)
"""Operators that rough values may be given."""

EXACT = frozenset(
    {
        *(ScalarOp.SIGN, ScalarOp.DIV, ScalarOp.FLOOR, ScalarOp.CEIL, ScalarOp.TRUNC),
        *(ScalarOp.ROUND, ScalarOp.COPYSIGN, ScalarOp.ISNAN, ScalarOp.ISINF),
        *(ScalarOp.SIGNBIT, ScalarOp.NOT, ScalarOp.BITNOT, ScalarOp.AND, ScalarOp.OR),
        *(ScalarOp.XOR, *COMPARISONS, *SMOOTH),
    }
)
"""Operators whose results IEEE 754, or whole numbers, fully decide."""

PLACED = (ReduceOp.ARGMIN, ReduceOp.ARGMAX)
DIVISIONS = (ScalarOp.FLOORDIV, ScalarOp.TRUNCDIV, ScalarOp.REMAINDER, ScalarOp.FMOD)
_GROWING = (
    *(ScalarOp.EXP, ScalarOp.EXP2, ScalarOp.EXPM1, ScalarOp.SINH, ScalarOp.COSH),
    *(ScalarOp.TAN, ScalarOp.POW),
)
ROUGH = (
    ScalarOp.SQRT,  # PyTorch's vector forms of it are not always rounded as IEEE 754 says
    *(ScalarOp.RSQRT, ScalarOp.LOG, ScalarOp.LOG2, ScalarOp.LOG10, ScalarOp.LOG1P),
    *(ScalarOp.SIN, ScalarOp.COS, ScalarOp.ASIN, ScalarOp.ACOS, ScalarOp.ATAN),
    *(ScalarOp.TANH, ScalarOp.ASINH, ScalarOp.ACOSH, ScalarOp.ATANH, ScalarOp.ATAN2),
    *(ScalarOp.HYPOT, ScalarOp.ERF, ScalarOp.ERFC, ScalarOp.LGAMMA, *_GROWING),
)


@frozen(kw_only=True)
class KnownValue:
    """A value: ``size`` is its greatest absolute value, ``whole`` means no fraction."""

    name: str
    dtype: DType
    size: float = inf
    whole: bool = False
    rough: bool = False


def number_of(dtype: DType, value: int) -> int | float | bool:
    """Return a number as a literal of a dtype."""
    if dtype is DType.BOOL:
        return value % 2 == 1
    return float(value) if dtype.is_float else value


def points_of(extent: Expr) -> int:
    """Return the value of an extent."""
    return evaluate_int(extent, SIZE_VALUES)


def can_reduce(op: ReduceOp, value: KnownValue) -> bool:
    """Say whether renderers agree about a reduction of a value."""
    if op in (ReduceOp.ANY, ReduceOp.ALL, *PLACED):
        return not value.rough and (value.dtype is not DType.BOOL or op not in PLACED)
    if op in REDUCED_REAL:
        return value.dtype in (DType.F32, DType.F64) and value.size <= 1000
    return value.dtype is not DType.BOOL


def result_facts(op: ScalarOp, operands: Sequence[KnownValue]) -> KnownValue | None:
    """Return what is known of an operator's result; ``None`` if it is too rough."""
    sizes = [each.size for each in operands]
    size = max(*sizes, 1)
    if op in (ScalarOp.ADD, ScalarOp.SUB):
        size = sum(sizes)
    elif op is ScalarOp.MUL:
        size = prod(sizes)
    elif op in _GROWING:
        size = 300 + exp(min(size, 16) * 2.8) if op is ScalarOp.POW else 300 + exp(size)
    elif op in ROUGH:
        size = max(size * 2, 150)
    dtype = operands[0].dtype
    may_wrap = dtype is DType.U8 and op in (ScalarOp.SUB, ScalarOp.NEG)
    if op in (ScalarOp.SIGNBIT, ScalarOp.COPYSIGN) and size == inf:
        return None  # the sign of NaN is not defined
    if op is ScalarOp.DIV or may_wrap:
        size = inf
    limit = WHOLE_FLOATS.get(dtype, 100)
    keeps = op in SMOOTH or op in (ScalarOp.FLOOR, ScalarOp.CEIL, ScalarOp.TRUNC)
    keeps = keeps or op in (ScalarOp.ROUND, ScalarOp.SIGN) or _is_test(op)
    whole = keeps and all(each.whole for each in operands) and size <= limit
    rough = op in ROUGH or any(each.rough for each in operands)
    if rough and size > MOST:
        return None
    return KnownValue(name="", dtype=dtype, size=size, whole=whole, rough=rough)


def _is_test(op: ScalarOp) -> bool:
    """Say whether an operator returns a bool."""
    return op in COMPARISONS or op in TESTS
