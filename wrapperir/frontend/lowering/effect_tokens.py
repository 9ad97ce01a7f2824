"""Removal of effect tokens: calls with effects become calls of their operators."""

import operator
from typing import Any

import torch
from torch._ops import OpOverload

from wrapperir.operators import schema_of

HAS_EFFECTS = "has_effects"
"""Entry of ``meta`` of nodes that keep their order."""


def remove_effect_tokens(graph: torch.fx.Graph) -> None:
    """Replace calls of operators with effects, which AOTAutograd orders by tokens.

    ::

        %t0 = _make_token()
        %t1, %x = with_effects(%t0, op, %a)    →    %x = op(%a)
        _sink_tokens([%t1])
    """
    prims: Any = torch.ops.prims
    threading = [
        node
        for node in graph.find_nodes(
            op="call_function", target=torch.ops.higher_order.with_effects
        )
        if isinstance(node.args[1], OpOverload)
    ]
    for node in threading:
        _append_call(graph, node)
    for target in (prims._sink_tokens.default, prims._make_token.default):
        threading += graph.find_nodes(op="call_function", target=target)
    for node in reversed(list(graph.nodes)):
        is_token = node.target is operator.getitem and node.args[0] in threading
        if not node.users and (is_token or node in threading):
            graph.erase_node(node)


def _append_call(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """Call the operator of a node before it, and use the results of the call."""
    _, called, *arguments = node.args
    assert isinstance(called, OpOverload)
    with graph.inserting_before(node):
        call = graph.call_function(called, tuple(arguments), dict(node.kwargs))
    several = len(schema_of(called).results) > 1
    values = node.meta["val"][1:]
    call.meta = {**node.meta, "val": values if several else values[0], HAS_EFFECTS: True}
    for user in list(node.users):
        place: Any = user.args[1]
        if place > 0 and several:
            user.args = (call, place - 1)
        elif place > 0:
            user.replace_all_uses_with(call)
            graph.erase_node(user)
