"""Element types of whole numbers."""

from wrapperir.ir.types import DType

INTEGERS = frozenset(
    {
        DType.I64,
        DType.I32,
        DType.I16,
        DType.I8,
        DType.U64,
        DType.U32,
        DType.U16,
        DType.U8,
        DType.BOOL,
    }
)
