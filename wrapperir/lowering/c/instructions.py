"""Instructions of a nest as statements of a language like C, of one point."""

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import assert_never

from wrapperir.ir import DType, Expr, TensorType
from wrapperir.lowering.c.indices import IndexFormatter
from wrapperir.lowering.c.language import CLanguage
from wrapperir.lowering.c.lines import SourceLines
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

COMBINING: Mapping[StoreMode, ScalarOp] = {
    StoreMode.ADD: ScalarOp.ADD,
    StoreMode.MUL: ScalarOp.MUL,
    StoreMode.MIN: ScalarOp.MINIMUM,
    StoreMode.MAX: ScalarOp.MAXIMUM,
}
"""The operators with which stores combine."""


class InstructionWriter(ABC):
    """Writes instructions, and knows the text of the values that they define.

    ``pointers`` and ``types`` are by buffer.  A language says what a failed check does, and
    how a store combines with the element there.
    """

    def __init__(
        self,
        language: CLanguage,
        pointers: Mapping[str, str],
        types: Mapping[str, TensorType],
    ) -> None:
        """Begin with nothing written; the caller adds sizes to ``indices``."""
        self.language = language
        self.source = SourceLines()
        self.indices = IndexFormatter(language)
        self.names: dict[str, str] = {}
        self.dtypes: dict[str, DType] = {}
        self.literals: dict[str, int | float | bool] = {}
        self._pointers = pointers
        self._types = types
        self._axes = 0
        self._checks = 0

    @abstractmethod
    def format_failure(self, number: int) -> str:
        """Return statements for a check that fails, the ``number``-th from 1."""

    @abstractmethod
    def format_update(self, mode: StoreMode, dtype: DType, element: str, value: str) -> str:
        """Return the statement that combines an element with a value."""

    def add_axis(self, axis: Axis) -> str:
        """Return the name of an axis, which expressions may use from now on."""
        name = f"i{self._axes}"
        self._axes += 1
        self.indices.names[axis.name] = name
        most = axis.extent - 1 if isinstance(axis.extent, int) else float("inf")
        self.indices.ranges[axis.name] = (0, most)
        return name

    def set_value(self, name: str, dtype: DType, text: str) -> None:
        """Let instructions use a value by an expression from now on."""
        self.dtypes[name], self.names[name] = dtype, text
        if dtype.is_integer:
            self.indices.names[name] = self.language.convert(DType.I64, text)

    @contextmanager
    def forgetting(self) -> Generator[None]:
        """Forget the values that are defined inside, whose block ends."""
        kept = dict(self.names), dict(self.dtypes), dict(self.indices.names)
        yield
        self.names, self.dtypes, self.indices.names = kept

    def operand(self, name: str) -> str:
        """Return a value as an operand of an operator, a reduction or a scan."""
        return self.names[name]

    def define(self, name: str, dtype: DType, text: str) -> None:
        """Write the definition of a value."""
        local = f"v{len(self.names)}"
        self.set_value(name, dtype, local)
        self.source.write(f"{self.language.scalar(dtype)} {local} = {text};")

    def write(self, step: Instruction) -> None:
        """Write an instruction other than a reduction or a scan."""
        with self.source.computing(step.origins):
            self._write(step)

    def _write(self, step: Instruction) -> None:
        match step:
            case Literal() | IndexValue() | Load() | Apply():
                if isinstance(step, Literal):
                    self.literals[step.result] = step.value
                self.define(step.result, step.dtype, self.format_value(step))
            case Store():
                self.source.write(self.format_store(step))
            case Check():
                self._checks += 1
                self.source.write(self.format_check(step, self._checks))
            case Reduce() | Scan():
                raise AssertionError("a reduction outside of an inner loop")
            case _:
                assert_never(step)

    def format_value(self, step: Literal | IndexValue | Load | Apply) -> str:
        """Return the value that an instruction defines."""
        match step:
            case Literal():
                return self.language.literal(step.value, step.dtype)
            case IndexValue():
                return self.language.convert(step.dtype, self.indices.format(step.expr))
            case Load():
                return self.format_load(step)
            case Apply():
                return self.format_apply(step)

    def format_apply(self, step: Apply) -> str:
        """Return the result of an operator."""
        dtypes = [self.dtypes[operand] for operand in step.operands]
        operands = [self.operand(operand) for operand in step.operands]
        if step.op is ScalarOp.POW and step.dtype in (DType.F32, DType.F64):
            exponent = self.literals.get(step.operands[1])
            power = self.language.power(operands[0], exponent)
            if power is not None:
                return power
        return self.language.apply(step.op, step.dtype, dtypes, operands)

    def format_load(self, step: Load) -> str:
        """Return the element that a load reads."""
        text = self.format_element(step)
        if step.dtype is DType.BOOL:
            text = f"{text} != 0"
        if step.mask is not None:
            other = self.language.literal(step.other, step.dtype)
            text = f"{self.names[step.mask]} ? {text} : {other}"
        return text

    def format_store(self, step: Store) -> str:
        """Return the statement of a store."""
        element, value = self.format_element(step), self.names[step.value]
        statement = f"{element} = {value};"
        if step.mode is not StoreMode.OVERWRITE:
            dtype = self.dtypes[step.value]
            statement = self.format_update(step.mode, dtype, element, value)
        if step.mask is not None:
            statement = f"if ({self.names[step.mask]}) {statement}"
        return statement

    def format_check(self, step: Check, number: int) -> str:
        """Return the statement of a check, the ``number``-th from 1."""
        condition = f"!{self.names[step.condition]}"
        if step.mask is not None:
            condition = f"{self.names[step.mask]} && {condition}"
        return f"if ({condition}) {{ {self.format_failure(number)} }}"

    def format_offset(self, index: tuple[Expr, ...], buffer: str) -> str:
        """Return the elements between the first one of a buffer and another."""
        return self.indices.format(distance(index, self._types[buffer].stride))

    def format_element(self, step: Load | Store) -> str:
        """Return the element of a buffer that a load or store is of."""
        offset = self.format_offset(step.index, step.buffer)
        return f"{self._pointers[step.buffer]}[{offset}]"
