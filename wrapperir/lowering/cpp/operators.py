"""Operators on elements as C++ expressions."""

from collections.abc import Mapping, Sequence

from wrapperir.ir import DType
from wrapperir.lowering.cpp.elements import scalar_type
from wrapperir.lowering.dtypes import HALVES
from wrapperir.lowering.half_operators import format_in_f32
from wrapperir.lowering.scalar_op import INFIX, ON_BOOLS, ScalarOp

_FUNCTIONS: Mapping[ScalarOp, str] = {
    ScalarOp.ABS: "absolute",
    ScalarOp.SHL: "shift_left",
    ScalarOp.SHR: "shift_right",
    ScalarOp.POW: "power",
    ScalarOp.ISINF: "is_inf",
    ScalarOp.SIGNBIT: "sign_bit",
}
"""Snippets by operator, where the name is not the operator's own."""

_ROUNDING = frozenset({ScalarOp.FLOOR, ScalarOp.CEIL, ScalarOp.TRUNC, ScalarOp.ROUND})


def format_apply(
    op: ScalarOp, result: DType, dtypes: Sequence[DType], operands: Sequence[str]
) -> str:
    """Return the result of an operator.

    ``dtypes`` are those of ``operands``; the expression converts to the type of ``result``
    where it is assigned.
    """
    first = dtypes[0]
    if op is ScalarOp.CAST:
        return format_cast(operands[0], first, result)
    if op is ScalarOp.BITCAST:
        return f"__builtin_bit_cast({scalar_type(result)}, {operands[0]})"
    if op is ScalarOp.WHERE:
        return f"{operands[0]} ? {operands[1]} : {operands[2]}"
    if first in HALVES:
        return format_in_f32(op, result, dtypes, operands, format_apply, format_cast)
    if first is DType.BOOL:
        op = ON_BOOLS.get(op, op)
    if op in INFIX:
        return f"{operands[0]} {INFIX[op]} {operands[1]}"
    return _format_function(op, first, operands)


def _format_function(op: ScalarOp, dtype: DType, operands: Sequence[str]) -> str:
    match op:
        case ScalarOp.NEG:
            return f"-{operands[0]}"
        case ScalarOp.NOT:
            return f"!{operands[0]}"
        case ScalarOp.BITNOT:
            return f"~{operands[0]}"
        case ScalarOp.DIV:
            if dtype.is_float:
                return f"{operands[0]} / {operands[1]}"
            return f"truncdiv({operands[0]}, {operands[1]})"
        case ScalarOp.ISNAN:
            return f"{operands[0]} != {operands[0]}"
        case _:
            pass
    if not dtype.is_float and (op in _ROUNDING or dtype is DType.BOOL):
        return operands[0]
    if op is ScalarOp.ISINF and not dtype.is_float:
        return "false"
    return f"{_FUNCTIONS.get(op, op.value)}({', '.join(operands)})"


def format_cast(operand: str, source: DType, target: DType) -> str:
    """Return a value converted as ``Tensor.to`` does."""
    if source is target:
        return operand
    if source in HALVES:
        return format_cast(f"f32_of_{source.value}({operand})", DType.F32, target)
    if target in HALVES:
        return f"{target.value}_of_f32({format_cast(operand, source, DType.F32)})"
    if target is DType.BOOL:
        return f"({operand} != 0)"
    if source.is_float and target.is_integer:
        return f"whole_of<{scalar_type(target)}>({operand})"
    return f"{scalar_type(target)}({operand})"
