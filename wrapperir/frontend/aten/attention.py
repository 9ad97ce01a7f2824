"""Attention on CUDA: masks that fused kernels take, and the kernel for few positions."""

from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

_ATTENTION = (
    torch.nn.functional.scaled_dot_product_attention,
    torch.ops.aten.scaled_dot_product_attention.default,
)
_PLACE = 3
"""The position of the mask among the arguments of attention."""

MOST_SHORT = 64
"""Positions up to which memory-efficient attention is faster than cuDNN's."""


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


_CUDNN: Any = torch.ops.aten._scaled_dot_product_cudnn_attention.default
_EFFICIENT: Any = torch.ops.aten._scaled_dot_product_efficient_attention.default


def shorten_attention(graph: torch.fx.Graph) -> None:
    """Have few positions attended by the memory-efficient kernel where no gradient follows.

    PyTorch chooses cuDNN's kernel on recent GPUs, which is slower for them, and fills a
    workspace before each call.
    """
    for node in graph.find_nodes(op="call_function", target=_CUDNN):
        sizes = [x.meta["val"].shape for x in node.args[:_PLACE]]
        if not _is_short(node, *sizes):
            continue
        mask = node.args[_PLACE]
        with graph.inserting_before(node):
            if mask is not None:
                size = [*sizes[0][:3], sizes[1][2]]
                value = mask.meta["val"].expand(size)
                mask = graph.call_function(torch.ops.aten.expand.default, (mask, size))
                mask.meta["val"] = value
            given = (*node.args[:_PLACE], mask, *node.args[_PLACE + 1 : _DEBUG])
            call = graph.call_function(_EFFICIENT, given, node.kwargs)
        call.meta.update(node.meta)
        values: list[Any] = [
            x.meta["val"] if isinstance(x, torch.fx.Node) else x for x in given
        ]
        with values[0].fake_mode:
            call.meta["val"] = _EFFICIENT(*values, **node.kwargs)
        node.replace_all_uses_with(call)
        graph.erase_node(node)


_LOG_SUM, _DROPOUT, _DEBUG = 4, 5, 7


def _is_short(
    node: torch.fx.Node, query: torch.Size, key: torch.Size, value: torch.Size
) -> bool:
    has_mask = node.args[_PLACE] is not None
    return (
        not any(node.args[_LOG_SUM : _DROPOUT + 1])
        and all(user.args[1:] == (0,) for user in node.users)
        and query[:2] == key[:2] == value[:2]
        and all(statically_known_true(size[2] <= MOST_SHORT) for size in (query, key))
        # Rows of the mask begin at aligned addresses.
        and not (has_mask and statically_known_true(key[2] % 8 != 0))
    )
