"""Inputs with a negation pending, such as the imaginary part of a conjugated tensor."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from attrs import frozen

aten: Any = torch.ops.aten


@frozen
class NegatedInputs:
    """Inputs that PyTorch marks as negated, by position, and the results that they are."""

    positions: Sequence[int]
    returned: Sequence[tuple[int, int]]
    """Positions of results, each with that of the input that it is."""

    def around(self, call: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
        """Return the callable of the graph for that of its program.

        The program is given the tensors without their marks.
        """
        if not self.positions:
            return call

        def run(args: list[Any]) -> Any:
            marked = {position: args[position] for position in self.positions}
            for position, tensor in marked.items():
                args[position] = aten._neg_view(tensor)
            results = list(call(args))
            for result, given in self.returned:
                results[result] = marked[given]
            return tuple(results)

        return run


def negate_inputs(graph: torch.fx.Graph) -> NegatedInputs:
    """Have a graph negate the elements of inputs that PyTorch marks as negated.

    ::

        sin(%x)          =>   %y = neg(%x); sin(%y)
        copy_(%x, %z)    =>   copy_(%x, neg(%z))

    Kernels read and write the elements in memory and do not see the mark.  An input that
    the graph returns keeps it.  Complex inputs are left to the operators that take them.
    """
    places: dict[torch.fx.Node, int] = {}
    for place, node in enumerate(graph.find_nodes(op="placeholder")):
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.is_neg() and not value.is_complex():
            places[node] = place
            _negate(graph, node)
    results: Any = graph.output_node().args[0]
    returned = [
        (position, places[result])
        for position, result in enumerate(results)
        if isinstance(result, torch.fx.Node) and result in places
    ]
    return NegatedInputs(list(places.values()), returned)


def _negate(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    users = list(node.users)
    with graph.inserting_after(node):
        negated = graph.call_function(aten.neg.default, (node,))
    negated.meta["val"] = node.meta["val"]
    for user in users:
        if user.target is aten.copy_.default and user.args[0] is node:
            source: Any = user.args[1]
            with graph.inserting_before(user):
                written = graph.call_function(aten.neg.default, (source,))
            written.meta["val"] = source.meta["val"]
            user.update_arg(1, written)
        elif user.op != "output":
            user.replace_input_with(node, negated)
    if not negated.users:
        graph.erase_node(negated)
