"""Inputs with a negation or conjugation pending, which only PyTorch's operators see."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from attrs import frozen

aten: Any = torch.ops.aten


@frozen
class MarkedInputs:
    """Inputs that PyTorch marks, by position, and the results that they are.

    With each is the view that takes its mark away, or gives it one.
    """

    views: Mapping[int, Callable[[torch.Tensor], torch.Tensor]]
    returned: Sequence[tuple[int, int]]
    """Positions of results, each with that of the input that it is."""

    def around(self, call: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
        """Return the callable of the graph for that of its program.

        The program is given the tensors without their marks.
        """
        if not self.views:
            return call

        def run(args: list[Any]) -> Any:
            marked = {position: args[position] for position in self.views}
            for position, view in self.views.items():
                args[position] = view(marked[position])
            results = list(call(args))
            for result, given in self.returned:
                results[result] = marked[given]
            return tuple(results)

        return run


def mark_inputs(graph: torch.fx.Graph, *, conjugated: bool) -> MarkedInputs:
    """Have a graph do to inputs what PyTorch marks them with.

    ::

        sin(%x)          =>   %y = neg(%x); sin(%y)          where %x is negated
        copy_(%x, %z)    =>   copy_(%x, neg(%z))
        imag(%x)         =>   %y = _conj(%x); imag(%y)       where %x is conjugated

    Kernels read and write the elements in memory and do not see the mark, and emitted C++
    copies what has one.  An input that the graph returns keeps it.  Those that are
    ``conjugated`` are left to Inductor's own operators, if it compiles the graph.
    """
    views: dict[int, Callable[[torch.Tensor], torch.Tensor]] = {}
    places: dict[torch.fx.Node, int] = {}
    for place, node in enumerate(graph.find_nodes(op="placeholder")):
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            continue
        if conjugated and value.is_conj() and not value.is_neg():
            views[place] = aten._conj
            _mark(graph, node, aten._conj.default, aten.conj_physical.default)
        elif value.is_neg() and not value.is_complex():
            views[place] = aten._neg_view
            _mark(graph, node, aten.neg.default, aten.neg.default)
        else:
            continue
        places[node] = place
    results: Any = graph.output_node().args[0]
    returned = [
        (position, places[result])
        for position, result in enumerate(results)
        if isinstance(result, torch.fx.Node) and result in places
    ]
    return MarkedInputs(views, returned)


def _mark(graph: torch.fx.Graph, node: torch.fx.Node, read: Any, write: Any) -> None:
    """Apply an operator to an input where it is read, and another to what is written."""
    users = list(node.users)
    with graph.inserting_after(node):
        marked = graph.call_function(read, (node,))
    marked.meta["val"] = node.meta["val"]
    for user in users:
        if user.target is aten.copy_.default and user.args[0] is node:
            source: Any = user.args[1]
            with graph.inserting_before(user):
                written = graph.call_function(write, (source,))
            written.meta["val"] = source.meta["val"]
            user.update_arg(1, written)
        elif user.op != "output":
            user.replace_input_with(node, marked)
    if not marked.users:
        graph.erase_node(marked)
