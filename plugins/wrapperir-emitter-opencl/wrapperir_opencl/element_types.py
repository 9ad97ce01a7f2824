"""Elements that the host reads as numbers, and conversions of these."""

from collections.abc import Mapping

from wrapperir.emit import Fragment, fragment
from wrapperir.emit.c.expressions import element_type
from wrapperir.ir import DType, SymbolKind

EXPONENTS: Mapping[DType, int] = {
    DType.F64: 0x7FF0000000000000,
    DType.F32: 0x7F800000,
    DType.F16: 0x7C00,
    DType.BF16: 0x7F80,
}
"""The bits that are all ones in infinities and NaN, and only there."""


def number_type(dtype: DType) -> Fragment | None:
    """Return the C type of a number that kernels take, a byte for a bool."""
    return element_type(DType.U8 if dtype is DType.BOOL else dtype)


def item_type(dtype: DType) -> Fragment | None:
    """Return the C type of an element that the host can read as a number."""
    return None if dtype is DType.U64 else number_type(dtype)


def converted(value: Fragment, dtype: DType, kind: SymbolKind) -> Fragment:
    """Return an element or a scalar of ``dtype`` as a number of a kind."""
    if kind is SymbolKind.BOOL:
        return fragment("({} != 0)", value)
    if kind is SymbolKind.INT and dtype.is_float:
        return fragment("wir_whole({}, r)", value)
    return value
