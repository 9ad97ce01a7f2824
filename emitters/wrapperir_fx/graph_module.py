"""The module that runs the graph of a program, and the kernels that go with it.

A module has its kernels where it is saved and copied, too.
"""

# torch says little of its types.
# pyright: reportUnknownMemberType=false, reportPrivateUsage=false

from collections.abc import Mapping
from typing import Self

import torch
from attrs import evolve
from torch.fx import GraphModule
from torch.fx.graph_module import _USER_PRESERVED_ATTRIBUTES_KEY

from wrapperir.emit.context import ProgramFacts
from wrapperir.fx import LINES, GraphParts, MultiKernelDefinition, make_workspace

# A saved graph calls the operators that this registers.
from wrapperir.fx import operators as operators
from wrapperir.ir import (
    KernelCallLine,
    KernelDefinitionLine,
    Language,
    MultiKernelLine,
    Program,
)
from wrapperir.ir.blocks import walk_lines
from wrapperir_fx.graph_builder import build_graph
from wrapperir_fx.kernel_functions import register_kernels
from wrapperir_fx.multi_kernel_registry import register_multi_kernels
from wrapperir_fx.saved_graphs import KERNELS, ProgramModule
from wrapperir_fx.triton_kernels import bind_triton_kernels, enter_triton_kernel


def build_graph_module(
    program: Program, constants: Mapping[str, torch.Tensor]
) -> GraphModule:
    """Return a module that runs a verified program: inputs in order, outputs as a tuple.

    Kernels are compiled.  ``constants`` maps each constant's key to its tensor; the
    module holds them detached, so that no operator records gradients.

    Raises:
        DiagnosticError: as :func:`build_graph`; or a kernel does not compile.
    """
    module = assemble(build_graph(program), constants)
    module.meta[LINES] = evolve(program, lines=())
    bind_kernels(module, program)
    return module


def assemble(parts: GraphParts, constants: Mapping[str, torch.Tensor]) -> GraphModule:
    """Return the module of a graph, with what it holds."""
    attributes = parts.attributes
    held: dict[str, object] = {
        name: constants[key].detach() for name, key in attributes.constants.items()
    }
    held |= {name: make_workspace(type) for name, type in attributes.workspaces.items()}
    held |= {name: assemble(graph, {}) for name, graph in attributes.graphs.items()}
    return ProgramModule(held, parts.graph)


def bind_kernels(module: GraphModule, program: Program) -> None:
    """Build the kernels that the graph of a program calls, and bind the graph to them.

    From then on ``module`` runs, and is saved and copied with its kernels.

    Raises:
        DiagnosticError: WIR709, a kernel does not build.
    """
    facts = ProgramFacts(program)
    calls = [line for line in walk_lines(program.lines) if isinstance(line, KernelCallLine)]
    undecided = {
        line.kernel for line in calls if not isinstance(facts.runnable(line).dispatch, int)
    }
    multi_kernels = [
        MultiKernelDefinition.of(line, facts.definitions)
        for line in program.definitions
        if isinstance(line, MultiKernelLine) and line.name in undecided
    ]
    kernels = [
        line
        for line in program.definitions
        if isinstance(line, KernelDefinitionLine) and line.name in facts.kernel_devices
    ]
    # The emitter refuses programs with Triton kernels on the CPU and elsewhere.
    interpreted = any(
        line.language is Language.TRITON and "cpu" in facts.kernel_devices[line.name]
        for line in kernels
    )
    saved = SavedKernels(tuple(kernels), tuple(multi_kernels), interpreted=interpreted)
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
