"""Parts of kernel definitions: parameters, access modes, workspaces, configs, choices.

A tensor descriptor is how a Triton kernel takes a tensor: base address, size and strides
together, which hardware with a tensor memory accelerator reads and writes blocks by.
"""

from collections.abc import Sequence
from enum import StrEnum
from math import prod
from typing import TypeAlias

from attrs import frozen

from wrapperir.ir.expr import Expr
from wrapperir.ir.kernel_facts import Constant
from wrapperir.ir.types import DType

ConfigValue: TypeAlias = int | float | bool | str

NO_HEADERS: tuple[str, Constant] = ("cpp.headers", "none")
"""Metadata of a C++ kernel that includes no header, and whose numbers no flag changes."""
VECTORS = "cpp.vectors"
"""Key of a C++ kernel's metadata: the vector instructions that it is written with.

They are PyTorch's, such as ``AVX2`` or ``none``; its header has vectors of their width.
"""


class Language(StrEnum):
    """The language of a kernel's source text."""

    TRITON = "triton"
    CPP = "cpp"
    OPAQUE = "opaque"


class Access(StrEnum):
    """The access of a kernel to a tensor parameter."""

    READ = "read"
    WRITE = "write"
    READ_WRITE = "read_write"

    @property
    def reads(self) -> bool:
        """Whether the kernel may read bytes that it has not written."""
        return self is not Access.WRITE

    @property
    def writes(self) -> bool:
        """Whether the kernel may change the buffer."""
        return self is not Access.READ


class ZeroMode(StrEnum):
    """The initial bytes of a workspace."""

    UNINITIALIZED = "uninitialized"
    ZERO_ON_CALL = "zero_on_call"
    ZERO_PER_PROGRAM = "zero_per_program"


@frozen
class BufferParameter:
    """A pointer to elements of ``dtype``."""

    name: str
    dtype: DType
    access: Access


@frozen
class DescriptorParameter:
    """A tensor of ``dtype`` behind a Triton tensor descriptor.

    The kernel reads and writes it in blocks of ``block`` elements, and sees its size and
    strides.  :func:`block_fault` and :func:`layout_fault` check both.
    """

    name: str
    dtype: DType
    block: tuple[int, ...]
    access: Access


@frozen
class ScalarParameter:
    """A number passed by value at each call."""

    name: str
    dtype: DType


@frozen
class ConstexprParameter:
    """A compile-time constant, given a value by the config that is launched."""

    name: str


TensorParameter: TypeAlias = BufferParameter | DescriptorParameter
"""A parameter that takes a tensor."""

RuntimeParameter: TypeAlias = TensorParameter | ScalarParameter
"""A parameter that a call gives an argument for."""

Parameter: TypeAlias = RuntimeParameter | ConstexprParameter


@frozen
class KernelConfig:
    """One way to compile and launch a kernel.

    ``values`` binds constexpr parameters (``XBLOCK``) and launch options
    (``num_warps``, ``num_stages``), in the order of the file.
    """

    values: tuple[tuple[str, ConfigValue], ...]


@frozen
class KernelSize:
    """A name for the size of a multi-kernel's tensor argument along a dimension.

    ``parameter`` is the position of the argument.  Selection policies go by such sizes.
    """

    name: str
    parameter: int
    dim: int


@frozen
class WorkspaceNeed:
    """The need of a multi-kernel's choice for a workspace.

    ``parameter`` is the position of the workspace among the multi-kernel's parameters.
    ``count`` is the number of elements that the choice uses, over the multi-kernel's
    scalar parameters and sizes; ``mode`` is the zero mode that it needs.
    """

    parameter: int
    count: Expr
    mode: ZeroMode


@frozen
class KernelChoice:
    """One kernel of a multi-kernel.

    ``arguments`` are positions in the multi-kernel's own parameters, one for each
    runtime (not constexpr) parameter of ``kernel``, in order.  ``workspaces`` are
    its needs of the workspaces among them.
    """

    kernel: str
    arguments: tuple[int, ...]
    workspaces: tuple[WorkspaceNeed, ...] = ()


def runtime_parameters(parameters: tuple[Parameter, ...]) -> tuple[RuntimeParameter, ...]:
    """Return the parameters that a call gives arguments for: all but constexprs."""
    return tuple(p for p in parameters if not isinstance(p, ConstexprParameter))


def combined_mode(left: ZeroMode, right: ZeroMode) -> ZeroMode | None:
    """Return a zero mode that meets both needs; ``None`` if there is none.

    Zeroed memory also suits a kernel that takes any bytes.  A kernel that must find zeros
    from its earlier call cannot share the workspace with a kernel that leaves other bytes.
    """
    if left is right:
        return left
    if ZeroMode.ZERO_PER_PROGRAM in (left, right):
        return None
    return ZeroMode.ZERO_ON_CALL


DESCRIPTOR_ALIGNMENT = 16
"""Bytes that the address, and all strides but the last, are a multiple of."""

_MOST_DIMENSIONS = 5
_MOST_ELEMENTS = 1 << 20  # of a block
_LARGEST_SIZE = (1 << 31) - 1
_WITHOUT = frozenset(
    {DType.BOOL, DType.F8E8M0FNU, DType.F4E2M1FN_X2, DType.C32, DType.C64, DType.C128}
)


def block_fault(parameter: DescriptorParameter) -> str | None:
    """Return why a parameter's dtype or block is not possible, or ``None``."""
    dtype, block = parameter.dtype, parameter.block
    if dtype in _WITHOUT:
        return f"there are no descriptors of {dtype.value}"
    if not 1 <= len(block) <= _MOST_DIMENSIONS:
        return f"it has {len(block)} dimensions, not 1 to {_MOST_DIMENSIONS}"
    for length in block:
        if length < 1 or length & (length - 1):
            return f"{length} is not a power of two"
    if prod(block) > _MOST_ELEMENTS:
        return f"it has more than {_MOST_ELEMENTS} elements"
    bytes = block[-1] * dtype.itemsize
    if bytes < DESCRIPTOR_ALIGNMENT:
        return f"its last dimension has {bytes} bytes, fewer than {DESCRIPTOR_ALIGNMENT}"
    return None


def layout_fault(
    parameter: DescriptorParameter, size: Sequence[Expr], stride: Sequence[Expr]
) -> str | None:
    """Return why a tensor of this layout cannot be behind a descriptor, if that is so.

    Symbolic sizes and strides are not checked.
    """
    rank = len(parameter.block)
    if len(size) != rank:
        return f"has {len(size)} dimensions, and the block {rank}"
    for length in size:
        if isinstance(length, int) and not 1 <= length <= _LARGEST_SIZE:
            return f"has a size of {length}, not of 1 to {_LARGEST_SIZE}"
    for step in stride[:-1]:
        if isinstance(step, int) and step * parameter.dtype.itemsize % DESCRIPTOR_ALIGNMENT:
            return (
                f"has a stride of {step} elements, which is not a multiple of "
                f"{DESCRIPTOR_ALIGNMENT} bytes"
            )
    last = stride[-1]
    if isinstance(last, int) and last != 1:
        return f"has a last stride of {last}, not 1"
    return None
