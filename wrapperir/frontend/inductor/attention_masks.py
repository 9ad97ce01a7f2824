"""Masks of attention in the layout that fused kernels take."""

from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

_ATTENTION = (
    torch.nn.functional.scaled_dot_product_attention,
    torch.ops.aten.scaled_dot_product_attention.default,
)
_PLACE = 3
"""The position of the mask among the arguments of attention."""


def densify_masks(graph: torch.fx.GraphModule) -> None:
    """Give attention on CUDA a dense copy of each mask that repeats its last dimension.

    PyTorch's fused kernels refuse such a mask, which ``(i >= 0)[:, None].expand(n, n)``
    is, and PyTorch then computes products and their softmax one by one, in f32.  The copy
    has one element along other dimensions that repeat, but the last two.
    """
    for module in graph.modules():
        if isinstance(module, torch.fx.GraphModule):
            _densify(module)


def _densify(graph: torch.fx.GraphModule) -> None:
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    for target in _ATTENTION:
        for node in graph.graph.find_nodes(op="call_function", target=target):
            is_positional = len(node.args) > _PLACE
            mask = node.args[_PLACE] if is_positional else node.kwargs.get("attn_mask")
            if not isinstance(mask, torch.fx.Node):
                continue
            value = mask.meta.get("example_value", mask.meta.get("val"))
            if not isinstance(value, torch.Tensor) or not _is_refused(value):
                continue
            if mask not in copies:
                with graph.graph.inserting_after(mask):
                    copies[mask] = _dense(graph.graph, mask, value)
            if is_positional:
                node.update_arg(_PLACE, copies[mask])
            else:
                node.update_kwarg("attn_mask", copies[mask])
    if copies:
        graph.recompile()


def _is_refused(mask: torch.Tensor) -> bool:
    return mask.device.type == "cuda" and mask.dim() >= 2 and _repeats(mask, -1)


def _repeats(tensor: torch.Tensor, dim: int) -> bool:
    return statically_known_true(tensor.stride(dim) == 0)


def _dense(
    graph: torch.fx.Graph, mask: torch.fx.Node, value: torch.Tensor
) -> torch.fx.Node:
    """Append the copy of a mask."""
    calls: list[tuple[Any, tuple[int, ...]]] = [
        (torch.ops.aten.narrow.default, (dim, 0, 1))
        for dim in range(value.dim() - 2)
        if _repeats(value, dim)
    ]
    result = mask
    for function, arguments in (*calls, (torch.ops.aten.contiguous.default, ())):
        with graph.inserting_after(result):
            result = graph.call_function(function, (result, *arguments))
    return result
