"""C++ types and literals of elements.

The names are those of :data:`~wrapperir.lowering.cpp.snippets.SNIPPETS`, which define them
without a header.  Half-precision elements are held as their bits.
"""

import math
from collections.abc import Mapping

from wrapperir.ir import DType
from wrapperir.lowering.dtypes import HALVES

STORED: Mapping[DType, str] = {
    DType.F64: "f64",
    DType.F32: "f32",
    DType.F16: "u16",
    DType.BF16: "u16",
    DType.I64: "i64",
    DType.I32: "i32",
    DType.I16: "i16",
    DType.I8: "i8",
    DType.U64: "u64",
    DType.U32: "u32",
    DType.U16: "u16",
    DType.U8: "u8",
    DType.BOOL: "u8",
}
"""The type of an element in memory; other dtypes have no C++ kernels."""


def scalar_type(dtype: DType) -> str:
    """Return the type of one value."""
    return "bool" if dtype is DType.BOOL else STORED[dtype]


def format_literal(value: int | float | bool, dtype: DType) -> str:
    """Return a constant of :func:`scalar_type`, converted as ``Tensor.fill_`` does."""
    if dtype is DType.BOOL:
        return "true" if value else "false"
    if dtype.is_float:
        if dtype in HALVES:
            return f"{dtype.value}_of_f32({format_literal(value, DType.F32)})"
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


def _format_double(value: float) -> str:
    if math.isnan(value):
        return '__builtin_nan("")'
    if math.isinf(value):
        return "__builtin_inf()" if value > 0 else "-__builtin_inf()"
    return repr(value)
