"""The program in a graph's metadata: lines at nodes, the rest at the module."""

# FX says little of its types.
# pyright: reportUnknownMemberType=false

from attrs import evolve
from torch.fx import GraphModule

from wrapperir.diagnostics import Severity
from wrapperir.ir import BodyLine, Program
from wrapperir.verify import verify

LINES = "wrapperir"
"""Key of ``node.meta``: the lines whose first node this is.

In ``meta`` of the graph's module it has the program without its lines.
"""
PROVENANCE = "provenance"
"""Key of ``node.meta``: where the node's line came from."""


def header_of(module: GraphModule) -> Program | None:
    """Return the program that a graph was built of, without its lines, if it has one."""
    header = module.meta.get(LINES)
    return header if isinstance(header, Program) else None


def recorded_program(module: GraphModule) -> Program | None:
    """Return the program in a graph's metadata; ``None`` if it is not a valid one.

    The graph may be that of another program, where it was changed.
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
    return program
