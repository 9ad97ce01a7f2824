"""From a program to a graph, and to a module that runs it."""

# torch says little of its types.
# pyright: reportUnknownMemberType=false

from collections.abc import Mapping

import torch
from attrs import evolve
from torch.fx import GraphModule

from wrapperir.diagnostics import DiagnosticError
from wrapperir.ir.program import Program
from wrapperir.ir.types import ScalarType
from wrapperir_fx.attributes import GraphParts
from wrapperir_fx.fake_values import FakeValues
from wrapperir_fx.graph_kernels import bind_kernels
from wrapperir_fx.lines import Context, FxLines
from wrapperir_fx.nodes import LINES
from wrapperir_fx.saved_graphs import ProgramModule
from wrapperir_fx.streams import survey_streams
from wrapperir_fx.symbols import convert_input
from wrapperir_fx.workspaces import make_workspace


def build_graph(program: Program) -> GraphParts:
    """Return the graph of a verified program; nothing of the program is run.

    The Triton kernels in it are named by their place in ``program.definitions``.

    Raises:
        DiagnosticError: the program holds what a graph cannot express; all such places
            are named.
    """
    definitions = {line.name: line for line in program.definitions}
    context = Context(program, definitions, FakeValues(program), survey_streams(program))
    lines = FxLines(context)
    for given in program.inputs:
        val = lines.fakes.of(given.type, given.name)
        node = lines.nodes.placeholder(given.name, val)
        lines.give(given.name, given.type, node)
    for constant in program.constants:
        attribute = lines.attributes.bind(constant.name, constant.key)
        val = lines.fakes.of(constant.type)
        node = lines.nodes.get_attr(attribute, name=constant.name, val=val)
        lines.give(constant.name, constant.type, node)
    for given in program.inputs:
        if isinstance(given.type, ScalarType):
            convert_input(lines, given.name, given.type)
    for symbol in program.symbols:
        lines.visit(symbol)
    lines.streams.begin()
    lines.emit_lines(program.lines, ("lines",))
    outputs = tuple([lines.arguments.of(output) for output in program.outputs])
    lines.streams.end(program.outputs)
    lines.nodes.output(outputs)
    if context.problems:
        raise DiagnosticError(*context.problems)
    return GraphParts(lines.nodes.graph, lines.attributes)


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
