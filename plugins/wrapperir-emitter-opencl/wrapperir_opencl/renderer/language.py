"""OpenCL C as a language of kernels, for single values and for vectors."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from wrapperir.ir import DType
from wrapperir.lowering.c.plain import PlainLanguage
from wrapperir.lowering.c.vector_language import VectorLanguage
from wrapperir.lowering.dtypes import HALVES
from wrapperir.lowering.scalar_op import COMPARISONS, INFIX, ScalarOp
from wrapperir_opencl.renderer.parts import PARTS

_OF_WHOLE = frozenset(
    {
        *(ScalarOp.ADD, ScalarOp.SUB, ScalarOp.MUL, ScalarOp.NEG, ScalarOp.SIGN),
        *(ScalarOp.MINIMUM, ScalarOp.MAXIMUM, ScalarOp.AND, ScalarOp.OR, ScalarOp.XOR),
        *(ScalarOp.BITNOT, ScalarOp.CAST, ScalarOp.WHERE, *COMPARISONS),
    }
)
"""Operators of vectors of whole numbers."""
_OF_BOOLS = frozenset(
    {ScalarOp.NOT, ScalarOp.AND, ScalarOp.OR, ScalarOp.XOR, ScalarOp.CAST, ScalarOp.WHERE}
)
_MASKS = {8: DType.I64, 4: DType.I32, 2: DType.I16, 1: DType.I8}


class OpenclLanguage(PlainLanguage):
    """OpenCL C 1.2, for single values."""

    parts: ClassVar[Mapping[str, str]] = PARTS
    stored: ClassVar[Mapping[DType, str]] = {
        **{DType.F64: "double", DType.F32: "float", DType.F16: "ushort"},
        **{DType.BF16: "ushort", DType.I64: "long", DType.I32: "int", DType.I16: "short"},
        **{DType.I8: "char", DType.U64: "ulong", DType.U32: "uint", DType.U16: "ushort"},
        **{DType.U8: "uchar", DType.BOOL: "uchar"},
    }

    def bitcast(self, operand: str, source: DType, target: DType) -> str:
        """Return a value of the same bits."""
        return f"as_{self.stored[target]}(({self.stored[source]}){operand})"


class OpenclVectors(OpenclLanguage, VectorLanguage):
    """OpenCL C, for vectors; a bool is a ``char`` whose bits are all the same."""

    def __init__(self, width: int = 8) -> None:
        """Write vectors of 2, 4 or 8 elements."""
        self.width = width

    def has(self, op: ScalarOp, source: DType, target: DType) -> bool:
        """Say whether an operator is one of vectors; ``source`` is its last operand's."""
        if target is DType.U64 or op is ScalarOp.BITCAST:
            return False
        if source is DType.BOOL:
            return op in _OF_BOOLS
        if source.is_float:
            return op not in (ScalarOp.ISINF, ScalarOp.SIGNBIT)
        return op in _OF_WHOLE

    def scalar(self, dtype: DType) -> str:
        """Return the type of a vector."""
        return f"{'char' if dtype is DType.BOOL else self.stored[dtype]}{self.width}"

    def splat(self, text: str, dtype: DType) -> str:
        """Return a vector of one value."""
        return self.pack(dtype, [text])

    def pack(self, dtype: DType, values: Sequence[str]) -> str:
        """Return a vector of single values, or of one."""
        if dtype is DType.BOOL:
            values = [f"({value}) ? -1 : 0" for value in values]
        return f"({self.scalar(dtype)})({', '.join(values)})"

    def element(self, vector: str, dtype: DType, lane: int) -> str:
        """Return a single value of a vector."""
        text = f"{vector}.s{lane}"
        return f"({text} != 0)" if dtype is DType.BOOL else text

    def load(self, element: str, dtype: DType) -> str:
        """Return the vector in memory that begins with an element."""
        text = f"vload{self.width}(0, &{element})"
        return self.cast(text, DType.U8, dtype) if dtype is DType.BOOL else text

    def store(self, element: str, dtype: DType, value: str) -> str:
        """Return the statement that stores a vector."""
        text = self.cast(value, dtype, DType.U8) if dtype is DType.BOOL else value
        return f"vstore{self.width}({text}, 0, &{element});"

    def literal(self, value: int | float | bool, dtype: DType) -> str:
        """Return a vector of a constant."""
        return self.splat(super().literal(value, dtype), dtype)

    def convert(self, dtype: DType, text: str) -> str:
        """Return the numbers of a vector as those of another type."""
        return f"convert_{self.scalar(dtype)}({text})"

    def cast(self, operand: str, source: DType, target: DType) -> str:
        """Return a vector converted as ``Tensor.to`` does."""
        if source is target or source in HALVES or target in HALVES:
            return super().cast(operand, source, target)
        if target is DType.BOOL:
            return self.convert(target, f"{operand} != {self.literal(0, source)}")
        operand = f"-{operand}" if source is DType.BOOL else operand
        return super().cast(operand, source, target)

    def infix(self, op: ScalarOp, dtype: DType, left: str, right: str) -> str:
        """Return arithmetic, which wraps for whole numbers, or a comparison."""
        text = f"({left} {INFIX[op]} {right})"
        if op in COMPARISONS:
            return self.convert(DType.BOOL, text)
        if op in (ScalarOp.ADD, ScalarOp.SUB, ScalarOp.MUL) and dtype.value[0] == "i":
            own, other = self.scalar(dtype), f"u{self.scalar(dtype)}"
            return f"as_{own}(as_{other}({left}) {INFIX[op]} as_{other}({right}))"
        return text

    def choice(self, test: str, dtype: DType, chosen: str, other: str) -> str:
        """Return the elements of one of two vectors."""
        mask = self.convert(_MASKS[dtype.itemsize], test)
        return f"{mask} ? {chosen} : {other}"
