"""Arguments of lines: names of values, literals, and the sources of symbols."""

from collections.abc import Mapping
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
    """A named constant of torch: ``kind`` is one of :data:`TORCH_ENUM_NAMES`."""

    kind: str
    name: str


TORCH_ENUM_NAMES: Mapping[str, frozenset[str]] = {
    "layout": frozenset(
        {"strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"}
    ),
    "memory_format": frozenset(
        {"contiguous_format", "preserve_format", "channels_last", "channels_last_3d"}
    ),
    "quantized_dtype": frozenset({"quint8", "qint8", "qint32"}),
}
"""The constants of torch that operators take, by kind.

The elements of a tensor of a quantized dtype are numbers only with a scale of its own, so
no tensor of a program has one: an operator that is given the dtype returns an object.
"""


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
