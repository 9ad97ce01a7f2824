"""Triton's names of element types, and constants of exactly one type."""

import math
import struct
from collections.abc import Mapping

from wrapperir.ir import DType
from wrapperir.lowering.dtypes import accumulated

TYPES: Mapping[DType, str] = {
    DType.F64: "tl.float64",
    DType.F32: "tl.float32",
    DType.F16: "tl.float16",
    DType.BF16: "tl.bfloat16",
    DType.I64: "tl.int64",
    DType.I32: "tl.int32",
    DType.I16: "tl.int16",
    DType.I8: "tl.int8",
    DType.U64: "tl.uint64",
    DType.U32: "tl.uint32",
    DType.U16: "tl.uint16",
    DType.U8: "tl.uint8",
    DType.BOOL: "tl.int1",
}
"""The element types of values; there is no arithmetic on others."""

SIGNED = frozenset({DType.I64, DType.I32, DType.I16, DType.I8})
"""Whole numbers with a sign."""

BITS: Mapping[DType, DType] = {
    DType.F64: DType.I64,
    DType.F32: DType.I32,
    DType.F16: DType.I16,
    DType.BF16: DType.I16,
}
"""The whole numbers that have the bits of a floating-point type."""


def number_text(value: float, dtype: DType) -> str:
    """Return a number as Python's text of a value of ``dtype``; whole numbers wrap."""
    if dtype is DType.BOOL:
        return str(bool(value))
    if not dtype.is_float:
        bits = 8 * dtype.itemsize
        wrapped = int(value) & ((1 << bits) - 1)
        is_negative = dtype in SIGNED and wrapped >> bits - 1
        return str(wrapped - (1 << bits) if is_negative else wrapped)
    value = float(value)
    if math.isnan(value):
        return 'float("nan")'
    if math.isinf(value):
        return 'float("inf")' if value > 0 else 'float("-inf")'
    if dtype is DType.F32:
        value = _rounded(value)
    return repr(value)


def constant_text(value: float, dtype: DType) -> str:
    """Return the text of a scalar of exactly ``dtype``.

    A number in the source would take its type from the other operand, and numbers alone
    would be computed in Python's ``float``.
    """
    kind = TYPES[dtype]
    if dtype.is_float and value == 0 and math.copysign(1, value) < 0:
        # Triton makes any zero the positive one.
        bits = 8 * dtype.itemsize
        unsigned = f"tl.full([], {1 << bits - 1}, tl.uint{bits})"
        return f"{unsigned}.to({kind}, bitcast=True)"
    return f"tl.full([], {number_text(value, dtype)}, {kind})"


def widened(dtype: DType) -> DType:
    """Return the dtype that values of a dtype are compared and scanned in."""
    return DType.I32 if dtype is DType.BOOL else accumulated(dtype)


def _rounded(value: float) -> float:
    """Return a number rounded to ``f32``."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)
