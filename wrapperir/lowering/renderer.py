"""The contract of renderers, which write a loop nest as a kernel of their language."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import ClassVar

from attrs import frozen

from wrapperir.ir import (
    Access,
    BufferParameter,
    KernelDefinitionLine,
    Language,
    NodeOrigin,
    ScalarParameter,
    TensorType,
)
from wrapperir.lowering.loops import Nest


@frozen(kw_only=True)
class KernelBuffer:
    """A buffer that a kernel is given the address of, and its layout."""

    name: str
    type: TensorType
    access: Access


class ReductionForm(StrEnum):
    """The way a kernel runs its inner loops on a GPU.

    ``PERSISTENT``: all elements of a loop are held at once; ``LOOPED``: blocks of them.
    """

    PERSISTENT = "persistent"
    LOOPED = "looped"


@frozen(kw_only=True)
class Tiling:
    """The blocks of a kernel.

    Each entry of ``blocks`` names parallel axes, neighbours in the nest, that one dimension
    of a block runs over.  The last axis of each is the contiguous axis of some access; two
    or three entries make 2-D and 3-D tiles.  All parallel axes are named once, in the
    order of the nest.

    If the kernel ``multiplies`` matrices (:mod:`~wrapperir.lowering.matrix_product`), its
    last two blocks are the rows and the columns of the product; a block before them has
    the batches.
    """

    blocks: tuple[tuple[str, ...], ...]
    reduction: ReductionForm = ReductionForm.LOOPED
    multiplies: bool = False


@frozen(kw_only=True)
class LoopKernel:
    """A nest to be written as a kernel.

    Its arguments are ``buffers``, then ``symbols`` (the size symbols that extents, indices
    and strides use), then, on a CPU, if the nest has a :class:`~.loops.Check`, the
    ``fault`` buffer: one ``i32`` that is zero at first, in which the kernel leaves 1 more
    than the position of a check that failed among the nest's checks.  On other devices,
    where the host would have to wait to read it, a check that fails stops the device with
    an error.  Element ``[a, b]`` of a buffer is at ``a * stride[0] + b * stride[1]`` from
    its address: offsets of types do not count.

    Names are normalised (``in0``, ``i0``, ``v0``), so that kernels that differ in names
    only are equal.
    """

    name: str
    buffers: tuple[KernelBuffer, ...]
    symbols: tuple[ScalarParameter, ...] = ()
    fault: KernelBuffer | None = None
    nest: Nest
    tiling: Tiling


@frozen(kw_only=True)
class KernelPart:
    """A kernel of a sequence, and the positions of its arguments among the sequence's."""

    kernel: LoopKernel
    buffers: tuple[int, ...]
    symbols: tuple[int, ...] = ()


@frozen(kw_only=True)
class KernelSequence:
    """Kernels that run one after the other in one launch.

    Its arguments are as those of :class:`LoopKernel`; the types of ``buffers`` are those of
    the first kernel that is given each.  At most one part has a fault buffer.
    """

    name: str
    buffers: tuple[KernelBuffer, ...]
    symbols: tuple[ScalarParameter, ...] = ()
    fault: KernelBuffer | None = None
    parts: tuple[KernelPart, ...]


def kernel_parameters(
    kernel: LoopKernel | KernelSequence,
) -> tuple[BufferParameter | ScalarParameter, ...]:
    """Return the parameters of a kernel's definition."""
    faults = () if kernel.fault is None else (kernel.fault,)
    buffers, last = (
        tuple(BufferParameter(b.name, b.type.dtype, b.access) for b in part)
        for part in (kernel.buffers, faults)
    )
    return (*buffers, *kernel.symbols, *last)


@frozen(kw_only=True)
class SourceOrigins:
    """The nodes that the rows of a kernel's source are for; rows count from 0.

    ``begin`` is the first row of the kernel's own code, after what other kernels have too.
    ``rows`` has the rows that compute something: not loops, blocks and declarations.
    """

    begin: int
    rows: Mapping[int, tuple[NodeOrigin, ...]]

    @classmethod
    def of_lines(
        cls, begin: int, origins: Iterable[tuple[NodeOrigin, ...]]
    ) -> "SourceOrigins":
        """Return the origins of a kernel's own lines, the first of which is ``begin``."""
        rows = enumerate(origins, start=begin)
        return cls(begin=begin, rows={row: found for row, found in rows if found})


class Renderer(ABC):
    """Writes kernels of one language for one kind of device.

    Plugins provide renderers through the hook ``wrapperir_renderers``.
    """

    language: ClassVar[Language]
    device_kinds: ClassVar[frozenset[str]]
    """Kinds of devices (``cpu``, ``cuda``) that the kernels run on."""
    writes_sequences: ClassVar[bool] = False
    """Whether one kernel can run several nests, one after the other."""

    @abstractmethod
    def refusal(self, nest: Nest) -> str | None:
        """Return why the nest cannot be written in this language, or ``None``."""

    @abstractmethod
    def render_kernel(self, kernel: LoopKernel) -> KernelDefinitionLine:
        """Return the kernel's definition: its source, parameters, grid and configs."""

    def source_origins(self, kernel: LoopKernel | KernelSequence) -> SourceOrigins | None:
        """Return the nodes of the rows of a kernel's source, if they are known.

        They are those of the kernel's own instructions: kernels with one definition may be
        for different nodes.
        """
        return None

    def render_sequence(self, sequence: KernelSequence) -> KernelDefinitionLine:
        """Return the definition of one kernel for a sequence, if the renderer has them."""
        raise NotImplementedError(f"{type(self).__name__} writes no sequences")
