"""The graph nodes that a kernel computes, found by values instead of what is recorded.

A graph runs node by node, and its program line by line.  A node whose value is in memory
that a kernel reads is not computed there; one whose value the kernel writes is.  So the
nodes between them are those that the kernel computes, whatever any compiler noted.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import torch
from attrs import define, field, frozen

from bench.demo.recording import Recorded, copied
from wrapperir.diagnostics import LinePath
from wrapperir.frontend.provenance import TracedOrigins
from wrapperir.interp import Interpreter, LineNames
from wrapperir.ir import (
    Access,
    BufferRef,
    KernelCallLine,
    KernelDefinitionLine,
    Program,
    TensorParameter,
    runtime_parameters,
)

Nodes = frozenset[torch.fx.Node]

_SIZE_ONLY = ("empty_like", "full_like", "new_", "rand_like", "randn_like", "zeros_like")
"""Operators whose tensors only tell a size, by how their names begin."""


@frozen(eq=False)
class TracedGraph:
    """The graph of a program, and the names of its nodes as origins."""

    graph: torch.fx.Graph
    module: torch.fx.GraphModule
    names: Mapping[torch.fx.Node, str]

    def name(self, node: torch.fx.Node) -> str:
        return self.names.get(node, node.name)


class GraphRecorder:
    """Keeps the graph of each program that is lowered while it is entered."""

    def __init__(self) -> None:
        self.graphs: list[TracedGraph] = []

    def __enter__(self) -> "GraphRecorder":
        listed = TracedOrigins.listed

        def record(origins: TracedOrigins, program: Program) -> Program:
            graph = next(iter(origins._graphs))
            names = dict(origins._names)
            self.graphs.append(TracedGraph(graph, graph.owning_module, names))
            return listed(origins, program)

        self._patch = mock.patch.object(TracedOrigins, "listed", record)
        self._patch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.stop()


@frozen
class KernelNodes:
    """What a kernel call says that it computes, and what it must and may say.

    ``exact``: these differ only by nodes that pass a value on, and by constants.
    """

    kernel: str
    said: frozenset[str]
    required: frozenset[str]
    allowed: frozenset[str]
    exact: bool

    @property
    def missing(self) -> list[str]:
        """The nodes that the kernel computes and does not name."""
        return sorted(self.required - self.said)

    @property
    def wrong(self) -> list[str]:
        """The nodes that the kernel names and does not compute."""
        return sorted(self.said - self.allowed)


def kernel_nodes(recorded: Recorded, traced: TracedGraph) -> list[KernelNodes]:
    """Return what each kernel call of a program computes, its blocks left out."""
    assert recorded.inputs is not None
    reader = _KernelReader(recorded.program, traced, _NodeValues.of(recorded, traced))
    constants = {key: value.clone() for key, value in recorded.constants.items()}
    inputs = list(map(copied, recorded.inputs))
    Interpreter(recorded.program, constants).run(inputs, reader.after_line)
    return reader.found


class _Recording(torch.fx.Interpreter):
    """Runs a graph and keeps a copy of the tensor that each node returns."""

    def __init__(self, traced: TracedGraph) -> None:
        super().__init__(traced.module, graph=traced.graph)
        self.values: dict[torch.fx.Node, torch.Tensor] = {}
        self.tensors: dict[torch.fx.Node, torch.Tensor] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        result: Any = super().run_node(n)
        if _has_elements(result):
            self.values[n] = _sorted(result)
            self.tensors[n] = result.detach().clone()
        return result


def _has_elements(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() > 0 and not value.is_complex()


def _sorted(tensor: torch.Tensor) -> torch.Tensor:
    """Return the elements in order: the same for all views of all elements."""
    return tensor.detach().double().flatten().sort().values


def _same(one: torch.Tensor, two: torch.Tensor) -> bool:
    finite = two[two.isfinite()]
    scale = float(finite.abs().max()) if len(finite) else 0.0
    return torch.allclose(one, two, rtol=1e-4, atol=2e-6 * scale, equal_nan=True)


@define(eq=False)
class _NodeValues:
    """The sorted elements of the nodes of a graph, and their tensors."""

    _values: Mapping[torch.fx.Node, torch.Tensor]
    _tensors: Mapping[torch.fx.Node, torch.Tensor]

    @classmethod
    def of(cls, recorded: Recorded, traced: TracedGraph) -> "_NodeValues":
        recording = _Recording(traced)
        with torch.no_grad():
            recording.run(*map(copied, recorded.inputs or ()))
        return cls(recording.values, recording.tensors)

    def nodes_of(self, tensor: torch.Tensor) -> list[torch.fx.Node]:
        """Return the nodes whose value a tensor is, whatever its layout."""
        if not _has_elements(tensor):
            return []
        wanted = _sorted(tensor)
        return [
            node
            for node, own in self._values.items()
            if len(own) == len(wanted) and _same(own, wanted)
        ]

    def is_laid_out_as(self, node: torch.fx.Node, tensor: torch.Tensor) -> bool:
        """Say whether a tensor is the value of a node without any view."""
        own = self._tensors[node]
        return own.shape == tensor.shape and _same(own.double(), tensor.double())

    def passes_on(self, node: torch.fx.Node) -> bool:
        """Say whether a node is a view, or returns the elements that it is given."""
        if _is_view(node):
            return True
        values = [self._values.get(each) for each in (node, *node.all_input_nodes[:1])]
        one, *given = values
        return any(
            one is not None and two is not None and len(one) == len(two) and _same(one, two)
            for two in given
        )

    def users(self, nodes: Iterable[torch.fx.Node]) -> Nodes:
        """Return what uses the elements of nodes."""
        found: set[torch.fx.Node] = set()
        waiting = list(nodes)
        while waiting:
            new = [user for user in waiting.pop().users if user not in found]
            found.update(new)
            waiting += filter(self.passes_on, new)
        return frozenset(found)


def _is_view(node: torch.fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target.is_view


def _views_between(node: torch.fx.Node, given: Nodes) -> set[torch.fx.Node]:
    """Return the views of given nodes that a node uses."""
    found: set[torch.fx.Node] = set()
    for source in node.all_input_nodes:
        views = []
        while _is_view(source):
            views.append(source)
            source = source.all_input_nodes[0]
        if source in given:
            found.update(views)
    return found


def _between(
    results: Iterable[torch.fx.Node], given: Nodes, as_they_are: Nodes = frozenset()
) -> Nodes:
    """Return what results are computed by from given nodes.

    Views of given nodes are included, unless they are in memory ``as_they_are``.
    """
    found: set[torch.fx.Node] = set()
    waiting = list(results)
    while waiting:
        node = waiting.pop()
        is_computed = not _is_view(node) and bool(node.all_input_nodes)
        is_stop = (node in given and is_computed) or node in as_they_are
        if node not in found and node.op == "call_function" and not is_stop:
            found.add(node)
            if not getattr(node.target, "__name__", "").startswith(_SIZE_ONLY):
                waiting += node.all_input_nodes
    return frozenset(x for x in found if getattr(x.target, "__name__", "") != "getitem")


@define(eq=False)
class _KernelReader:
    """Looks at what kernel calls read and write while a program runs."""

    program: Program
    traced: TracedGraph
    values: _NodeValues
    found: list[KernelNodes] = field(factory=list)
    _read: dict[str, list[torch.fx.Node]] = field(factory=dict)
    _as_they_are: Nodes = frozenset()
    _partial: dict[str, Nodes] = field(factory=dict)
    """What the memory belongs to that has no node's value, such as sums to be divided."""

    def after_line(self, path: LinePath, names: LineNames) -> None:
        if len(path) not in (0, 2) or (path and path[0] != "lines"):
            return
        index = int(path[1]) if path else -1
        lines = self.program.lines
        if index >= 0 and isinstance(line := lines[index], KernelCallLine):
            self.found.append(self._nodes_of(line, names))
        if isinstance(line := lines[min(index + 1, len(lines) - 1)], KernelCallLine):
            self._read = {
                name: self._matches(name, names)
                for name, access in self._buffers(line)
                if access.reads
            }
            self._as_they_are = frozenset(
                node
                for name, nodes in self._read.items()
                for node in nodes
                if self.values.is_laid_out_as(node, self._tensor(name, names))
            )

    def _buffers(self, line: KernelCallLine) -> Iterator[tuple[str, Access]]:
        (definition,) = [d for d in self.program.definitions if d.name == line.kernel]
        assert isinstance(definition, KernelDefinitionLine)
        parameters = runtime_parameters(definition.parameters)
        for parameter, argument in zip(parameters, line.arguments, strict=True):
            if isinstance(parameter, TensorParameter) and isinstance(argument, BufferRef):
                yield argument.name, parameter.access

    def _matches(self, name: str, names: LineNames) -> list[torch.fx.Node]:
        return self.values.nodes_of(self._tensor(name, names))

    def _tensor(self, name: str, names: LineNames) -> torch.Tensor:
        seen = names.value(name)
        assert seen is not None
        assert isinstance(seen.value, torch.Tensor)
        return seen.value

    def _makers(self, groups: Iterable[Sequence[torch.fx.Node]]) -> Nodes:
        """Return the node that makes the value of each group, unless several do."""
        makers = [
            [node for node in nodes if not {*node.all_input_nodes[:1]}.intersection(nodes)]
            for nodes in groups
        ]
        return frozenset(found[0] for found in makers if len(found) == 1)

    def _nodes_of(self, line: KernelCallLine, names: LineNames) -> KernelNodes:
        said = line.provenance.origins if line.provenance is not None else ()
        own = frozenset(x for x in self.traced.graph.nodes if self.traced.name(x) in said)
        written = {
            name: self._matches(name, names)
            for name, access in self._buffers(line)
            if access.writes
        }
        unknown = [name for name, nodes in written.items() if not nodes]
        self._partial.update(dict.fromkeys(unknown, own))
        unread = [
            self._partial.get(name, Nodes())
            for name, nodes in self._read.items()
            if not nodes
        ]
        partial = Nodes().union(*unread)
        given = Nodes(node for nodes in self._read.values() for node in nodes)
        results = [node for nodes in written.values() for node in nodes]
        made = self._makers(written.values())
        required = _between(made, given | partial, self._as_they_are) - partial
        allowed = _between(
            [*results, *(own if unknown else ())], self._makers(self._read.values())
        )
        users = self.values.users(results)
        joining = {node for node in users if node.target is torch.ops.aten.cat.default}
        allowed |= joining
        if all(_is_view(node) or not node.all_input_nodes for node in required):
            # What only copies or fills is named after what is copied, or its users.
            views = {node: _views_between(node, given) for node in users}
            allowed = allowed.union(results, users, *views.values())
            required = required.union(*(views[node] for node in (users - joining) & own))
        unclear = {x for x in allowed - required if x.all_input_nodes}
        return KernelNodes(
            kernel=line.kernel,
            said=frozenset(said),
            required=frozenset(map(self.traced.name, required)),
            allowed=frozenset(map(self.traced.name, allowed)),
            exact=not unknown and not unread and all(map(self.values.passes_on, unclear)),
        )
