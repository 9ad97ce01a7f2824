"""The text of operators on elements, with the meaning of eager, not Triton's defaults.

``libdevice`` has the functions that eager's kernels are compiled with.  Triton's own
division and square root of ``f32`` are approximate, its whole division truncates, its
negation loses the sign of zero, and its minimum and maximum lose NaN.
"""

from collections.abc import Mapping, Sequence

from wrapperir.ir import DType
from wrapperir.lowering.dtypes import HALVES
from wrapperir.lowering.scalar_op import (
    COMPARISONS,
    INFIX,
    ON_BOOLS,
    ScalarOp,
    operand_count,
)
from wrapperir.lowering.triton.dtypes import BITS, SIGNED, TYPES

_LIBRARY = {
    op: op.value
    for op in (
        *(ScalarOp.EXP, ScalarOp.EXP2, ScalarOp.EXPM1, ScalarOp.LOG, ScalarOp.LOG2),
        *(ScalarOp.LOG10, ScalarOp.LOG1P, ScalarOp.SIN, ScalarOp.COS, ScalarOp.TAN),
        *(ScalarOp.ASIN, ScalarOp.ACOS, ScalarOp.ATAN, ScalarOp.SINH, ScalarOp.COSH),
        *(ScalarOp.TANH, ScalarOp.ASINH, ScalarOp.ACOSH, ScalarOp.ATANH, ScalarOp.ATAN2),
        *(ScalarOp.HYPOT, ScalarOp.COPYSIGN, ScalarOp.NEXTAFTER, ScalarOp.ERF),
        *(ScalarOp.ERFC, ScalarOp.LGAMMA, ScalarOp.RSQRT, ScalarOp.FLOOR),
        *(ScalarOp.CEIL, ScalarOp.TRUNC, ScalarOp.FMOD, ScalarOp.POW),
    )
} | {ScalarOp.ROUND: "nearbyint"}
"""Operators on real numbers that are one function of ``libdevice``."""

_SIGNS = {op: f"({{0}} {sign} {{1}})" for op, sign in INFIX.items()}
_REALS: Mapping[ScalarOp, str] = {
    **{op: _SIGNS[op] for op in (*COMPARISONS, ScalarOp.ADD, ScalarOp.SUB, ScalarOp.MUL)},
    **{
        op: f"libdevice.{name}({', '.join(['{0}', '{1}'][: operand_count(op)])})"
        for op, name in _LIBRARY.items()
    },
    ScalarOp.NEG: "({0} * -1.0)",
    ScalarOp.ABS: "tl.abs({0})",
    ScalarOp.SIGN: "tl.where({0} > 0, 1.0, tl.where({0} < 0, -1.0, 0.0)).to({kind})",
    ScalarOp.DIV: "({0} / {1})",
    ScalarOp.TRUNCDIV: "libdevice.trunc(({0} / {1}))",
    ScalarOp.FLOORDIV: "real_floor_quotient({0}, {1})",
    ScalarOp.REMAINDER: "real_remainder({0}, {1})",
    ScalarOp.MINIMUM: "minimum({0}, {1})",
    ScalarOp.MAXIMUM: "maximum({0}, {1})",
    ScalarOp.FMIN: "tl.where(({0} <= {1}) | ({1} != {1}), {0}, {1})",
    ScalarOp.FMAX: "tl.where(({0} >= {1}) | ({1} != {1}), {0}, {1})",
    ScalarOp.ISNAN: "({0} != {0})",
    ScalarOp.ISINF: '(tl.abs({0}) == float("inf"))',
    ScalarOp.SIGNBIT: "({0}.to({raw}, bitcast=True) < 0)",
    ScalarOp.SQRT: "tl.sqrt({0})",
}
_F32: Mapping[ScalarOp, str] = {
    **_REALS,
    ScalarOp.DIV: "tl.div_rn({0}, {1})",
    ScalarOp.TRUNCDIV: "libdevice.trunc(tl.div_rn({0}, {1}))",
    ScalarOp.SQRT: "tl.sqrt_rn({0})",
}


def _shifts(inside: str, right: str) -> dict[ScalarOp, str]:
    """Return shifts of any count: ``inside`` says whether it is below the width."""
    left = f"({{0}} << tl.where({inside}, {{1}}, 0).to({{kind}}))"
    shifted = f"({{0}} >> tl.where({inside}, {{1}}, {{last}}).to({{kind}}))"
    return {
        ScalarOp.SHL: f"tl.where({inside}, {left}, 0).to({{kind}})",
        ScalarOp.SHR: right.format(shifted=shifted, inside=inside),
    }


_WHOLE: Mapping[ScalarOp, str] = {
    **_SIGNS,
    ScalarOp.NEG: "(0 - {0})",
    ScalarOp.TRUNCDIV: "({0} // {1})",
    ScalarOp.FMOD: "({0} % {1})",
    **dict.fromkeys((ScalarOp.MINIMUM, ScalarOp.FMIN), "tl.minimum({0}, {1})"),
    **dict.fromkeys((ScalarOp.MAXIMUM, ScalarOp.FMAX), "tl.maximum({0}, {1})"),
    **dict.fromkeys((ScalarOp.ISNAN, ScalarOp.ISINF), "({0} != {0})"),
    **dict.fromkeys((ScalarOp.FLOOR, ScalarOp.CEIL), "{0}"),
    **dict.fromkeys((ScalarOp.TRUNC, ScalarOp.ROUND), "{0}"),
}
_SIGNED_WHOLE: Mapping[ScalarOp, str] = {
    **_WHOLE,
    **_shifts("(({1} >= 0) & ({1} < {bits}))", "{shifted}"),
    ScalarOp.ABS: "tl.abs({0})",
    ScalarOp.SIGN: "(({0} > 0).to({kind}) - ({0} < 0).to({kind}))",
    ScalarOp.FLOORDIV: "floor_quotient({0}, {1})",
    ScalarOp.REMAINDER: "floor_remainder({0}, {1})",
    ScalarOp.POW: "signed_power({0}, {1})",
    ScalarOp.BITNOT: "({0} ^ -1)",
    ScalarOp.SIGNBIT: "({0} < 0)",
}
_UNSIGNED_WHOLE: Mapping[ScalarOp, str] = {
    **_WHOLE,
    **_shifts("({1} < {bits})", "tl.where({inside}, {shifted}, 0).to({{kind}})"),
    ScalarOp.ABS: "{0}",
    ScalarOp.SIGN: "({0} != 0).to({kind})",
    ScalarOp.FLOORDIV: "({0} // {1})",
    ScalarOp.REMAINDER: "({0} % {1})",
    ScalarOp.POW: "whole_power({0}, {1})",
    ScalarOp.BITNOT: "({0} ^ {ones})",
    ScalarOp.SIGNBIT: "({0} < {0})",
}
_BOOLS: Mapping[ScalarOp, str] = {
    **{op: f"({{0}}.to(tl.int8) {INFIX[op]} {{1}}.to(tl.int8))" for op in COMPARISONS},
    **{op: _SIGNS[op] for op in (ScalarOp.AND, ScalarOp.OR, ScalarOp.XOR)},
    **dict.fromkeys((ScalarOp.SIGN, ScalarOp.ABS, ScalarOp.FLOOR), "{0}"),
    **dict.fromkeys((ScalarOp.CEIL, ScalarOp.TRUNC, ScalarOp.ROUND), "{0}"),
    **dict.fromkeys((ScalarOp.ISNAN, ScalarOp.ISINF, ScalarOp.SIGNBIT), "({0} != {0})"),
    ScalarOp.NOT: "({0} == 0)",
}


def scalar_code(
    op: ScalarOp, operands: Sequence[str], source: DType, result: DType
) -> str | None:
    """Return the text of an operator; ``None`` where this language has none.

    ``operands`` are names, ``source`` is the dtype of the last of them.
    """
    if source not in TYPES or result not in TYPES:
        return None
    if op is ScalarOp.CAST:
        return cast_text(operands[0], source, result)
    if op is ScalarOp.BITCAST:
        if source.itemsize != result.itemsize or DType.BOOL in (source, result):
            return None
        return f"{operands[0]}.to({TYPES[result]}, bitcast=True)"
    if op is ScalarOp.WHERE:
        return f"tl.where({', '.join(operands)})"
    if source in HALVES and op is not ScalarOp.SIGNBIT:
        if op is ScalarOp.TRUNCDIV:  # eager rounds the quotient first
            quotient = _half(ScalarOp.DIV, operands, source)
            return quotient and _half(ScalarOp.TRUNC, [quotient], source)
        return _half(op, operands, result)
    return _formatted(op, operands, source)


def cast_text(operand: str, source: DType, result: DType) -> str:
    """Return the text of a conversion, as ``Tensor.to`` converts.

    Halves are made from ``f32``, and whole numbers of 8 and 16 bits from 32, which decides
    how values round and wrap.
    """
    if source is result:
        return operand
    if result is DType.BOOL:
        return f"({operand} != 0)"
    via: DType | None = None
    if result in HALVES and source is not DType.F32 and source is not DType.BOOL:
        via = DType.F32
    elif source.is_float and not result.is_float and result.itemsize < 4:
        via = DType.I32
    if via is not None and via is not source:
        operand = f"{operand}.to({TYPES[via]})"
    return f"{operand}.to({TYPES[result]})"


def _half(op: ScalarOp, operands: Sequence[str], result: DType) -> str | None:
    """Return the text of an operator on halves, which is computed in ``f32``."""
    code = _formatted(op, [f"{operand}.to(tl.float32)" for operand in operands], DType.F32)
    if code is None or result is DType.BOOL:
        return code
    return f"({code}).to({TYPES[result]})"


def _formatted(op: ScalarOp, operands: Sequence[str], dtype: DType) -> str | None:
    if dtype is DType.BOOL:
        patterns, op = _BOOLS, ON_BOOLS.get(op, op)
    elif dtype.is_float:
        patterns = _F32 if dtype is DType.F32 else _REALS
    else:
        patterns = _SIGNED_WHOLE if dtype in SIGNED else _UNSIGNED_WHOLE
    pattern = patterns.get(op)
    if pattern is None:
        return None
    bits = 8 * dtype.itemsize
    return pattern.format(
        *operands,
        kind=TYPES[dtype],
        raw=TYPES[BITS.get(dtype, dtype)],
        bits=bits,
        last=bits - 1,
        ones=(1 << bits) - 1,
    )
