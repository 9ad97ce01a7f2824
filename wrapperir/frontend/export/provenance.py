"""Where a node came from, as data."""

import re

import torch

from wrapperir.ir.line import Provenance, SourceLocation

_FRAME = re.compile(r'File "([^"\n]+)", line (\d+), in ')


def provenance_of(node: torch.fx.Node) -> Provenance:
    """Return the node's name, original operator and place in the user's source.

    The name is preceded by the path of the module it ran in, as in ``layers.0.fc/mm``.
    """
    original = node.meta.get("original_aten")
    operator = original if original is not None else node.target
    return Provenance(
        nodes=(f"{path}/{node.name}" if (path := _module_path(node)) else node.name,),
        operator=str(operator) if node.op == "call_function" else None,
        location=_location(node.meta.get("stack_trace")),
    )


def _module_path(node: torch.fx.Node) -> str:
    stack = node.meta.get("nn_module_stack")
    if not stack:
        return ""
    path: object = list(stack.values())[-1][0]
    return path if isinstance(path, str) and not path.startswith("_empty_nn") else ""


def _location(stack_trace: object) -> SourceLocation | None:
    if not isinstance(stack_trace, str):
        return None
    frames = _FRAME.findall(stack_trace)
    return SourceLocation(frames[-1][0], int(frames[-1][1])) if frames else None
