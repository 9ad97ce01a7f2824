"""Which kind of number a target language computes with for each element type."""

from wrapperir.ir.line import SymbolKind
from wrapperir.ir.types import DType


def kind_of(dtype: DType | None) -> SymbolKind:
    """Return what numbers of a dtype are: floats, bools or ints; without one, ints."""
    if dtype is DType.BOOL:
        return SymbolKind.BOOL
    is_float = dtype is not None and dtype.is_float
    return SymbolKind.FLOAT if is_float else SymbolKind.INT
