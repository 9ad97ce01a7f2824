"""The kernels of a graph module, made to go with it where it is saved and copied."""

# torch says little of its types.
# pyright: reportUnknownMemberType=false, reportPrivateUsage=false

from typing import Self

from torch.fx import GraphModule
from torch.fx.graph_module import _USER_PRESERVED_ATTRIBUTES_KEY

from wrapperir.emit.runnable_kernels import runnable_kernels, value_types

# A graph that was saved calls the operators that these register.
from wrapperir.fx import assert_operator as assert_operator
from wrapperir.fx import kernel_operator as kernel_operator
from wrapperir.fx.kernel_keys import MultiKernelDefinition
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.kernel import Language
from wrapperir.ir.line import KernelCallLine, KernelDefinitionLine, MultiKernelLine
from wrapperir.ir.program import Program
from wrapperir.ir.types import ValueType
from wrapperir_fx.kernel_functions import register_kernels
from wrapperir_fx.multi_kernel_registry import register_multi_kernels
from wrapperir_fx.saved_graphs import KERNELS
from wrapperir_fx.triton_kernels import bind_triton_kernels, enter_triton_kernel


def bind_kernels(module: GraphModule, program: Program) -> None:
    """Build the kernels that the graph of a program calls, and let the graph find these.

    From then on ``module`` runs, and is saved and copied with its kernels.

    Raises:
        DiagnosticError: WIR709, a kernel does not build.
    """
    definitions = {line.name: line for line in program.definitions}
    types: dict[str, ValueType] = {}
    if any(isinstance(line, MultiKernelLine) for line in program.definitions):
        types = value_types(program)
    kernels: dict[str, KernelDefinitionLine] = {}
    multi_kernels: dict[str, MultiKernelDefinition] = {}
    interpreted = False
    for line in walk_lines(program.lines):
        if not isinstance(line, KernelCallLine):
            continue
        found = runnable_kernels(definitions, line, types)
        if not isinstance(found.dispatch, int) and line.kernel not in multi_kernels:
            definition = definitions[line.kernel]
            assert isinstance(definition, MultiKernelLine)
            known = MultiKernelDefinition.of(definition, definitions)
            multi_kernels[line.kernel] = known
        for candidate in found.kernels.values():
            kernel = candidate.kernel
            kernels[kernel.name] = kernel
            # The emitter refuses programs with Triton kernels there and elsewhere.
            if kernel.language is Language.TRITON and line.device.kind == "cpu":
                interpreted = True
    saved = SavedKernels(
        tuple(kernels.values()), tuple(multi_kernels.values()), interpreted=interpreted
    )
    saved.register()
    bind_triton_kernels(module, program.definitions, interpreted=interpreted)
    keep_kernels(module, saved)


class SavedKernels:
    """Kernels that are registered again where a module that holds them is unpickled.

    ``interpreted`` says that the Triton kernels among them run on the CPU.
    """

    def __init__(
        self,
        kernels: tuple[KernelDefinitionLine, ...],
        multi_kernels: tuple[MultiKernelDefinition, ...],
        *,
        interpreted: bool,
    ) -> None:
        """Hold the definitions of kernels that are, or are to be, registered."""
        self.kernels = kernels
        self.multi_kernels = multi_kernels
        self.interpreted = interpreted

    def register(self) -> None:
        """Build and register the kernels, and register the multi-kernels.

        Raises:
            DiagnosticError: WIR709, a kernel does not build.
        """
        register_kernels(self.kernels, interpreted=self.interpreted)
        register_multi_kernels(self.multi_kernels)

    def __reduce__(self) -> tuple[object, ...]:
        """Return what registers the kernels again."""
        return restored_kernels, (self.kernels, self.multi_kernels, self.interpreted)

    def __copy__(self) -> Self:
        """Return this object: it does not change."""
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Return this object: it does not change."""
        return self


def restored_kernels(
    kernels: tuple[KernelDefinitionLine, ...],
    multi_kernels: tuple[MultiKernelDefinition, ...],
    interpreted: bool,
) -> SavedKernels:
    """Register kernels; a graph module that was saved calls this where it is loaded.

    Raises:
        DiagnosticError: WIR709, a kernel does not build.
    """
    saved = SavedKernels(kernels, multi_kernels, interpreted=interpreted)
    saved.register()
    for definition in kernels:
        if definition.language is Language.TRITON:  # a saved graph has its index
            enter_triton_kernel(definition, interpreted=interpreted)
    return saved


def keep_kernels(module: GraphModule, kernels: SavedKernels) -> None:
    """Let a module and its nested graphs hold kernels, in copies and when saved."""
    for owner in module.modules():
        if isinstance(owner, GraphModule):
            setattr(owner, KERNELS, kernels)
            kept = owner.meta.setdefault(_USER_PRESERVED_ATTRIBUTES_KEY, {})
            kept[KERNELS] = kernels  # a copy gets its attributes from there
