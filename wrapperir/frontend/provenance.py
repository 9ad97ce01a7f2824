"""Provenance of lines: graph nodes, operators, and places in the user's source."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch._ops import OperatorBase

import wrapperir
from wrapperir.ir import Provenance, SourceLocation

NodeProvenance: TypeAlias = dict[Any, tuple[str | None, SourceLocation | None]]
"""Operator and place of each node of the traced graph that was asked for."""

_FRAME = re.compile(r'File "([^"\n]+)", line (\d+)')
_WRAPPERIR, _TORCH = (
    str(Path(str(package.__file__)).parent / "_")[:-1] for package in (wrapperir, torch)
)


def user_location(stack_trace: object) -> SourceLocation | None:
    """Return the place of the innermost frame outside torch and this package.

    Without such a frame, as for a module of torch that is lowered by itself, it is the
    innermost frame in torch; ``None`` if there are no frames.
    """
    if not isinstance(stack_trace, str):
        return None
    in_torch: SourceLocation | None = None
    # The innermost frame is the last; traces run to many frames.
    at = len(stack_trace)
    while (at := stack_trace.rfind('File "', 0, at)) >= 0:
        frame = _FRAME.match(stack_trace, at)
        # Generated code has names such as <eval_with_key>.
        if frame is None or frame[1].startswith(("<", _WRAPPERIR)):
            continue
        location = SourceLocation(frame[1], int(frame[2]))
        if not frame[1].startswith(_TORCH):
            return location
        in_torch = in_torch or location
    return in_torch


def node_provenance(node: torch.fx.Node) -> Provenance:
    """Return the node's name, original operator and place in the user's source.

    The name is preceded by the path of the module it ran in, as in ``layers.0.fc/mm``.
    A node of the FX emitter has the provenance of its line.
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


def origins_provenance(origins: Iterable[Any], known: NodeProvenance) -> Provenance | None:
    """Return the provenance of a line that was made from these nodes of the traced graph.

    Operator and place come from the first node that has one.  For an operator call this is
    the node that was lowered; nodes that were fused into it come later.
    """
    nodes = [node for node in origins if node.op == "call_function"]
    if not nodes:
        return None
    facts = [known.get(node) or _find_facts(node, known) for node in nodes]
    return Provenance(
        nodes=tuple([node.name for node in nodes]),
        operator=next((operator for operator, _ in facts if operator), None),
        location=next((location for _, location in facts if location), None),
    )


def _find_facts(
    node: Any, known: NodeProvenance
) -> tuple[str | None, SourceLocation | None]:
    original = node.meta.get("original_aten")
    location = user_location(node.meta.get("stack_trace"))
    known[node] = facts = (None if original is None else str(original), location)
    return facts
