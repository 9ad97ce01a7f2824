"""C++ as a language of kernels.

The names are those of :data:`~wrapperir.lowering.cpp.snippets.SNIPPETS`, which define them
without a header.
"""

import math
from collections.abc import Mapping
from typing import ClassVar

from wrapperir.ir import DType
from wrapperir.lowering.c.language import CLanguage
from wrapperir.lowering.dtypes import HALVES

_ONE_NAME = {"welford_value": "welford", "online_softmax_value": "online_softmax"}
"""Overloads of one name."""


class CppLanguage(CLanguage):
    """C++, whose functions have one name for all dtypes."""

    stored: ClassVar[Mapping[DType, str]] = {
        **{DType(name): name for name in ("f64", "f32", "i64", "i32", "i16", "i8")},
        **{DType(name): name for name in ("u64", "u32", "u16", "u8")},
        **{DType.F16: "u16", DType.BF16: "u16", DType.BOOL: "u8"},
    }

    def function(self, name: str, dtype: DType) -> str:
        """Return the name, which is overloaded."""
        return _ONE_NAME.get(name, name)

    def builtin(self, name: str) -> str:
        """Return a function of the compiler's."""
        return f"__builtin_{name}"

    def convert(self, dtype: DType, text: str) -> str:
        """Return ``i64(text)``."""
        return f"{self.scalar(dtype)}({text})"

    def cast(self, operand: str, source: DType, target: DType) -> str:
        """Return a value converted as ``Tensor.to`` does.

        GCC has no vector instructions for a conversion of bools to real numbers.
        """
        if source is DType.BOOL and target.is_float and target not in HALVES:
            one, zero = self.literal(1, target), self.literal(0, target)
            return f"({self.choice(operand, target, one, zero)})"
        return super().cast(operand, source, target)

    def choice(self, test: str, dtype: DType, chosen: str, other: str) -> str:
        """Return one of two values; of bools with operators that GCC has for vectors."""
        if dtype is DType.BOOL:
            return f"({test} & {chosen}) | (!{test} & {other})"
        return super().choice(test, dtype, chosen, other)

    def reference(self, variable: str) -> str:
        """Return the variable: functions take references."""
        return variable

    def bitcast(self, operand: str, source: DType, target: DType) -> str:
        """Return a value of the same bits."""
        return f"__builtin_bit_cast({self.scalar(target)}, {operand})"

    def whole_of(self, operand: str, source: DType, target: DType) -> str:
        """Return a real number as a whole one."""
        return f"whole_of<{self.scalar(target)}>({operand})"

    def literal(self, value: int | float | bool, dtype: DType) -> str:
        """Return a constant, converted as ``Tensor.fill_`` does."""
        if dtype is DType.BOOL:
            return "true" if value else "false"
        if dtype.is_float:
            if dtype in HALVES:
                return f"{dtype.value}_of_f32({self.literal(value, DType.F32)})"
            return f"{dtype.value}({_format_double(float(value))})"
        number = int(value)
        bits = 8 * dtype.itemsize
        number &= (1 << bits) - 1
        if dtype.value.startswith("i") and number >> (bits - 1):
            number -= 1 << bits
            if number == -(1 << 63):
                return "i64(-9223372036854775807 - 1)"
        suffix = "u" if dtype is DType.U64 else ""
        return f"{dtype.value}({number}{suffix})"


CPP = CppLanguage()


def _format_double(value: float) -> str:
    if math.isnan(value):
        return '__builtin_nan("")'
    if math.isinf(value):
        return "__builtin_inf()" if value > 0 else "-__builtin_inf()"
    return repr(value)
