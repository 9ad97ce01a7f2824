"""Graphs built once more, of the lines that a graph module has."""

# FX says little of its types.
# pyright: reportUnknownMemberType=false

from attrs import evolve, frozen
from torch.fx import GraphModule

from wrapperir.diagnostics import DiagnosticError, Severity
from wrapperir.ir.line import BodyLine
from wrapperir.ir.program import Program
from wrapperir.verify import verify
from wrapperir_fx.attributes import GraphParts
from wrapperir_fx.graph_builder import build_graph
from wrapperir_fx.nodes import LINES


@frozen(eq=False)
class Rebuilt:
    """The program that the lines of a module are, and the graph that is built of it."""

    program: Program
    parts: GraphParts


def rebuild(module: GraphModule) -> Rebuilt | None:
    """Build a graph of the lines of a module; ``None`` if they are no program.

    The module's own graph may be another, where it was changed.
    """
    header = header_of(module)
    if header is None:
        return None
    lines: list[BodyLine] = []
    for node in module.graph.nodes:
        lines.extend(node.meta.get(LINES, ()))
    program = evolve(header, lines=tuple(lines))
    if any(found.severity is Severity.ERROR for found in verify(program)):
        return None
    try:
        return Rebuilt(program, build_graph(program))
    except DiagnosticError:
        return None


def header_of(module: GraphModule) -> Program | None:
    """Return the program that a graph was built of, without its lines, if it has one."""
    header = module.meta.get(LINES)
    return header if isinstance(header, Program) else None
