"""Arguments of lines: names of values, literals, and the sources of symbols."""

from enum import StrEnum
from typing import TypeAlias, Union

from attrs import frozen

from wrapperir.ir.expr import Expr
from wrapperir.ir.types import Device, DType


@frozen
class BufferRef:
    """A use of a named value as an argument."""

    name: str


@frozen
class TorchEnum:
    """A named constant of torch: ``kind`` is ``layout`` or ``memory_format``."""

    kind: str
    name: str


@frozen
class ComplexLiteral:
    """A complex number."""

    real: float
    imaginary: float


Argument: TypeAlias = Union[
    BufferRef,
    Expr,
    bool,
    str,
    DType,
    Device,
    TorchEnum,
    ComplexLiteral,
    tuple["Argument", ...],
    None,
]
"""An argument of an operator.  ``DType`` is a ``str`` subclass: test it first."""

KernelArgument: TypeAlias = Union[BufferRef, Expr]
"""An argument of a kernel: a value's name or a scalar expression."""


class SymbolKind(StrEnum):
    """The kind of number a symbol stands for."""

    INT = "int"
    FLOAT = "float"
    BOOL = "bool"


@frozen
class SizeOf:
    """The extent of dimension ``dim`` of a tensor."""

    buffer: str
    dim: int


@frozen
class StrideOf:
    """The stride, in elements, of dimension ``dim`` of a tensor."""

    buffer: str
    dim: int


@frozen
class OffsetOf:
    """The storage offset, in elements, of a tensor."""

    buffer: str


@frozen
class ValueOf:
    """The value of a scalar input or scalar result."""

    name: str


@frozen
class ItemOf:
    """The one element of a one-element tensor, read on the host (``.item()``)."""

    buffer: str


SymbolSource: TypeAlias = Union[SizeOf, StrideOf, OffsetOf, ValueOf, ItemOf, Expr]
