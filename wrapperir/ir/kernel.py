"""Kernel definitions: parameters, access modes, configs and multi-kernel choices."""

from enum import StrEnum
from typing import TypeAlias

from attrs import frozen

from wrapperir.ir.types import DType
from wrapperir.ir.workspace import WorkspaceNeed

ConfigValue: TypeAlias = int | float | bool | str
Constant: TypeAlias = int | float | bool | str | None


class Language(StrEnum):
    """The language of a kernel's source text."""

    TRITON = "triton"
    CPP = "cpp"
    OPAQUE = "opaque"


class Access(StrEnum):
    """What a kernel does with a tensor parameter."""

    READ = "read"
    WRITE = "write"
    READ_WRITE = "read_write"

    @property
    def reads(self) -> bool:
        """Whether the kernel may read what was there before."""
        return self is not Access.WRITE

    @property
    def writes(self) -> bool:
        """Whether the kernel may change the buffer."""
        return self is not Access.READ


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
    strides.  See :mod:`wrapperir.ir.descriptors` for what a descriptor asks of both.
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
class KernelChoice:
    """One kernel of a multi-kernel.

    ``arguments`` are positions in the multi-kernel's own parameters, one for each
    runtime (not constexpr) parameter of ``kernel``, in order.  ``workspaces`` say what
    it needs of those among them that are workspaces.
    """

    kernel: str
    arguments: tuple[int, ...]
    workspaces: tuple[WorkspaceNeed, ...] = ()


def runtime_parameters(parameters: tuple[Parameter, ...]) -> tuple[RuntimeParameter, ...]:
    """Return the parameters that a call gives arguments for: all but constexprs."""
    return tuple(p for p in parameters if not isinstance(p, ConstexprParameter))
