"""The kernels of a graph module, made to go with it where it is saved and copied."""

# torch says little of its types.
# pyright: reportUnknownMemberType=false, reportPrivateUsage=false

from typing import Self

from torch.fx import GraphModule
from torch.fx.graph_module import _USER_PRESERVED_ATTRIBUTES_KEY

from wrapperir.emit.walking import chosen_kernel, walk_lines
from wrapperir.ir.kernel import Language
from wrapperir.ir.line import KernelCallLine, KernelDefinitionLine
from wrapperir.ir.program import Program

# A graph that was saved calls the operators that these register.
from wrapperir_fx import assert_operator as assert_operator
from wrapperir_fx import kernel_operator as kernel_operator
from wrapperir_fx.kernel_functions import register_kernels
from wrapperir_fx.saved_graphs import KERNELS
from wrapperir_fx.triton_kernels import bind_triton_kernels, enter_triton_kernel


def bind_kernels(module: GraphModule, program: Program) -> None:
    """Build the kernels that the graph of a program calls, and let the graph find these.

    From then on ``module`` runs, and is saved and copied with its kernels.

    Raises:
        DiagnosticError: WIR709, a kernel does not build.
    """
    definitions = {line.name: line for line in program.definitions}
    called: dict[str, KernelDefinitionLine] = {}
    interpreted = False
    for line in walk_lines(program.lines):
        if isinstance(line, KernelCallLine):
            definition, _ = chosen_kernel(definitions, line.kernel)
            called[definition.name] = definition
            # The emitter refuses programs with Triton kernels there and elsewhere.
            if definition.language is Language.TRITON and line.device.kind == "cpu":
                interpreted = True
    register_kernels(called.values(), interpreted=interpreted)
    bind_triton_kernels(module, program.definitions, interpreted=interpreted)
    keep_kernels(module, SavedKernels(tuple(called.values()), interpreted=interpreted))


class SavedKernels:
    """Kernels that are registered again where a module that holds them is unpickled.

    ``interpreted`` says that the Triton kernels among them run on the CPU.
    """

    def __init__(
        self, definitions: tuple[KernelDefinitionLine, ...], *, interpreted: bool
    ) -> None:
        """Hold the definitions of kernels that are registered."""
        self.definitions = definitions
        self.interpreted = interpreted

    def __reduce__(self) -> tuple[object, ...]:
        """Return what registers the kernels again."""
        return restored_kernels, (self.definitions, self.interpreted)

    def __copy__(self) -> Self:
        """Return this object: it does not change."""
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Return this object: it does not change."""
        return self


def restored_kernels(
    definitions: tuple[KernelDefinitionLine, ...], interpreted: bool
) -> SavedKernels:
    """Register kernels; a graph module that was saved calls this where it is loaded.

    Raises:
        DiagnosticError: WIR709, a kernel does not build.
    """
    register_kernels(definitions, interpreted=interpreted)
    for definition in definitions:
        if definition.language is Language.TRITON:  # a saved graph has its index
            enter_triton_kernel(definition, interpreted=interpreted)
    return SavedKernels(definitions, interpreted=interpreted)


def keep_kernels(module: GraphModule, kernels: SavedKernels) -> None:
    """Let a module and its nested graphs hold kernels, in copies and when saved."""
    for owner in module.modules():
        if isinstance(owner, GraphModule):
            setattr(owner, KERNELS, kernels)
            kept = owner.meta.setdefault(_USER_PRESERVED_ATTRIBUTES_KEY, {})
            kept[KERNELS] = kernels  # a copy gets its attributes from there
