"""The cut of a training graph with checkpoints: what is drawn there is saved.

PyTorch's own cut draws it again, with the generator's state of the first time.  It does so
by operators on other operators, which no line expresses.
"""

import operator
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils.checkpoint import CheckpointPolicy

from wrapperir.operators import given_arguments, schema_of

_RANDOM = torch.Tag.nondeterministic_seeded


def cut_saving_draws(
    joint: torch.fx.GraphModule, inputs: object, **settings: Any
) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
    """Return the forward and the backward graph of a joint graph, as PyTorch cuts it.

    What operators draw in checkpointed regions is saved.  Those that draw nothing, such as
    attention without dropout, run again there.
    """
    # Imported late: a graph that a cache has is not cut.
    from torch._functorch import partitioners

    again = [
        node
        for node in joint.graph.nodes
        if partitioners.must_recompute(node) and _RANDOM in getattr(node.target, "tags", ())
    ]
    drawing = list(filter(_draws, again))
    for node in drawing:
        for each in (node, *node.users):
            if each is node or each.target is operator.getitem:
                each.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    cut: Any = partitioners.min_cut_rematerialization_partition
    operators = _hide(set(again) - set(drawing))
    forward, backward = cut(joint, inputs, **settings)
    for module in (forward, backward) if operators else ():
        for node in module.graph.nodes:
            node.target = operators.get(node.target, node.target)
        module.recompile()
    return forward, backward


def _draws(node: torch.fx.Node) -> bool:
    """Say whether an operator draws numbers; attention without dropout does not."""
    target: Any = node.target
    schema = schema_of(target)
    if all(parameter.name != "dropout_p" for parameter in schema.parameters):
        return True
    given = given_arguments(schema, node.args, node.kwargs)
    return any(value != 0 for parameter, value in given if parameter.name == "dropout_p")


def _hide(nodes: Iterable[torch.fx.Node]) -> dict[Any, Any]:
    """Have nodes call functions without tags; return the operator of each function."""
    functions: dict[Any, Callable[..., Any]] = {}
    for node in nodes:
        target: Any = node.target
        if target not in functions:
            functions[target] = _function(target)
        node.target = functions[target]
    return {function: target for target, function in functions.items()}


def _function(target: Any) -> Callable[..., Any]:
    """Return a function that calls an operator."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return target(*args, **kwargs)

    vars(call)["overloadpacket"] = target.overloadpacket  # PyTorch's cut asks for it
    return call
