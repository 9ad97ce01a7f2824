"""The base class of all lines, and the lines that define kernels."""

from typing import TypeAlias, Union

from attrs import field, frozen

from wrapperir.ir.expr import Expr
from wrapperir.ir.kernel import (
    VECTORS,
    KernelChoice,
    KernelConfig,
    KernelSize,
    Language,
    Parameter,
)
from wrapperir.ir.kernel_facts import Constant, KernelCopy, TouchedElements
from wrapperir.ir.provenance import Provenance
from wrapperir.ir.selection import FirstChoice, Selection


@frozen(kw_only=True)
class Line:
    """The base class of all lines."""

    provenance: Provenance | None = None


@frozen(kw_only=True)
class KernelDefinitionLine(Line):
    """Define a kernel.

    ``entry`` names the function in ``source``.  ``grid`` counts programs along x, y, z
    as expressions over scalar parameters and config values; it is empty for kernels
    that are not launched on a grid.  ``constants`` bind constexpr parameters for every
    config.  ``metadata`` keys are namespaced (``inductor.heuristic``).
    """

    name: str
    language: Language
    parameters: tuple[Parameter, ...]
    grid: tuple[Expr, ...] = ()
    constants: tuple[tuple[str, Constant], ...] = ()
    configs: tuple[KernelConfig, ...] = ()
    entry: str
    metadata: tuple[tuple[str, Constant], ...] = ()
    source: str

    @property
    def vectors(self) -> str | None:
        """The vector instructions that a C++ kernel is written with, if it says so."""
        found = dict(self.metadata).get(VECTORS)
        return None if found is None else str(found)

    @property
    def copies(self) -> tuple[KernelCopy, ...]:
        """The copies that the kernel makes, if it says so."""
        return KernelCopy.of(self.metadata)

    @property
    def touched(self) -> TouchedElements | None:
        """How many elements a call touches, if the kernel says so."""
        return TouchedElements.of(self.metadata)


@frozen(kw_only=True)
class MultiKernelLine(Line):
    """Define a kernel that is one of several equivalent ones, picked by ``selection``.

    ``parameters`` is the union of the choices' runtime parameters; a kernel call names
    the multi-kernel as it would any kernel.  ``selection`` uses
    ``sizes`` and the scalar parameters.
    """

    name: str
    parameters: tuple[Parameter, ...]
    sizes: tuple[KernelSize, ...] = ()
    choices: tuple[KernelChoice, ...]
    selection: Selection = field(factory=FirstChoice)


DefinitionLine: TypeAlias = Union[KernelDefinitionLine, MultiKernelLine]
