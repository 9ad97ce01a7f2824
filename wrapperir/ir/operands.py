"""Operands of the builder's methods: values that it defined, and arguments of the IR."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias, Union

from attrs import frozen

from wrapperir.ir.arguments import Argument, BufferRef, KernelArgument
from wrapperir.ir.types import ValueType


@frozen
class NamedValue:
    """A value that the builder defined: its name and type."""

    name: str
    type: ValueType


Operand: TypeAlias = Union[NamedValue, Argument, Sequence["Operand"]]
"""An argument of a builder method: a value, any argument of the IR, or a list of these."""

KernelOperand: TypeAlias = Union[NamedValue, KernelArgument]
"""An argument of a kernel: a value or a scalar expression."""


def as_argument(operand: Operand) -> Argument:
    """Return an operand as an argument of the IR: values by name, lists as tuples."""
    if isinstance(operand, NamedValue):
        return BufferRef(operand.name)
    if isinstance(operand, Sequence) and not isinstance(operand, str):
        return tuple(as_argument(item) for item in operand)
    return operand


def as_kernel_argument(operand: KernelOperand) -> KernelArgument:
    """Return an operand as an argument of a kernel: a value by name."""
    return BufferRef(operand.name) if isinstance(operand, NamedValue) else operand


def names_of(values: Iterable[NamedValue]) -> tuple[BufferRef, ...]:
    """Return references to values."""
    return tuple(BufferRef(value.name) for value in values)
