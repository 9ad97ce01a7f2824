"""Graphs of programs: attributes of their modules, and the program in their metadata."""

# FX says little of its types.
# pyright: reportUnknownMemberType=false

import keyword
from typing import Protocol, runtime_checkable

from attrs import define, evolve, field
from torch.fx import Graph, GraphModule

from wrapperir.diagnostics import Severity
from wrapperir.ir import BodyLine, Program, TensorType
from wrapperir.verify import verify

_MODULE = GraphModule({}, Graph())


@define(eq=False)
class Attributes:
    """Attributes of a graph's module, by name.

    ``constants`` has the key of each constant, ``workspaces`` the type of each zeroed
    workspace that is kept, ``graphs`` the nested graphs.
    """

    constants: dict[str, str] = field(factory=dict[str, str])
    workspaces: dict[str, TensorType] = field(factory=dict[str, TensorType])
    graphs: dict[str, "GraphParts"] = field(factory=dict[str, "GraphParts"])

    def bind(self, name: str, key: str) -> str:
        """Return the attribute of a constant."""
        attribute = self._free(name)
        self.constants[attribute] = key
        return attribute

    def keep(self, name: str, type: TensorType) -> str:
        """Return the attribute of a workspace that is kept from call to call."""
        attribute = self._free(name)
        self.workspaces[attribute] = type
        return attribute

    def nest(self, name: str, parts: "GraphParts") -> str:
        """Return the attribute of a nested graph."""
        attribute = self._free(name)
        self.graphs[attribute] = parts
        return attribute

    def _free(self, name: str) -> str:
        # Attributes of every module, such as ``training``, must not be hidden.
        while name.startswith("_") or self._is_taken(name):
            name = f"attribute_{name}" if name.startswith("_") else f"{name}_"
        return name

    def _is_taken(self, name: str) -> bool:
        own = name in self.constants or name in self.workspaces or name in self.graphs
        return own or hasattr(_MODULE, name) or keyword.iskeyword(name)


@define(eq=False)
class GraphParts:
    """A complete graph and the attributes that its module needs."""

    graph: Graph
    attributes: Attributes


@runtime_checkable
class GraphBuilder(Protocol):
    """An emitter that builds graphs in this dialect."""

    def build_graph(self, program: Program) -> GraphParts:
        """Return the graph of a verified program.

        Raises:
            DiagnosticError: a graph cannot express the program.
        """
        ...


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

    A graph that was changed since may be that of another program.
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
