"""Literals in C++, and conversions of numbers to their declared kind."""

import math
from collections.abc import Mapping
from typing import LiteralString

from wrapperir.emit import Fragment, fragment
from wrapperir.emit.number_kinds import Conversion, conversion
from wrapperir.ir import DType, SymbolKind

C_TYPES: Mapping[SymbolKind | None, LiteralString] = {
    SymbolKind.INT: "int64_t",
    SymbolKind.FLOAT: "double",
    SymbolKind.BOOL: "bool",
    None: "num::Number",
}
"""The C++ type of each kind of number; ``None``: only the run decides the kind."""
_LEAST = -(2**63)
_PRINTABLE = frozenset(map(chr, range(0x20, 0x7F))) - frozenset('"\\?')


def format_int(value: int) -> Fragment:
    """Return an ``int64_t`` literal; ``True`` is ``1``.

    Raises:
        ValueError: it does not fit 64 bits.
    """
    value = int(value)
    if not _LEAST <= value < 2**63:
        raise ValueError(f"{value} does not fit 64 bits")
    if value == _LEAST:
        return fragment("INT64_MIN")
    return Fragment(repr(value) if abs(value) < 2**31 else f"{value}LL")


def format_float(value: float) -> Fragment:
    """Return a ``double`` literal of exactly this value, infinities and NaN included."""
    value = float(value)
    if math.isfinite(value):
        return Fragment(value.hex())
    if math.isnan(value):
        return fragment('__builtin_nan("")')
    return fragment("__builtin_inf()") if value > 0 else fragment("-__builtin_inf()")


def format_string(text: str) -> Fragment:
    """Return a one-line literal of any text, in UTF-8.

    Octal escapes have at most three digits, so what follows is never part of one.
    """
    encoded = text.encode("utf-8", "surrogatepass")
    parts = [chr(byte) if chr(byte) in _PRINTABLE else f"\\{byte:03o}" for byte in encoded]
    return Fragment('"' + "".join(parts) + '"')


def format_bool(value: bool) -> Fragment:
    """Return ``true`` or ``false``."""
    return fragment("true") if value else fragment("false")


def format_dtype(dtype: DType) -> Fragment:
    """Return the enumerator of an element type."""
    name = "boolean" if dtype is DType.BOOL else dtype.value
    return fragment("DType::{}", Fragment(name))


_CONVERSIONS: Mapping[Conversion, LiteralString] = {
    Conversion.NONE: "{}",
    Conversion.TO_FLOAT: "double({})",
    Conversion.TO_BOOL: "bool({})",
    Conversion.BOOL_TO_INT: "int64_t({})",
    Conversion.TO_WHOLE: "num::whole({})",
}


def format_converted(value: Fragment, old: SymbolKind | None, new: SymbolKind) -> Fragment:
    """Return a number of kind ``old``, ``None`` for a ``num::Number``, as one of ``new``.

    The C++ throws if an int is needed and the number is not whole.
    """
    return fragment(_CONVERSIONS[conversion(old, new)], value)
