"""The text of operators on elements, with the meaning of eager, not Triton's defaults.

``libdevice`` has the functions that eager's kernels are compiled with.  Triton's own
division and square root of ``f32`` are approximate, its whole division truncates, its
negation loses the sign of zero, and its minimum and maximum lose NaN.
"""

from collections.abc import Callable, Mapping, Sequence

from attrs import frozen

from wrapperir.ir import DType
from wrapperir.lowering.dtypes import HALVES
from wrapperir.lowering.scalar_op import COMPARISONS, ScalarOp
from wrapperir.lowering.triton.dtypes import BITS, SIGNED, TYPES


@frozen
class ScalarCode:
    """The text of an expression, and the device functions that it calls."""

    text: str
    functions: tuple[str, ...] = ()


LIBRARY = {
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

_COMPARISONS: Mapping[ScalarOp, str] = {
    ScalarOp.EQ: "==",
    ScalarOp.NE: "!=",
    ScalarOp.LT: "<",
    ScalarOp.LE: "<=",
    ScalarOp.GT: ">",
    ScalarOp.GE: ">=",
}
_INFIX: Mapping[ScalarOp, str] = {
    ScalarOp.ADD: "+",
    ScalarOp.SUB: "-",
    ScalarOp.MUL: "*",
    ScalarOp.AND: "&",
    ScalarOp.OR: "|",
    ScalarOp.XOR: "^",
}
# Operators on bools by those that are the same on one bit.
_OF_BOOLS: Mapping[ScalarOp, ScalarOp] = {
    ScalarOp.ADD: ScalarOp.OR,
    ScalarOp.MUL: ScalarOp.AND,
    ScalarOp.SUB: ScalarOp.XOR,
    ScalarOp.MINIMUM: ScalarOp.AND,
    ScalarOp.FMIN: ScalarOp.AND,
    ScalarOp.MAXIMUM: ScalarOp.OR,
    ScalarOp.FMAX: ScalarOp.OR,
    ScalarOp.BITNOT: ScalarOp.NOT,
}
_SAME_BOOL = frozenset(
    {
        *(ScalarOp.SIGN, ScalarOp.ABS, ScalarOp.FLOOR, ScalarOp.CEIL, ScalarOp.TRUNC),
        ScalarOp.ROUND,
    }
)


def scalar_code(
    op: ScalarOp, operands: Sequence[str], source: DType, result: DType
) -> ScalarCode | None:
    """Return the text of an operator; ``None`` where this language has none.

    ``operands`` are names, ``source`` is the dtype of the last of them.
    """
    if source not in TYPES or result not in TYPES:
        return None
    if op is ScalarOp.CAST:
        return ScalarCode(cast_text(operands[0], source, result))
    if op is ScalarOp.BITCAST:
        if source.itemsize != result.itemsize or DType.BOOL in (source, result):
            return None
        return ScalarCode(f"{operands[0]}.to({TYPES[result]}, bitcast=True)")
    if op is ScalarOp.WHERE:
        condition, if_true, if_false = operands
        return ScalarCode(f"tl.where({condition}, {if_true}, {if_false})")
    if source is DType.BOOL:
        return _of_bools(op, operands)
    if source in HALVES and op is not ScalarOp.SIGNBIT:
        if op is ScalarOp.TRUNCDIV:  # eager rounds the quotient first
            quotient = _half(ScalarOp.DIV, operands, source)
            return quotient and _half(ScalarOp.TRUNC, [quotient.text], source)
        return _half(op, operands, result)
    if source.is_float:
        return _of_reals(op, operands, source)
    return _of_whole_numbers(op, operands, source)


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


def _half(op: ScalarOp, operands: Sequence[str], result: DType) -> ScalarCode | None:
    """Return the text of an operator on halves, which is computed in ``f32``."""
    wide = [f"{operand}.to(tl.float32)" for operand in operands]
    code = _of_reals(op, wide, DType.F32)
    if code is None or result is DType.BOOL:
        return code
    return ScalarCode(f"({code.text}).to({TYPES[result]})", code.functions)


def _of_bools(op: ScalarOp, operands: Sequence[str]) -> ScalarCode | None:
    op = _OF_BOOLS.get(op, op)
    if op in _SAME_BOOL:
        return ScalarCode(operands[0])
    if op in (ScalarOp.ISNAN, ScalarOp.ISINF, ScalarOp.SIGNBIT):
        return ScalarCode(f"({operands[0]} != {operands[0]})")
    if op is ScalarOp.NOT:
        return ScalarCode(f"({operands[0]} == 0)")
    if op in _COMPARISONS:
        left, right = (f"{operand}.to(tl.int8)" for operand in operands)
        return ScalarCode(f"({left} {_COMPARISONS[op]} {right})")
    if op in (ScalarOp.AND, ScalarOp.OR, ScalarOp.XOR):
        left, right = operands
        return ScalarCode(f"({left} {_INFIX[op]} {right})")
    return None


def _infix(sign: str, operands: Sequence[str]) -> ScalarCode:
    left, right = operands
    return ScalarCode(f"({left} {sign} {right})")


def _of_reals(op: ScalarOp, operands: Sequence[str], dtype: DType) -> ScalarCode | None:
    if op in COMPARISONS:
        return _infix(_COMPARISONS[op], operands)
    if op in (ScalarOp.ADD, ScalarOp.SUB, ScalarOp.MUL):
        return _infix(_INFIX[op], operands)
    if op in LIBRARY:
        return ScalarCode(f"libdevice.{LIBRARY[op]}({', '.join(operands)})")
    rule = _REALS.get(op)
    return None if rule is None else rule(list(operands), dtype)


def _divide(operands: list[str], dtype: DType) -> ScalarCode:
    if dtype is DType.F32:
        return ScalarCode(f"tl.div_rn({operands[0]}, {operands[1]})")
    return _infix("/", operands)


def _quotient(operands: list[str], dtype: DType) -> ScalarCode:
    return ScalarCode(f"libdevice.trunc({_divide(operands, dtype).text})")


def _root(operands: list[str], dtype: DType) -> ScalarCode:
    name = "sqrt_rn" if dtype is DType.F32 else "sqrt"
    return ScalarCode(f"tl.{name}({operands[0]})")


def _real_sign(operands: list[str], dtype: DType) -> ScalarCode:
    value = operands[0]
    text = f"tl.where({value} > 0, 1.0, tl.where({value} < 0, -1.0, 0.0))"
    return ScalarCode(f"{text}.to({TYPES[dtype]})")


def _sign_bit(operands: list[str], dtype: DType) -> ScalarCode:
    return ScalarCode(f"({operands[0]}.to({TYPES[BITS[dtype]]}, bitcast=True) < 0)")


def _called(name: str) -> Callable[[list[str], DType], ScalarCode]:
    return lambda operands, _: ScalarCode(f"{name}({', '.join(operands)})", (name,))


def _of_one(pattern: str) -> Callable[[list[str], DType], ScalarCode]:
    return lambda operands, _: ScalarCode(pattern.format(*operands))


_REALS: Mapping[ScalarOp, Callable[[list[str], DType], ScalarCode]] = {
    ScalarOp.NEG: _of_one("({0} * -1.0)"),
    ScalarOp.ABS: _of_one("tl.abs({0})"),
    ScalarOp.SIGN: _real_sign,
    ScalarOp.DIV: _divide,
    ScalarOp.TRUNCDIV: _quotient,
    ScalarOp.FLOORDIV: _called("real_floor_quotient"),
    ScalarOp.REMAINDER: _called("real_remainder"),
    ScalarOp.MINIMUM: _called("minimum"),
    ScalarOp.MAXIMUM: _called("maximum"),
    ScalarOp.FMIN: _of_one("tl.where(({0} <= {1}) | ({1} != {1}), {0}, {1})"),
    ScalarOp.FMAX: _of_one("tl.where(({0} >= {1}) | ({1} != {1}), {0}, {1})"),
    ScalarOp.ISNAN: _of_one("({0} != {0})"),
    ScalarOp.ISINF: _of_one('(tl.abs({0}) == float("inf"))'),
    ScalarOp.SIGNBIT: _sign_bit,
    ScalarOp.SQRT: _root,
}


def _of_whole_numbers(
    op: ScalarOp, operands: Sequence[str], dtype: DType
) -> ScalarCode | None:
    if op in _COMPARISONS:
        return _infix(_COMPARISONS[op], operands)
    if op in _INFIX:
        return _infix(_INFIX[op], operands)
    rule = _WHOLE.get(op)
    return None if rule is None else rule(list(operands), dtype)


def _magnitude(operands: list[str], dtype: DType) -> ScalarCode:
    return ScalarCode(f"tl.abs({operands[0]})" if dtype in SIGNED else operands[0])


def _sign(operands: list[str], dtype: DType) -> ScalarCode:
    value, kind = operands[0], TYPES[dtype]
    if dtype not in SIGNED:
        return ScalarCode(f"({value} != 0).to({kind})")
    return ScalarCode(f"(({value} > 0).to({kind}) - ({value} < 0).to({kind}))")


def _floored(signed: str, unsigned: str) -> Callable[[list[str], DType], ScalarCode]:
    def rule(operands: list[str], dtype: DType) -> ScalarCode:
        if dtype in SIGNED:
            return ScalarCode(f"{signed}({', '.join(operands)})", (signed,))
        return _infix(unsigned, operands)

    return rule


def _inverted(operands: list[str], dtype: DType) -> ScalarCode:
    ones = -1 if dtype in SIGNED else (1 << 8 * dtype.itemsize) - 1
    return ScalarCode(f"({operands[0]} ^ {ones})")


def _power(operands: list[str], dtype: DType) -> ScalarCode:
    name = "signed_power" if dtype in SIGNED else "whole_power"
    return ScalarCode(f"{name}({', '.join(operands)})", (name,))


def _is_negative(operands: list[str], dtype: DType) -> ScalarCode:
    zero = "0" if dtype in SIGNED else operands[0]  # none is below itself
    return ScalarCode(f"({operands[0]} < {zero})")


def _in_range(count: str, dtype: DType) -> str:
    bits = 8 * dtype.itemsize
    upper = f"({count} < {bits})"
    return f"(({count} >= 0) & {upper})" if dtype in SIGNED else upper


def _shift_left(operands: list[str], dtype: DType) -> ScalarCode:
    value, count = operands
    inside, kind = _in_range(count, dtype), TYPES[dtype]
    shifted = f"({value} << tl.where({inside}, {count}, 0).to({kind}))"
    return ScalarCode(f"tl.where({inside}, {shifted}, 0).to({kind})")


def _shift_right(operands: list[str], dtype: DType) -> ScalarCode:
    value, count = operands
    inside, kind, last = _in_range(count, dtype), TYPES[dtype], 8 * dtype.itemsize - 1
    shifted = f"({value} >> tl.where({inside}, {count}, {last}).to({kind}))"
    if dtype in SIGNED:
        return ScalarCode(shifted)
    return ScalarCode(f"tl.where({inside}, {shifted}, 0).to({kind})")


_WHOLE: Mapping[ScalarOp, Callable[[list[str], DType], ScalarCode]] = {
    ScalarOp.NEG: _of_one("(0 - {0})"),
    ScalarOp.ABS: _magnitude,
    ScalarOp.SIGN: _sign,
    ScalarOp.FLOORDIV: _floored("floor_quotient", "//"),
    ScalarOp.REMAINDER: _floored("floor_remainder", "%"),
    ScalarOp.TRUNCDIV: _of_one("({0} // {1})"),
    ScalarOp.FMOD: _of_one("({0} % {1})"),
    ScalarOp.POW: _power,
    ScalarOp.MINIMUM: _of_one("tl.minimum({0}, {1})"),
    ScalarOp.FMIN: _of_one("tl.minimum({0}, {1})"),
    ScalarOp.MAXIMUM: _of_one("tl.maximum({0}, {1})"),
    ScalarOp.FMAX: _of_one("tl.maximum({0}, {1})"),
    ScalarOp.BITNOT: _inverted,
    ScalarOp.SHL: _shift_left,
    ScalarOp.SHR: _shift_right,
    ScalarOp.ISNAN: _of_one("({0} != {0})"),
    ScalarOp.ISINF: _of_one("({0} != {0})"),
    ScalarOp.SIGNBIT: _is_negative,
    ScalarOp.FLOOR: _of_one("{0}"),
    ScalarOp.CEIL: _of_one("{0}"),
    ScalarOp.TRUNC: _of_one("{0}"),
    ScalarOp.ROUND: _of_one("{0}"),
}
