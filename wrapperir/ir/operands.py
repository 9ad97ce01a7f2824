"""Values that a builder defined, and what its methods take for arguments."""

from collections.abc import Sequence
from typing import TypeAlias, Union

from attrs import frozen

from wrapperir.ir.line import Argument, BufferRef, KernelArgument
from wrapperir.ir.types import ValueType


@frozen
class Value:
    """A value that the builder defined: its name and type."""

    name: str
    type: ValueType


Operand: TypeAlias = Union[Value, Argument, Sequence["Operand"]]
"""What a builder method takes as an argument: a value or any argument of the IR."""

KernelOperand: TypeAlias = Union[Value, KernelArgument]


def as_argument(operand: Operand) -> Argument:
    """Return the IR's form of an operand: values become names, lists become tuples."""
    if isinstance(operand, Value):
        return BufferRef(operand.name)
    if isinstance(operand, Sequence) and not isinstance(operand, str):
        return tuple(as_argument(item) for item in operand)
    return operand


def as_kernel_argument(operand: KernelOperand) -> KernelArgument:
    """Return the IR's form of a kernel's operand: a value becomes its name."""
    return BufferRef(operand.name) if isinstance(operand, Value) else operand
