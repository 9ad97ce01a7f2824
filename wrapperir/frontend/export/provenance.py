"""Where a node came from, as data."""

import torch
from torch._ops import OperatorBase

from wrapperir.frontend.source_places import user_location
from wrapperir.ir.line import Provenance


def provenance_of(node: torch.fx.Node) -> Provenance:
    """Return the node's name, original operator and place in the user's source.

    The name is preceded by the path of the module it ran in, as in ``layers.0.fc/mm``.
    A node that the FX emitter made came from where its line came from.
    """
    known = node.meta.get("provenance")
    if isinstance(known, Provenance):
        return known
    original = node.meta.get("original_aten")
    operator = original if original is not None else node.target
    return Provenance(
        nodes=(f"{path}/{node.name}" if (path := _module_path(node)) else node.name,),
        operator=str(operator) if isinstance(operator, OperatorBase) else None,
        location=user_location(node.meta.get("stack_trace")),
    )


def _module_path(node: torch.fx.Node) -> str:
    stack = node.meta.get("nn_module_stack")
    if not stack:
        return ""
    path: object = list(stack.values())[-1][0]
    return path if isinstance(path, str) and not path.startswith("_empty_nn") else ""
