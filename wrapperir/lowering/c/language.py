"""How a language like C spells types, literals, operators and functions."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from wrapperir.ir import DType
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
"""Functions by operator, where the name is not the operator's own."""
_ROUNDING = frozenset({ScalarOp.FLOOR, ScalarOp.CEIL, ScalarOp.TRUNC, ScalarOp.ROUND})
_POWERS: Mapping[float, str] = {
    **{2: "{0} * {0}", 3: "{0} * {0} * {0}", 1: "{0}"},
    **{-1: "1 / {0}", -2: "1 / ({0} * {0})"},
}
"""Powers to known exponents, as eager computes them."""


class CLanguage(ABC):
    """A language like C, for one value of each dtype.

    A subclass names its types and functions.  Half-precision elements are held as their
    bits, in the type of ``u16``.
    """

    stored: ClassVar[Mapping[DType, str]]
    """The type of an element in memory; kernels have no other dtypes."""

    def scalar(self, dtype: DType) -> str:
        """Return the type of one value."""
        return "bool" if dtype is DType.BOOL else self.stored[dtype]

    @abstractmethod
    def function(self, name: str, dtype: DType) -> str:
        """Return the name of a function of values of a dtype.

        ``name`` is that of an operator, such as ``exp``, or of a part of
        :mod:`~wrapperir.lowering.c.functions`.
        """

    @abstractmethod
    def literal(self, value: int | float | bool, dtype: DType) -> str:
        """Return a constant of :meth:`scalar`, converted as ``Tensor.fill_`` does."""

    @abstractmethod
    def bitcast(self, operand: str, source: DType, target: DType) -> str:
        """Return a value of the same bits."""

    @abstractmethod
    def whole_of(self, operand: str, source: DType, target: DType) -> str:
        """Return a real number as a whole one; what is out of range wraps as in eager."""

    def builtin(self, name: str) -> str:
        """Return a function of the language on ``f64``, such as ``floor`` or ``pow``."""
        return name

    def convert(self, dtype: DType, text: str) -> str:
        """Return an expression of another arithmetic dtype as one of :meth:`scalar`."""
        return f"({self.scalar(dtype)})({text})"

    def reference(self, variable: str) -> str:
        """Return a variable as an argument that a function changes."""
        return f"&{variable}"

    def infix(self, op: ScalarOp, dtype: DType, left: str, right: str) -> str:
        """Return arithmetic or a comparison of two values of a dtype."""
        return f"{left} {INFIX[op]} {right}"

    def negative(self, dtype: DType, operand: str) -> str:
        """Return a number with the other sign; whole numbers wrap."""
        return f"-{operand}"

    def choice(self, test: str, dtype: DType, chosen: str, other: str) -> str:
        """Return one of two values."""
        return f"{test} ? {chosen} : {other}"

    def apply(
        self, op: ScalarOp, result: DType, dtypes: Sequence[DType], operands: Sequence[str]
    ) -> str:
        """Return the result of an operator.

        ``dtypes`` are those of ``operands``; the expression converts to the type of
        ``result`` where it is assigned.
        """
        first = dtypes[0]
        match op:
            case ScalarOp.CAST:
                return self.cast(operands[0], first, result)
            case ScalarOp.BITCAST:
                return self.bitcast(operands[0], first, result)
            case ScalarOp.WHERE:
                return self.choice(operands[0], result, operands[1], operands[2])
            case _ if first in HALVES:
                return format_in_f32(op, result, dtypes, operands, self.apply, self.cast)
            case _:
                pass
        if first is DType.BOOL:
            op = ON_BOOLS.get(op, op)
        if op in INFIX:
            return self.infix(op, first, operands[0], operands[1])
        return self._format_function(op, first, operands)

    def _format_function(self, op: ScalarOp, dtype: DType, operands: Sequence[str]) -> str:
        match op:
            case ScalarOp.NEG:
                return self.negative(dtype, operands[0])
            case ScalarOp.NOT:
                return f"!{operands[0]}"
            case ScalarOp.BITNOT:
                return f"~{operands[0]}"
            case ScalarOp.DIV if dtype.is_float:
                return f"{operands[0]} / {operands[1]}"
            case ScalarOp.DIV:
                op = ScalarOp.TRUNCDIV
            case ScalarOp.ISNAN:
                return self.infix(ScalarOp.NE, dtype, operands[0], operands[0])
            case _:
                pass
        is_never = op is ScalarOp.ISINF and not dtype.is_float
        if is_never or (op is ScalarOp.SIGNBIT and dtype is DType.BOOL):
            return "false"
        if not dtype.is_float and (op in _ROUNDING or dtype is DType.BOOL):
            return operands[0]
        name = self.function(_FUNCTIONS.get(op, op.value), dtype)
        return f"{name}({', '.join(operands)})"

    def power(self, base: str, exponent: int | float | bool | None) -> str | None:
        """Return a power to a known exponent; ``None`` if it needs a function."""
        found = _POWERS.get(math.nan if exponent is None else exponent)
        return None if found is None else found.format(base)

    def cast(self, operand: str, source: DType, target: DType) -> str:
        """Return a value converted as ``Tensor.to`` does."""
        if source is target:
            return operand
        if source in HALVES:
            wide = f"{self.function(f'f32_of_{source.value}', DType.F32)}({operand})"
            return self.cast(wide, DType.F32, target)
        if target in HALVES:
            wide = self.cast(operand, source, DType.F32)
            return f"{self.function(f'{target.value}_of_f32', DType.F32)}({wide})"
        if target is DType.BOOL:
            return f"({operand} != 0)"
        if source.is_float and target.is_integer:
            return self.whole_of(operand, source, target)
        return self.convert(target, operand)
