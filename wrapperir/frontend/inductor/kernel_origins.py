"""The nodes of a traced graph that a kernel or call of Inductor's computes.

Inductor notes as origins of a buffer what it was lowering and all that was not in memory
then.  So a buffer that is copied for a call has the call's other arguments among its
origins, and a call those nodes whose result it then puts in memory.
"""

import contextlib
import operator
from collections.abc import Callable, Generator, Iterable, Set
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.codegen.cpp import CppScheduling
from torch._inductor.codegen.triton import TritonScheduling
from torch._inductor.virtualized import V

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


_PATCHES = [
    SharedPatch(kind, "codegen_comment", _noting)
    for kind in (CppScheduling, TritonScheduling)
]


@contextlib.contextmanager
def kernels_noted() -> Generator[None]:
    """Have Inductor say what a kernel computes before it calls the kernel.

    It would write a comment then, which takes longer.
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


def contributing_nodes(graph: Any, parts: Iterable[Any]) -> list[torch.fx.Node]:
    """Return the nodes that a kernel computes of ``graph``, what it returns first.

    These are the origins of its ``parts`` that lead to what it writes and are computed
    from what it reads alone.
    """
    parts = [part for part in parts if isinstance(part, ir.IRNode)]
    origins = {origin for part in parts for origin in _origins(part)}
    read = {name for part in parts for name in _read(part)}
    read -= {name for part in parts for name in _written(part)}
    given = {node for name in read for node in _results(graph.name_to_buffer.get(name))}
    found = dict.fromkeys(
        node for part in parts for node in _results(part) if node in origins
    )
    known = _computed(origins, read, given)
    waiting = list(found)
    while waiting:
        for source in _sources(waiting.pop()):
            if source in known and source not in found:
                found[source] = None
                waiting.append(source)
    return list(found) or [origin for part in parts for origin in _origins(part)]


def _origins(part: Any) -> list[torch.fx.Node]:
    origins: Iterable[torch.fx.Node] = getattr(part, "origins", ())
    return [origin for origin in origins if origin.op == "call_function"]


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


def _computed(
    origins: Set[torch.fx.Node], read: Set[str], given: Set[torch.fx.Node]
) -> set[torch.fx.Node]:
    """Return what is computed from what is read, without what is given.

    These are origins, and views between them: Inductor notes no view that changes nothing.
    """
    known = dict.fromkeys(given, True)
    waiting = [origin for origin in origins if origin not in given]
    while waiting:
        node = waiting[-1]
        sources = [] if node in known else _sources(node)
        passed = [each for each in sources if each in origins or _is_view(each)]
        unknown = [each for each in passed if each not in known]
        waiting += unknown
        if not unknown:
            waiting.pop()
            known.setdefault(node, all(known.get(x, _is_at_hand(x, read)) for x in sources))
    return {node for node, is_known in known.items() if is_known and node not in given}


def _is_view(node: torch.fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target.is_view


def _is_at_hand(node: torch.fx.Node, read: Set[str]) -> bool:
    """Say whether a kernel may use a node that is not computed."""
    if node.op == "get_attr" or isinstance(node.meta.get("val"), SCALARS):
        return True
    return node.op == "placeholder" and str(node.target) in read
