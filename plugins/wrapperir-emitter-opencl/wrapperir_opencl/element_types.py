"""Elements that the host reads as numbers, and conversions of these."""

from collections.abc import Mapping
from typing import LiteralString

from wrapperir.emit import Fragment, fragment
from wrapperir.ir import DType, SymbolKind

EXPONENTS: Mapping[DType, int] = {
    DType.F64: 0x7FF0000000000000,
    DType.F32: 0x7F800000,
    DType.F16: 0x7C00,
    DType.BF16: 0x7F80,
}
"""The bits that are all ones in infinities and NaN, and only there."""

_ITEMS: Mapping[DType, LiteralString] = {
    DType.F64: "cl_double",
    DType.F32: "cl_float",
    DType.I64: "cl_long",
    DType.I32: "cl_int",
    DType.I16: "cl_short",
    DType.I8: "cl_char",
    DType.U32: "cl_uint",
    DType.U16: "cl_ushort",
    DType.U8: "cl_uchar",
    DType.BOOL: "cl_uchar",
}


def item_type(dtype: DType) -> Fragment | None:
    """Return the C type of an element that the host can read as a number."""
    spelled = _ITEMS.get(dtype)
    return None if spelled is None else fragment(spelled)


def converted(value: Fragment, dtype: DType, kind: SymbolKind) -> Fragment:
    """Return an element or a scalar of ``dtype`` as a number of a kind."""
    if kind is SymbolKind.BOOL:
        return fragment("({} != 0)", value)
    if kind is SymbolKind.INT and dtype.is_float:
        return fragment("wir_whole({}, r)", value)
    return value
