"""Operators of half types, which kernels in any language compute in ``f32``."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from wrapperir.ir import DType
from wrapperir.lowering.scalar_op import ScalarOp

FormatApply: TypeAlias = Callable[[ScalarOp, DType, Sequence[DType], Sequence[str]], str]
"""Writes an operator: its result's dtype, its operands' dtypes, and its operands."""
FormatCast: TypeAlias = Callable[[str, DType, DType], str]
"""Writes a conversion of a value from one dtype to another."""


def format_in_f32(
    op: ScalarOp,
    result: DType,
    dtypes: Sequence[DType],
    operands: Sequence[str],
    format_apply: FormatApply,
    format_cast: FormatCast,
) -> str:
    """Return the result of an operator of half operands, computed as eager does."""
    first = dtypes[0]
    if op is ScalarOp.TRUNCDIV:  # eager rounds the quotient before it truncates
        quotient = format_apply(ScalarOp.DIV, first, dtypes, operands)
        return format_apply(ScalarOp.TRUNC, first, dtypes[:1], [quotient])
    wide = [format_cast(operand, first, DType.F32) for operand in operands]
    inner = format_apply(op, DType.F32, [DType.F32] * len(wide), wide)
    return inner if result is DType.BOOL else format_cast(inner, DType.F32, result)
