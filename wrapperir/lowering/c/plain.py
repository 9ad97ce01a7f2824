"""C as a language of kernels; others that are much like it change what differs."""

import math
import struct
from collections.abc import Mapping
from typing import ClassVar

from wrapperir.ir import DType
from wrapperir.lowering.c.language import CLanguage
from wrapperir.lowering.dtypes import HALVES
from wrapperir.lowering.scalar_op import INFIX, ScalarOp

_WRAPPING = (ScalarOp.ADD, ScalarOp.SUB, ScalarOp.MUL)


class PlainLanguage(CLanguage):
    """C, with functions whose names end in a type where ``parts`` has them.

    Whole numbers wrap, so that their arithmetic is unsigned.
    """

    parts: ClassVar[Mapping[str, str]]
    """Source by name, as of :func:`~wrapperir.lowering.c.functions.functions_of`."""
    builtins: ClassVar[Mapping[str, str]] = {
        **{"absolute": "fabs", "round": "rint", "power": "pow"},
        **{"is_inf": "isinf", "sign_bit": "signbit"},
    }
    """Functions that the language has for all types of real numbers, by another name."""

    def function(self, name: str, dtype: DType) -> str:
        """Return the name of a part, or of a function of the language."""
        own = f"{name}_{self.scalar(dtype)}"
        return own if own in self.parts else self.builtins.get(name, name)

    def literal(self, value: int | float | bool, dtype: DType) -> str:
        """Return a constant, converted as ``Tensor.fill_`` does."""
        if dtype is DType.BOOL:
            return "true" if value else "false"
        if dtype in HALVES:
            function = self.function(f"{dtype.value}_of_f32", DType.F32)
            return f"{function}({self.literal(value, DType.F32)})"
        if dtype.is_float:
            return self._format_real(float(value), dtype)
        bits = 8 * dtype.itemsize
        number = int(value) & ((1 << bits) - 1)
        if dtype.value.startswith("i") and number >> (bits - 1):
            number -= 1 << bits
        if number == -(1 << 63):
            return "(-9223372036854775807L - 1)"
        return f"(({self.stored[dtype]}){number}{'UL' if dtype is DType.U64 else 'L'})"

    def _format_real(self, value: float, dtype: DType) -> str:
        kind, suffix = self.stored[dtype], ""
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

    def whole_of(self, operand: str, source: DType, target: DType) -> str:
        """Return a real number as a whole one, by the function ``u64_of_real`` for ``u64``.

        Small ones are made of wider ones, so that they wrap.
        """
        if target is DType.U64:
            return f"u64_of_real({operand})"
        if target.itemsize < 8:
            through = DType.I64 if target is DType.U32 else DType.I32
            operand = self.convert(through, operand)
        return self.convert(target, operand)

    def infix(self, op: ScalarOp, dtype: DType, left: str, right: str) -> str:
        """Return arithmetic or a comparison."""
        if op not in _WRAPPING or not dtype.is_integer:
            return f"({left} {INFIX[op]} {right})"
        wide = self.stored[DType.U64 if dtype.itemsize == 8 else DType.U32]
        return f"({self.scalar(dtype)})(({wide}){left} {INFIX[op]} ({wide}){right})"

    def negative(self, dtype: DType, operand: str) -> str:
        """Return a number with the other sign."""
        return (
            f"-{operand}"
            if dtype.is_float
            else self.infix(ScalarOp.SUB, dtype, self.literal(0, dtype), operand)
        )
