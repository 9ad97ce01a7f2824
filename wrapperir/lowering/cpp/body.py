"""Instructions of a nest as C++ statements, of one point."""

import math
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import assert_never

from wrapperir.ir import DType, Expr, TensorType
from wrapperir.lowering.cpp.elements import STORED, format_literal, scalar_type
from wrapperir.lowering.cpp.indices import IndexFormatter
from wrapperir.lowering.cpp.lines import SourceLines
from wrapperir.lowering.cpp.operators import format_apply
from wrapperir.lowering.cpp.rows import KeptRows
from wrapperir.lowering.indexing import distance
from wrapperir.lowering.loops import (
    Apply,
    Axis,
    Check,
    IndexValue,
    Instruction,
    Literal,
    Load,
    Reduce,
    Scan,
    Store,
    StoreMode,
)
from wrapperir.lowering.scalar_op import ScalarOp

_COMBINING: Mapping[StoreMode, ScalarOp] = {
    StoreMode.ADD: ScalarOp.ADD,
    StoreMode.MUL: ScalarOp.MUL,
    StoreMode.MIN: ScalarOp.MINIMUM,
    StoreMode.MAX: ScalarOp.MAXIMUM,
}
_POWERS: Mapping[float, str] = {
    **{2: "{0} * {0}", 3: "{0} * {0} * {0}", 1: "{0}"},
    **{-1: "1 / {0}", -2: "1 / ({0} * {0})"},
}
"""Powers to known exponents, as eager computes them."""
_I32 = (-(1 << 31), (1 << 31) - 1)


class InstructionWriter:
    """Writes instructions, and knows the C++ of the values that they define.

    ``pointers`` and ``types`` are by buffer; ``parameters`` are the names of the kernel's
    parameters.  A check that fails goes to the label ``next``, which :attr:`has_jumps` says
    is needed; without a fault buffer it throws its number.  ``elements`` has the elements
    that some loads read, by their results, where they are not in the buffer but were read
    before.  ``rows`` are arrays of values, and ``row_position`` is the C++ of the current
    point's position.
    """

    def __init__(
        self,
        pointers: Mapping[str, str],
        types: Mapping[str, TensorType],
        parameters: str,
        *,
        has_fault: bool,
    ) -> None:
        """Begin with nothing written; the caller adds sizes to ``indices``."""
        self.parameters = parameters
        self.source = SourceLines()
        self.indices = IndexFormatter()
        self.names: dict[str, str] = {}
        self.dtypes: dict[str, DType] = {}
        self.has_jumps = False
        self.elements: dict[str, str] = {}
        self.rows = KeptRows()
        self.row_position = "0"
        self._pointers = pointers
        self._types = types
        self._literals: dict[str, int | float | bool] = {}
        self._reciprocals: dict[str, str] = {}
        self._axes = 0
        self._checks = 0
        self._has_fault = has_fault

    def add_axis(self, axis: Axis) -> str:
        """Return the C++ name of an axis, which expressions may use from now on."""
        name = f"i{self._axes}"
        self._axes += 1
        self.indices.names[axis.name] = name
        most = axis.extent - 1 if isinstance(axis.extent, int) else float("inf")
        self.indices.ranges[axis.name] = (0, most)
        return name

    def set_value(self, name: str, dtype: DType, text: str) -> None:
        """Let instructions use a value by a C++ expression from now on."""
        self.dtypes[name], self.names[name] = dtype, text
        if dtype.is_integer:
            self.indices.names[name] = f"i64({text})"

    @contextmanager
    def forgetting(self) -> Generator[None]:
        """Forget the values that are defined inside, whose block ends."""
        kept = dict(self.names), dict(self.dtypes), dict(self.indices.names)
        yield
        self.names, self.dtypes, self.indices.names = kept

    def define(self, name: str, dtype: DType, text: str) -> None:
        """Write the definition of a value."""
        local = f"v{len(self.names)}"
        self.set_value(name, dtype, local)
        if name in self.rows.read:
            text = f"{self.rows.read[name]}[{self.row_position}]"
        self.source.write(f"{scalar_type(dtype)} {local} = {text};")
        if name in self.rows.stored:
            row = self.rows.stored[name]
            self.source.write(f"{row}[{self.row_position}] = {local};")

    def write(self, step: Instruction) -> None:
        """Write an instruction other than a reduction or a scan."""
        match step:
            case Literal():
                text = format_literal(step.value, step.dtype)
                self.define(step.result, step.dtype, text)
                self._literals[step.result] = step.value
            case IndexValue():
                self._write_index_value(step)
            case Load():
                self._write_load(step)
            case Apply():
                self._write_apply(step)
            case Store():
                self._write_store(step)
            case Check():
                self._write_check(step)
            case Reduce() | Scan():
                raise AssertionError("a reduction outside of an inner loop")
            case _:
                assert_never(step)

    def prepare_division(self, step: Apply) -> None:
        """Write the reciprocal of a known divisor before a loop that divides by it.

        A quotient of ``f32`` from the product in ``f64`` is correctly rounded, as two
        numbers of 24 bits have none so near to the middle of two others.
        """
        divisor = self.names.get(step.operands[1])
        if step.dtype is not DType.F32 or divisor is None:
            return
        literal = self._literals.get(step.operands[1], 3)
        if abs(math.frexp(literal)[0]) == 0.5 or not divisor.isidentifier():
            return  # the compiler multiplies by the reciprocal
        name = f"r{len(self._reciprocals)}"
        self._reciprocals[step.result] = name
        self.source.write(f"const f64 {name} = 1.0 / f64({divisor});")

    def _write_apply(self, step: Apply) -> None:
        dtypes = [self.dtypes[operand] for operand in step.operands]
        operands = [self.names[operand] for operand in step.operands]
        text = format_apply(step.op, step.dtype, dtypes, operands)
        if reciprocal := self._reciprocals.get(step.result):
            text = f"f32(f64({operands[0]}) * {reciprocal})"
        if step.op is ScalarOp.POW and step.dtype in (DType.F32, DType.F64):
            power = _POWERS.get(self._literals.get(step.operands[1], math.nan))
            text = text if power is None else power.format(operands[0])
        self.define(step.result, step.dtype, text)

    def _write_index_value(self, step: IndexValue) -> None:
        text = self.indices.format(step.expr)
        low, high = self.indices.interval(step.expr)
        if step.dtype.is_float and _I32[0] <= low and high <= _I32[1]:
            text = f"i32({text})"  # processors convert it faster
        self.define(step.result, step.dtype, f"{scalar_type(step.dtype)}({text})")

    def _element(self, buffer: str, index: tuple[Expr, ...]) -> str:
        offset = distance(index, self._types[buffer].stride)
        return f"{self._pointers[buffer]}[{self.indices.format(offset)}]"

    def place(self, step: Load) -> str:
        """Return the address of what a load reads."""
        return f"&{self._element(step.buffer, step.index)}"

    def stored_type(self, step: Load) -> str:
        """Return the C++ type of a load's buffer's elements."""
        return STORED[self._types[step.buffer].dtype]

    def _write_load(self, step: Load) -> None:
        there = self.elements.get(step.result)
        text = there or self._element(step.buffer, step.index)
        if step.dtype is DType.BOOL:
            text = f"{text} != 0"
        if step.mask is not None and there is None:
            other = format_literal(step.other, step.dtype)
            text = f"{self.names[step.mask]} ? {text} : {other}"
        self.define(step.result, step.dtype, text)

    def _write_store(self, step: Store) -> None:
        element = self._element(step.buffer, step.index)
        value, dtype = self.names[step.value], self.dtypes[step.value]
        if step.mode is not StoreMode.OVERWRITE:
            there = (
                f"bool({element})" if dtype is DType.BOOL else f"{STORED[dtype]}({element})"
            )
            combined = _COMBINING[step.mode]
            value = format_apply(combined, dtype, (dtype, dtype), (there, value))
        statement = f"{element} = {value};"
        if step.mask is not None:
            statement = f"if ({self.names[step.mask]}) {statement}"
        self.source.write(statement)

    def _write_check(self, step: Check) -> None:
        self._checks += 1
        condition = f"!{self.names[step.condition]}"
        if step.mask is not None:
            condition = f"{self.names[step.mask]} && {condition}"
        if self._has_fault:
            self.has_jumps = True
            failing = f"*fault = {self._checks}; goto next;"
        else:
            failing = f"throw {self._checks};"
        self.source.write(f"if ({condition}) {{ {failing} }}")
