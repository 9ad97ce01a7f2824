"""Operators on single elements, reductions and scans, with the meaning that eager gives.

Operands have one dtype and the result has it too, except where :func:`result_dtype` says
otherwise: promotion is explicit, as casts.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from wrapperir.ir import DType


class ScalarOp(StrEnum):
    """An operator on elements; the value is the name in text.

    :func:`takes_dtype` says which dtypes an operator takes.  Arithmetic on whole numbers
    wraps.  ``MINIMUM``, ``MAXIMUM`` return NaN if an operand is NaN; ``FMIN``, ``FMAX``
    return the other operand.  ``FLOORDIV`` and ``REMAINDER`` round toward minus infinity,
    as Python's do; ``TRUNCDIV`` and ``FMOD`` toward zero, as C's do.  ``ROUND`` rounds half
    to even.  ``SHR`` is arithmetic for signed dtypes.  ``CAST`` rounds, truncates and wraps
    as ``Tensor.to`` does; ``BITCAST`` keeps the bits.  ``WHERE`` takes a bool and two
    others.
    """

    CAST = "cast"
    BITCAST = "bitcast"
    WHERE = "where"

    NEG = "neg"
    ABS = "abs"
    SIGN = "sign"
    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    FLOORDIV = "floordiv"
    TRUNCDIV = "truncdiv"
    REMAINDER = "remainder"
    FMOD = "fmod"
    POW = "pow"
    MINIMUM = "minimum"
    MAXIMUM = "maximum"
    FMIN = "fmin"
    FMAX = "fmax"

    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"
    ISNAN = "isnan"
    ISINF = "isinf"
    SIGNBIT = "signbit"

    NOT = "not"
    BITNOT = "bitnot"
    AND = "and"
    OR = "or"
    XOR = "xor"
    SHL = "shl"
    SHR = "shr"

    FLOOR = "floor"
    CEIL = "ceil"
    TRUNC = "trunc"
    ROUND = "round"
    SQRT = "sqrt"
    RSQRT = "rsqrt"
    EXP = "exp"
    EXP2 = "exp2"
    EXPM1 = "expm1"
    LOG = "log"
    LOG2 = "log2"
    LOG10 = "log10"
    LOG1P = "log1p"
    SIN = "sin"
    COS = "cos"
    TAN = "tan"
    ASIN = "asin"
    ACOS = "acos"
    ATAN = "atan"
    SINH = "sinh"
    COSH = "cosh"
    TANH = "tanh"
    ASINH = "asinh"
    ACOSH = "acosh"
    ATANH = "atanh"
    ATAN2 = "atan2"
    HYPOT = "hypot"
    COPYSIGN = "copysign"
    NEXTAFTER = "nextafter"
    ERF = "erf"
    ERFC = "erfc"
    LGAMMA = "lgamma"


COMPARISONS = frozenset(
    {ScalarOp.EQ, ScalarOp.NE, ScalarOp.LT, ScalarOp.LE, ScalarOp.GT, ScalarOp.GE}
)
"""Operators that compare two operands of one dtype, and return a bool."""

INFIX: Mapping[ScalarOp, str] = {
    **{ScalarOp.ADD: "+", ScalarOp.SUB: "-", ScalarOp.MUL: "*"},
    **{ScalarOp.EQ: "==", ScalarOp.NE: "!=", ScalarOp.LT: "<"},
    **{ScalarOp.LE: "<=", ScalarOp.GT: ">", ScalarOp.GE: ">="},
    **{ScalarOp.AND: "&", ScalarOp.OR: "|", ScalarOp.XOR: "^"},
}
"""The signs that operators have in C++ and in Python."""

ON_BOOLS: Mapping[ScalarOp, ScalarOp] = {
    **{ScalarOp.ADD: ScalarOp.OR, ScalarOp.MUL: ScalarOp.AND, ScalarOp.SUB: ScalarOp.XOR},
    **{ScalarOp.MINIMUM: ScalarOp.AND, ScalarOp.FMIN: ScalarOp.AND},
    **{ScalarOp.MAXIMUM: ScalarOp.OR, ScalarOp.FMAX: ScalarOp.OR},
    ScalarOp.BITNOT: ScalarOp.NOT,
}
"""Operators on bools by those that are the same on one bit."""

TESTS = frozenset({ScalarOp.ISNAN, ScalarOp.ISINF, ScalarOp.SIGNBIT, ScalarOp.NOT})
"""Operators of one operand that return a bool; ``NOT`` takes a bool."""

_BINARY = frozenset(
    {
        *(ScalarOp.ADD, ScalarOp.SUB, ScalarOp.MUL, ScalarOp.DIV, ScalarOp.FLOORDIV),
        *(ScalarOp.TRUNCDIV, ScalarOp.REMAINDER, ScalarOp.FMOD, ScalarOp.POW),
        *(ScalarOp.MINIMUM, ScalarOp.MAXIMUM, ScalarOp.FMIN, ScalarOp.FMAX),
        *(ScalarOp.AND, ScalarOp.OR, ScalarOp.XOR, ScalarOp.SHL, ScalarOp.SHR),
        *(ScalarOp.ATAN2, ScalarOp.HYPOT, ScalarOp.COPYSIGN, ScalarOp.NEXTAFTER),
        *COMPARISONS,
    }
)


def operand_count(op: ScalarOp) -> int:
    """Return how many operands an operator takes."""
    if op is ScalarOp.WHERE:
        return 3
    return 2 if op in _BINARY else 1


def result_dtype(op: ScalarOp, operands: Sequence[DType]) -> DType | None:
    """Return the dtype of a result; ``None`` where the instruction chooses it (casts)."""
    if op in (ScalarOp.CAST, ScalarOp.BITCAST):
        return None
    if op in COMPARISONS or op in TESTS:
        return DType.BOOL
    return operands[1] if op is ScalarOp.WHERE else operands[0]


_REAL = frozenset(
    {
        *(ScalarOp.SQRT, ScalarOp.RSQRT, ScalarOp.EXP, ScalarOp.EXP2, ScalarOp.EXPM1),
        *(ScalarOp.LOG, ScalarOp.LOG2, ScalarOp.LOG10, ScalarOp.LOG1P, ScalarOp.SIN),
        *(ScalarOp.COS, ScalarOp.TAN, ScalarOp.ASIN, ScalarOp.ACOS, ScalarOp.ATAN),
        *(ScalarOp.SINH, ScalarOp.COSH, ScalarOp.TANH, ScalarOp.ASINH, ScalarOp.ACOSH),
        *(ScalarOp.ATANH, ScalarOp.ATAN2, ScalarOp.HYPOT, ScalarOp.COPYSIGN),
        *(ScalarOp.NEXTAFTER, ScalarOp.ERF, ScalarOp.ERFC, ScalarOp.LGAMMA),
    }
)
"""Functions of real numbers."""

_BITS = frozenset({ScalarOp.BITNOT, ScalarOp.AND, ScalarOp.OR, ScalarOp.XOR})
_SHIFTS = frozenset({ScalarOp.SHL, ScalarOp.SHR})
_ANY = frozenset(
    {ScalarOp.CAST, ScalarOp.BITCAST, ScalarOp.WHERE, ScalarOp.EQ, ScalarOp.NE}
)
_OF_BOOLS = frozenset(
    {
        *(ScalarOp.NOT, ScalarOp.LT, ScalarOp.LE, ScalarOp.GT, ScalarOp.GE, ScalarOp.ADD),
        *(ScalarOp.MUL, ScalarOp.MINIMUM, ScalarOp.MAXIMUM, ScalarOp.FMIN, ScalarOp.FMAX),
        *(ScalarOp.SIGN, ScalarOp.ISNAN, ScalarOp.ISINF, ScalarOp.SIGNBIT, *_BITS, *_ANY),
    }
)
_FLOATS = frozenset({DType.F64, DType.F32, DType.F16, DType.BF16})


def takes_dtype(op: ScalarOp, dtype: DType) -> bool:
    """Say whether an operator takes operands of a dtype; of ``WHERE``, the last two."""
    if op in _ANY:
        return True
    if dtype is DType.BOOL:
        return op in _OF_BOOLS
    if op in _REAL:
        return dtype in (DType.F32, DType.F64)
    if op is ScalarOp.NOT:
        return False
    if op in _BITS or op in _SHIFTS:
        return dtype.is_integer
    return dtype in _FLOATS or (dtype.is_integer and op is not ScalarOp.DIV)


class ReduceOp(StrEnum):
    """A reduction over the axes of an inner loop, or a scan along its last axis.

    An empty reduction gives the operator's identity; ``MIN``, ``MAX``, ``ARGMIN`` and
    ``ARGMAX`` have none.  ``MIN`` and ``MAX`` return NaN if a value is NaN.  ``ANY`` and
    ``ALL`` take values of any dtype, of which zero is false, and return a bool.  ``ARGMIN``
    and ``ARGMAX`` return the position of the result in row-major order of the loop's axes,
    as ``i64``: the first one of equal values.  NaN is taken before any number, the first
    NaN before others.  ``WELFORD`` takes values ``f32`` or ``f64`` and returns their mean,
    the sum of squared differences from it, and their count; given three operands, it
    combines such triples.  ``ONLINE_SOFTMAX`` returns the maximum and the sum of
    ``exp(value - maximum)``.  All other results have the dtype of the values.

    A scan with ``ARGMIN`` or ``ARGMAX`` returns the extreme value so far and its position
    along the last axis, as ``i64``: as in eager, the last one of equal values.
    """

    SUM = "sum"
    PROD = "prod"
    MIN = "min"
    MAX = "max"
    ANY = "any"
    ALL = "all"
    ARGMIN = "argmin"
    ARGMAX = "argmax"
    WELFORD = "welford"
    ONLINE_SOFTMAX = "online_softmax"


RESULT_COUNTS = {ReduceOp.WELFORD: 3, ReduceOp.ONLINE_SOFTMAX: 2}
"""Results of the reductions that have more than one."""

REDUCED_REAL = frozenset({ReduceOp.WELFORD, ReduceOp.ONLINE_SOFTMAX})
"""Reductions of ``f32`` and ``f64`` only."""

SCANS = (
    *(ReduceOp.SUM, ReduceOp.PROD, ReduceOp.MIN, ReduceOp.MAX),
    *(ReduceOp.ARGMIN, ReduceOp.ARGMAX),
)
"""Reductions that are scans, too."""


def reduced_dtypes(op: ReduceOp, dtype: DType) -> tuple[DType, ...]:
    """Return the dtype of each result of a reduction of values of ``dtype``."""
    if op in (ReduceOp.ANY, ReduceOp.ALL):
        return (DType.BOOL,)
    if op in (ReduceOp.ARGMIN, ReduceOp.ARGMAX):
        return (DType.I64,)
    return (dtype,) * RESULT_COUNTS.get(op, 1)


def scanned_dtypes(op: ReduceOp, dtype: DType) -> tuple[DType, ...]:
    """Return the dtype of each result of a scan of values of ``dtype``."""
    is_placed = op in (ReduceOp.ARGMIN, ReduceOp.ARGMAX)
    return (dtype, DType.I64) if is_placed else (dtype,)
