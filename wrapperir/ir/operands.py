"""Operands of the builder's methods: values that it defined, and arguments of the IR."""

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeAlias, Union, cast

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


class OperatorObject(Protocol):
    """An overload of an operator, such as ``torch.ops.aten.add.Tensor``."""

    @property
    def namespace(self) -> str:
        """The namespace, such as ``aten``."""
        ...

    def name(self) -> str:
        """Return the qualified name, such as ``aten::add.Tensor``."""
        ...


def operator_name(operator: str | OperatorObject) -> str:
    """Return the name of an operator, such as ``aten.add.Tensor``.

    Raises:
        TypeError: it is neither a name nor an overload, nor an operator with one overload.
    """
    if isinstance(operator, str):
        return operator
    overloads = getattr(operator, "overloads", None)
    if callable(overloads):
        known = cast(Sequence[str], overloads())
        if len(known) == 1:
            return f"{operator}.{known[0]}"
        raise TypeError(f"{operator} has several overloads; give one: {', '.join(known)}")
    name = getattr(operator, "name", None)
    qualified: object = name() if callable(name) else None
    if not isinstance(qualified, str) or "::" not in qualified:
        raise TypeError(
            "an operator is a name, such as 'aten.relu.default', or an overload, such as"
            f" torch.ops.aten.relu.default, not {operator!r}"
        )
    namespace, _, rest = qualified.partition("::")
    return f"{namespace}.{rest}" if "." in rest else f"{namespace}.{rest}.default"


def name_of(value: NamedValue) -> str:
    """Return the name of a value.

    Raises:
        TypeError: it is not a value that the builder defined.
    """
    given = cast(object, value)
    if not isinstance(given, NamedValue):
        raise TypeError(f"a value that the builder returned is wanted, not {given!r}")
    return given.name


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
    return tuple(BufferRef(name_of(value)) for value in values)
