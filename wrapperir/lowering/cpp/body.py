"""Instructions of a nest as C++ statements, of one point."""

import math
from collections.abc import Mapping

from wrapperir.ir import DType, TensorType
from wrapperir.lowering.c.instructions import COMBINING, InstructionWriter
from wrapperir.lowering.c.lanes import LaneAnalysis
from wrapperir.lowering.cpp.language import CPP
from wrapperir.lowering.cpp.rows import KeptRows
from wrapperir.lowering.loops import (
    Apply,
    IndexValue,
    Literal,
    Load,
    Store,
    StoreMode,
)

_I32 = (-(1 << 31), (1 << 31) - 1)


class CppWriter(InstructionWriter):
    """Writes C++.

    ``parameters`` are the names of the kernel's parameters.  A check that fails goes to the
    label ``next``, which :attr:`has_jumps` says is needed; without a fault buffer it throws
    its number.  ``elements`` has the elements that some loads read, by their results, where
    they are not in the buffer but were read before.  ``rows`` are arrays of values, and
    ``row_position`` is the C++ of the current point's position.  ``lanes`` knows the
    strides of accesses.
    """

    def __init__(
        self,
        pointers: Mapping[str, str],
        types: Mapping[str, TensorType],
        parameters: str,
        lanes: LaneAnalysis,
        *,
        has_fault: bool,
    ) -> None:
        """Begin with nothing written; the caller adds sizes to ``indices``."""
        super().__init__(CPP, pointers, types)
        self.parameters = parameters
        self.lanes = lanes
        self.has_jumps = False
        self.elements: dict[str, str] = {}
        self.rows = KeptRows()
        self.row_position = "0"
        self._reciprocals: dict[str, str] = {}
        self._arrays = 0
        self._has_fault = has_fault

    def define(self, name: str, dtype: DType, text: str) -> None:
        """Write the definition of a value, which may be in a row."""
        if name in self.rows.read:
            text = f"{self.rows.read[name]}[{self.row_position}]"
        super().define(name, dtype, text)
        if name in self.rows.stored:
            row = self.rows.stored[name]
            self.source.write(f"{row}[{self.row_position}] = {self.names[name]};")

    def prepare_division(self, step: Apply) -> None:
        """Write the reciprocal of a known divisor before a loop that divides by it.

        A quotient of ``f32`` from the product in ``f64`` is correctly rounded, as two
        numbers of 24 bits have none so near to the middle of two others.
        """
        divisor = self.names.get(step.operands[1])
        if (
            step.dtype is not DType.F32
            or divisor is None
            or step.result in self._reciprocals
        ):
            return
        literal = self.literals.get(step.operands[1], 3)
        if abs(math.frexp(literal)[0]) == 0.5 or not divisor.isidentifier():
            return  # the compiler multiplies by the reciprocal
        name = f"r{len(self._reciprocals)}"
        self._reciprocals[step.result] = name
        self.source.write(f"const f64 {name} = 1.0 / f64({divisor});")

    def format_apply(self, step: Apply) -> str:
        """Return the result of an operator."""
        if reciprocal := self._reciprocals.get(step.result):
            return f"f32(f64({self.names[step.operands[0]]}) * {reciprocal})"
        return super().format_apply(step)

    def format_value(self, step: Literal | IndexValue | Load | Apply) -> str:
        """Return the value that an instruction defines."""
        if isinstance(step, IndexValue) and step.dtype.is_float:
            low, high = self.indices.interval(step.expr)
            if _I32[0] <= low and high <= _I32[1]:
                text = f"i32({self.indices.format(step.expr)})"
                return f"{step.dtype.value}({text})"  # processors convert it faster
        return super().format_value(step)

    def add_array(self, dtype: DType, length: int) -> str:
        """Write the declaration of an array, and return its name."""
        name = f"h{self._arrays}"
        self._arrays += 1
        self.source.write(f"alignas(64) {CPP.scalar(dtype)} {name}[{length}];")
        return name

    def place(self, step: Load | Store) -> str:
        """Return the address of what a load reads or a store writes."""
        return f"&{self.format_element(step)}"

    def stored_type(self, step: Load) -> str:
        """Return the C++ type of a load's buffer's elements."""
        return CPP.stored[self._types[step.buffer].dtype]

    def format_load(self, step: Load) -> str:
        """Return the element that a load reads, unless it was read before."""
        there = self.elements.get(step.result)
        if there is None:
            return super().format_load(step)
        return f"{there} != 0" if step.dtype is DType.BOOL else there

    def format_update(self, mode: StoreMode, dtype: DType, element: str, value: str) -> str:
        """Return the statement that combines an element with a value; no thread does so."""
        kind = CPP.scalar(dtype)
        combined = CPP.apply(
            COMBINING[mode], dtype, (dtype, dtype), (f"{kind}({element})", value)
        )
        return f"{element} = {combined};"

    def format_failure(self, number: int) -> str:
        """Return statements that leave the point, or throw the check's number."""
        if not self._has_fault:
            return f"throw {number};"
        self.has_jumps = True
        return f"*fault = {number}; goto next;"
