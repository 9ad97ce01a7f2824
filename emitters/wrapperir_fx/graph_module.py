"""The module that runs the graph of a program."""

# torch says little of its types.
# pyright: reportUnknownMemberType=false

from collections.abc import Mapping

import torch
from attrs import evolve
from torch.fx import GraphModule

from wrapperir.fx.attributes import GraphParts
from wrapperir.fx.metadata import LINES
from wrapperir.fx.workspaces import make_workspace
from wrapperir.ir.program import Program
from wrapperir_fx.graph_builder import build_graph
from wrapperir_fx.graph_kernels import bind_kernels
from wrapperir_fx.saved_graphs import ProgramModule


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
