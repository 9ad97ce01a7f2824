"""The nodes of a traced graph that a kernel or call of Inductor's computes.

Inductor notes as origins of a buffer what it was lowering and all that was not in memory
then.  So a buffer that is copied for a call has the call's other arguments among its
origins, and a call those nodes whose result it then puts in memory.
"""

import contextlib
import operator
from collections.abc import Callable, Generator, Iterable, Sequence, Set
from functools import cached_property
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.codegen.cpp import CppScheduling
from torch._inductor.codegen.triton import TritonScheduling
from torch._inductor.fx_passes import reinplace
from torch._inductor.virtualized import V
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from wrapperir.frontend.aten.values import SCALARS
from wrapperir.frontend.inductor.shared_patch import SharedPatch

_SHAPE_ONLY = ("empty_like", "full_like", "new_", "rand_like", "randn_like", "zeros_like")
"""Operators whose tensors only tell a size, by how their names begin."""


def _noting(stock: Callable[..., None]) -> Callable[..., None]:
    """Return a method that hands the nodes of a kernel to the wrapper that captures it."""

    def codegen_comment(scheduling: Any, nodes: Any, kernel_name: Any = None) -> None:
        wrapper: Any = V.graph.wrapper_code
        if hasattr(wrapper, "scheduled"):
            wrapper.scheduled = _scheduled_nodes(nodes)
        else:
            stock(scheduling, nodes, kernel_name)

    return codegen_comment


def _placing(stock: Callable[..., torch.fx.Node]) -> Callable[..., torch.fx.Node]:
    """Return a function that gives a new node the place of the one that it is put before.

    Inductor calls it to write a part of a value in place, and replaces the node that did.
    """

    def graph_call_function(
        graph: torch.fx.Graph, *arguments: object, **keywords: object
    ) -> torch.fx.Node:
        node = stock(graph, *arguments, **keywords)
        replaced = getattr(graph._insert, "__self__", None)
        if isinstance(replaced, torch.fx.Node):
            known = {key: replaced.meta[key] for key in _PLACES if key in replaced.meta}
            node.meta = known | node.meta
        return node

    return graph_call_function


_PLACES = ("stack_trace", "nn_module_stack", "fwd_nn_module_stack")
"""What a node knows of the module and the source that it came from."""

_PATCHES = [
    *(
        SharedPatch(kind, "codegen_comment", _noting)
        for kind in (CppScheduling, TritonScheduling)
    ),
    SharedPatch(reinplace, "graph_call_function", _placing),
]


@contextlib.contextmanager
def kernels_noted() -> Generator[None]:
    """Have Inductor say what a kernel computes before it calls the kernel.

    It would write a comment then, which takes longer.  Nodes that write a part of a value
    in place have the places of those that they replace.
    """
    with contextlib.ExitStack() as stack:
        for patch in _PATCHES:
            stack.enter_context(patch)
        yield


def _scheduled_nodes(schedule: Iterable[Any]) -> list[ir.IRNode]:
    """Return the buffers and operations of a kernel's schedule."""
    found: list[Any] = []
    for each in schedule:
        parts = each.get_nodes() if hasattr(each, "get_nodes") else ()
        found += [part.node for part in parts if part.node is not None]
    return found


class ComputedNodes:
    """The nodes of a graph that Inductor's kernels and calls compute.

    The graph is scheduled: all its buffers are known.
    """

    def __init__(self, graph: Any) -> None:
        """Look at a graph when a kernel of it is first asked for."""
        self._graph = graph

    def of(self, parts: Iterable[Any]) -> list[torch.fx.Node]:
        """Return the nodes that a kernel computes, what it returns first.

        These lead to what its ``parts`` write, and are computed from what they read alone.
        """
        parts = [part for part in parts if isinstance(part, ir.IRNode)]
        origins = {origin for part in parts for origin in _origins(part)}
        read = {name for part in parts for name in _read(part)}
        read -= {name for part in parts for name in _written(part)}
        buffers = map(self._graph.name_to_buffer.get, read)
        given = {node for buffer in buffers for node in _results(buffer)}
        results = [node for part in parts for node in _results(part) if node in origins]
        calls = (x for x in parts if isinstance(x, ir.ExternKernel))
        called = [node for part in calls for node in _results(part) if node in origins]
        found = dict.fromkeys([*called, *_joined_parts(parts), *results])
        sources = self._sources_of_results(found, parts)
        reachable = origins.union(*sources.values())
        known = self._computed(origins, reachable, read, given)
        waiting = list(found)
        while waiting:
            node = waiting.pop()
            for source in sources.get(node, _sources(node)):
                if source in known and source not in found:
                    found[source] = None
                    waiting.append(source)
        kept = self._without_users(list(found), parts)
        noted = kept or [origin for part in parts for origin in _origins(part)]
        return noted or self._users(parts)

    def _users(self, parts: list[Any]) -> list[torch.fx.Node]:
        """Return the calls that are given what a kernel writes.

        Inductor notes no origin of copies of a graph's inputs in the layout of a call.
        """
        written = {name for part in parts for name in _written(part)}
        calls = self._called_with.items()
        return [n for n, lists in calls if any(not written.isdisjoint(x) for x in lists)]

    @cached_property
    def _called_with(self) -> dict[torch.fx.Node, list[list[str]]]:
        """The names of the buffers that each call of an operator is given, by its node."""
        found: dict[torch.fx.Node, list[list[str]]] = {}
        for each in self._graph.operations:
            if isinstance(each, ir.ExternKernel):
                names = [x.get_name() for x in each.inputs if isinstance(x, ir.IRNode)]
                for node in _results(each):
                    found.setdefault(node, []).append(names)
        return found

    def _without_users(
        self, nodes: list[torch.fx.Node], parts: list[Any]
    ) -> list[torch.fx.Node]:
        """Return what a kernel computes without the calls that it lays results out for.

        What only copies for a call is named after it.
        """
        kept = [node for node in nodes if not self._is_user(node, parts)]
        return kept if any(not _is_view(node) for node in kept) else nodes

    def _is_user(self, node: torch.fx.Node, parts: list[Any]) -> bool:
        """Say whether a node is a call that is given what a kernel writes."""
        given = {name for names in self._called_with.get(node, ()) for name in names}
        return any(name in given for part in parts for name in _written(part))

    def _sources_of_results(
        self, results: Iterable[torch.fx.Node], parts: list[Any]
    ) -> dict[torch.fx.Node, list[torch.fx.Node]]:
        """Return the nodes that a kernel may compute results from.

        Of a call that is given what the kernel writes, the other arguments are left out.
        """
        found = {node: _sources(node) for node in results} | _joined_parts(parts)
        written = {name for part in parts for name in _written(part)}
        for node in found:
            tensors = _tensor_arguments(node)
            for names in self._called_with.get(node, ()):
                if not written.isdisjoint(names) and len(names) == len(tensors):
                    pairs = zip(names, tensors, strict=True)
                    found[node] = [tensor for name, tensor in pairs if name in written]
        return found

    def _computed(
        self,
        origins: Set[torch.fx.Node],
        reachable: Set[torch.fx.Node],
        read: Set[str],
        given: Set[torch.fx.Node],
    ) -> set[torch.fx.Node]:
        """Return the nodes that are computed from what is read, without what is given.

        Inductor does not note all that it computes behind views.
        """
        known = dict.fromkeys(given, True)
        waiting = [node for node in reachable if node not in given]
        while waiting:
            node = waiting[-1]
            if node in known:
                waiting.pop()
                continue
            is_called = node in self._called_with and node not in origins
            if is_called or node.op != "call_function":
                known[node] = _is_at_hand(node, read)
                continue
            sources = _sources(node)
            unknown = [each for each in sources if each not in known]
            waiting += unknown
            if not unknown:
                known[node] = all(known[x] or _is_at_hand(x, read) for x in sources)
        return {
            node
            for node, is_known in known.items()
            if is_known and node not in given and node.op == "call_function"
        }


def parts_of_values(
    parts: Sequence[Any], given: Set[str]
) -> list[tuple[list[Any], list[str]]]:
    """Return, for the values that a kernel puts in memory, the parts that compute them.

    ``given`` are the names of the kernel's arguments.  A part whose result is not put in
    memory is among the parts of the values that need it.  With the parts are the names of
    the buffers: values that are joined in one piece of memory are together.
    """
    makers = {name: part for part in parts for name in _written(part)}
    names_in: dict[str, list[str]] = {}
    for part in parts:
        for name in _written(part):
            if name in given:
                joined = _joined_in(part)
                memory = name if joined is None else joined.get_name()
                names_in.setdefault(memory, []).append(name)
    found: list[tuple[list[Any], list[str]]] = []
    for names in names_in.values():
        members = {id(makers[name]): makers[name] for name in names}
        waiting = [*members.values()]
        while waiting:
            read = _read(waiting.pop())
            used = [makers[name] for name in read if name in makers and name not in given]
            new = [part for part in used if id(part) not in members]
            members |= {id(part): part for part in new}
            waiting += new
        found.append(([part for part in parts if id(part) in members], names))
    return found


def _tensor_arguments(node: torch.fx.Node) -> list[torch.fx.Node]:
    """Return the arguments of a node that are tensors, in order, repeated ones too."""
    leaves = pytree.tree_leaves((node.args, node.kwargs))
    nodes = [each for each in leaves if isinstance(each, torch.fx.Node)]
    return [_whole(x) for x in nodes if isinstance(x.meta.get("val"), torch.Tensor)]


def _joined_parts(parts: Iterable[Any]) -> dict[torch.fx.Node, list[torch.fx.Node]]:
    """Return, for nodes that join tensors in memory, the tensors that parts put there.

    Each tensor is written by a buffer of its own, to which Inductor notes all of them.
    """
    found: dict[torch.fx.Node, list[torch.fx.Node]] = {}
    for part in parts:
        while (whole := _joined_in(part)) is not None:
            names = [x.get_name() for x in whole.inputs if isinstance(x, ir.IRNode)]
            for node in _results(whole):
                sources = found.setdefault(node, [])
                joined = node.args[0] if node.args else None
                if isinstance(joined, list | tuple) and len(joined) == len(names):
                    source = joined[names.index(part.get_name())]
                    assert isinstance(source, torch.fx.Node)
                    sources.append(_whole(source))
            part = whole
    return found


def _joined_in(part: Any) -> ir.ConcatKernel | None:
    """Return the buffer that a part writes a piece of, if it joins tensors."""
    whole: Any = getattr(getattr(part, "layout", None), "view", None)
    while hasattr(whole, "data"):
        whole = whole.data
    return whole if isinstance(whole, ir.ConcatKernel) else None


def _origins(part: Any) -> list[torch.fx.Node]:
    origins: Iterable[torch.fx.Node] = getattr(part, "origins", ())
    return [_whole(origin) for origin in origins if origin.op == "call_function"]


def _read(part: Any) -> list[str]:
    if not isinstance(part, ir.Operation):
        return []
    return [read.name for read in part.get_read_writes().reads]


def _written(part: Any) -> list[str]:
    outputs = part.get_outputs() if isinstance(part, ir.Operation) else ()
    return [output.get_name() for output in outputs]


def _results(part: Any) -> list[torch.fx.Node]:
    """Return the nodes whose results are in a buffer, as far as Inductor knows."""
    origins = _origins(part)
    exact = getattr(part, "origin_node", None)
    if exact is not None:
        exact = _whole(exact)
        if exact in origins or not origins:
            return [exact]
    used = {source for origin in origins for source in _sources(origin)}
    last = [origin for origin in origins if origin not in used]
    return last if exact is None else [*last, exact]


def _whole(node: torch.fx.Node) -> torch.fx.Node:
    """Return the node that computes an element of its result, for that element."""
    while node.target is operator.getitem:
        source = node.args[0]
        assert isinstance(source, torch.fx.Node)
        node = source
    return node


def _sources(node: torch.fx.Node) -> list[torch.fx.Node]:
    """Return the nodes whose values a node is computed from."""
    name = getattr(node.target, "__name__", "")
    return [] if name.startswith(_SHAPE_ONLY) else [*map(_whole, node.all_input_nodes)]


def _is_view(node: torch.fx.Node) -> bool:
    """Say whether a node is a view of what it is given."""
    return isinstance(node.target, OpOverload) and node.target.is_view


def _is_at_hand(node: torch.fx.Node, read: Set[str]) -> bool:
    """Say whether a kernel may use a node that is not computed."""
    if node.op == "get_attr" or isinstance(node.meta.get("val"), SCALARS):
        return True
    return node.op == "placeholder" and str(node.target) in read
