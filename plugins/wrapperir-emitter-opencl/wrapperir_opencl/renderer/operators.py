"""Operators on elements as OpenCL C expressions.  Halves are held as their bits."""

import math
import struct
from collections.abc import Mapping, Sequence

from wrapperir.ir import DType
from wrapperir.lowering.dtypes import HALVES
from wrapperir.lowering.half_operators import format_in_f32
from wrapperir.lowering.scalar_op import COMPARISONS, INFIX, ON_BOOLS, ScalarOp

STORED: Mapping[DType, str] = {
    **{DType.F64: "double", DType.F32: "float", DType.F16: "ushort", DType.BF16: "ushort"},
    **{DType.I64: "long", DType.I32: "int", DType.I16: "short", DType.I8: "char"},
    **{DType.U64: "ulong", DType.U32: "uint", DType.U16: "ushort", DType.U8: "uchar"},
    DType.BOOL: "uchar",
}
"""The type of an element in memory."""

_ON_REALS: Mapping[ScalarOp, str] = {
    ScalarOp.NEG: "-{0}",
    ScalarOp.ABS: "fabs({0})",
    ScalarOp.DIV: "{0} / {1}",
    ScalarOp.TRUNCDIV: "trunc({0} / {1})",
    ScalarOp.FLOORDIV: "floordiv_T({0}, {1})",
    ScalarOp.REMAINDER: "remainder_T({0}, {1})",
    ScalarOp.ROUND: "rint({0})",
    ScalarOp.RSQRT: "1 / sqrt({0})",
}
_ON_WHOLE: Mapping[ScalarOp, str] = {
    ScalarOp.NEG: "(T)(0 - (U){0})",
    ScalarOp.ABS: "(T)({0} < 0 ? 0 - (U){0} : (U){0})",
    ScalarOp.ADD: "(T)((U){0} + (U){1})",
    ScalarOp.SUB: "(T)((U){0} - (U){1})",
    ScalarOp.MUL: "(T)((U){0} * (U){1})",
    ScalarOp.DIV: "truncdiv_T({0}, {1})",
    ScalarOp.BITNOT: "(T)~{0}",
    ScalarOp.SHL: "({1} < 0 || {1} >= BITS ? 0 : (T)((U){0} << {1}))",
    ScalarOp.SHR: "({1} < 0 || {1} >= BITS ? ({0} < 0 ? -1 : 0) : (T)({0} >> {1}))",
    **{op: f"{op.value}_T({{0}}, {{1}})" for op in (ScalarOp.TRUNCDIV, ScalarOp.FLOORDIV)},
    **{op: f"{op.value}_T({{0}}, {{1}})" for op in (ScalarOp.REMAINDER, ScalarOp.FMOD)},
    ScalarOp.POW: "power_T({0}, {1})",
    **dict.fromkeys((ScalarOp.FLOOR, ScalarOp.CEIL, ScalarOp.TRUNC, ScalarOp.ROUND), "{0}"),
    **{ScalarOp.ISNAN: "false", ScalarOp.ISINF: "false", ScalarOp.SIGNBIT: "({0} < 0)"},
}
"""Numbers wrap, so that sums are of unsigned numbers."""
_ON_ANY: Mapping[ScalarOp, str] = {
    ScalarOp.NOT: "!{0}",
    ScalarOp.SIGN: "(T)(({0} > 0) - ({0} < 0))",
    ScalarOp.MINIMUM: "({0} < {1} || {0} != {0} ? {0} : {1})",
    ScalarOp.MAXIMUM: "({0} > {1} || {0} != {0} ? {0} : {1})",
    ScalarOp.FMIN: "({0} < {1} || {1} != {1} ? {0} : {1})",
    ScalarOp.FMAX: "({0} > {1} || {1} != {1} ? {0} : {1})",
}
_ON_ONE_BIT: Mapping[ScalarOp, str] = {
    ScalarOp.SIGN: "{0}",
    **dict.fromkeys((ScalarOp.ISNAN, ScalarOp.ISINF, ScalarOp.SIGNBIT), "false"),
}


def scalar_type(dtype: DType) -> str:
    """Return the type of one value."""
    return "bool" if dtype is DType.BOOL else STORED[dtype]


def of_type(template: str, dtype: DType) -> str:
    """Return a template of a type ``T``, its unsigned type ``U`` and its ``BITS``."""
    unsigned = "ulong" if dtype.itemsize == 8 else "uint"
    signed_minus_one = "b == -1" if dtype.value.startswith("i") else "false"
    text = template.replace("MINUS_ONE", signed_minus_one)
    text = text.replace("BITS", str(8 * dtype.itemsize)).replace("(U)", f"({unsigned})")
    for before, after in (("_T(", "("), ("(T)", ""), ("T ", " ")):
        kind = scalar_type(dtype)
        text = text.replace(
            before, {"(": f"_{kind}(", "": f"({kind})", " ": f"{kind} "}[after]
        )
    return text


def format_literal(value: int | float | bool, dtype: DType) -> str:
    """Return a constant of :func:`scalar_type`, converted as ``Tensor.fill_`` does."""
    if dtype is DType.BOOL:
        return "true" if value else "false"
    if dtype in HALVES:
        return f"{dtype.value}_of_f32({format_literal(value, DType.F32)})"
    if dtype.is_float:
        return _format_real(float(value), dtype)
    bits = 8 * dtype.itemsize
    number = int(value) & ((1 << bits) - 1)
    if dtype.value.startswith("i") and number >> (bits - 1):
        number -= 1 << bits
    if number == -(1 << 63):
        return "(-9223372036854775807L - 1)"
    return f"(({STORED[dtype]}){number}{'UL' if dtype is DType.U64 else 'L'})"


def _format_real(value: float, dtype: DType) -> str:
    kind, suffix = STORED[dtype], ""
    if dtype is DType.F32:
        suffix = "f"
        try:
            (value,) = struct.unpack("f", struct.pack("f", value))
        except OverflowError:
            value = math.copysign(math.inf, value)
    if math.isnan(value):
        return f"(({kind})NAN)"
    if math.isinf(value):
        return f"(({kind}){'-' if value < 0 else ''}INFINITY)"
    return f"({value.hex()}{suffix})"


def format_apply(
    op: ScalarOp, result: DType, dtypes: Sequence[DType], operands: Sequence[str]
) -> str:
    """Return the result of an operator; ``dtypes`` are those of ``operands``."""
    first = dtypes[0]
    if op is ScalarOp.CAST:
        return format_cast(operands[0], first, result)
    if op is ScalarOp.BITCAST:
        return f"as_{STORED[result]}(({STORED[first]}){operands[0]})"
    if op is ScalarOp.WHERE:
        return f"{operands[0]} ? {operands[1]} : {operands[2]}"
    if first in HALVES:
        return format_in_f32(op, result, dtypes, operands, format_apply, format_cast)
    tables = [_ON_REALS if first.is_float else _ON_WHOLE, _ON_ANY]
    if first is DType.BOOL:
        op, tables = ON_BOOLS.get(op, op), [_ON_ONE_BIT, _ON_ANY]
    for table in tables:
        if op in table:
            return of_type(table[op], first).format(*operands)
    if op in INFIX:
        text = f"({operands[0]} {INFIX[op]} {operands[1]})"
        return (
            text if op in COMPARISONS or first.is_float else f"({scalar_type(first)}){text}"
        )
    # Other functions have the names that they have in OpenCL C.
    text = f"{op.value}({', '.join(operands)})"
    return f"({text} != 0)" if result is DType.BOOL else text


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
    if source.is_float and target is DType.U64:
        return f"u64_of_real({operand})"
    if source.is_float and target.is_integer and target.itemsize < 8:
        # Numbers out of range of a small dtype wrap, as they do in eager.
        through = "long" if target is DType.U32 else "int"
        return f"({STORED[target]})({through})({operand})"
    return f"({STORED[target]})({operand})"
