"""Numbers of a declared type: they become it where they enter a program or a block."""

from wrapperir.ir.expr import Number
from wrapperir.ir.types import DType


def number_as(dtype: DType, value: Number) -> Number | None:
    """Return a number as a float, bool or int, as ``dtype`` is.

    ``None`` where it would be an int and is not whole.
    """
    if dtype.is_float:
        return float(value)
    if dtype is DType.BOOL:
        return bool(value)
    return int(value) if isinstance(value, int) or value.is_integer() else None
