"""Facts about dtypes that reductions and their accumulators need."""

import math

from wrapperir.ir import DType
from wrapperir.lowering.scalar_op import ReduceOp

HALVES = frozenset({DType.F16, DType.BF16})
"""Types that arithmetic is in ``f32`` for."""


def accumulated(dtype: DType) -> DType:
    """Return the dtype that values of a dtype are added up in."""
    return DType.F32 if dtype in HALVES else dtype


def limits(dtype: DType) -> tuple[int | float | bool, int | float | bool]:
    """Return the least and the greatest value of a dtype, infinities included."""
    if dtype is DType.BOOL:
        return False, True
    if dtype.is_float:
        return -math.inf, math.inf
    bits = 8 * dtype.itemsize
    if dtype.value.startswith("u"):
        return 0, (1 << bits) - 1
    return -(1 << bits - 1), (1 << bits - 1) - 1


def identity(op: ReduceOp, dtype: DType) -> int | float | bool | None:
    """Return the value that changes no result of a reduction, or ``None``."""
    least, greatest = limits(dtype)
    match op:
        case ReduceOp.SUM | ReduceOp.ANY:
            return type(least)(0)
        case ReduceOp.PROD | ReduceOp.ALL:
            return type(least)(1)
        case ReduceOp.MIN | ReduceOp.ARGMIN:
            return greatest
        case ReduceOp.MAX | ReduceOp.ARGMAX | ReduceOp.ONLINE_SOFTMAX:
            return least
        case ReduceOp.WELFORD:
            return None
