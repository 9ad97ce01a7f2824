"""Backward passes of depthwise convolutions on a CPU: few pixels are given contiguously.

Eager gives them gradients and images with the channels last, where a model has such images.
That takes less time, but not with large kernels and few pixels: PyTorch's library then
takes up to 30 times as long as with contiguous ones, most of all from 32,768 weights on
(``python -m bench.lowering.depthwise``).
"""

import contextlib
import functools
import operator
from typing import Any

import torch
from torch._guards import detect_fake_mode

_BACKWARD: Any = torch.ops.aten.convolution_backward.default
_CLONE: Any = torch.ops.aten.clone.default
_LEAST_SIDE = 5
"""Of kernels; with smaller ones, channels last are faster for any images."""
_FEW, _MANY = 16, 1024
"""Pixels up to which contiguous images are faster, with few weights and with many."""
_MANY_WEIGHTS = 1 << 15


def lay_out_depthwise(graph: torch.fx.Graph) -> None:
    """Give backward passes of depthwise convolutions contiguous copies, where that pays.

    Their results are copied to the layout that they had, which other kernels do as they
    read them.
    """
    for node in graph.find_nodes(op="call_function", target=_BACKWARD):
        given: Any = node.args[:3]
        gradient, image, weight = (each.meta["val"] for each in given)
        if _is_depthwise(node, image, weight) and _pays(gradient, image, weight):
            _give_contiguous(graph, node)


def _is_depthwise(node: torch.fx.Node, image: torch.Tensor, weight: torch.Tensor) -> bool:
    is_transposed: object = node.args[7]
    groups: object = node.args[9]
    channels: object = image.shape[1]
    return is_transposed is False and weight.dim() == 4 and channels == groups


def _pays(gradient: torch.Tensor, image: torch.Tensor, weight: torch.Tensor) -> bool:
    sizes: list[object] = [*gradient.shape, *image.shape, *weight.shape]
    if image.device.type != "cpu" or not all(isinstance(size, int) for size in sizes):
        return False
    if image.dtype != torch.float32 or min(weight.shape[2:]) < _LEAST_SIDE:
        return False
    batch, _, height, width = image.shape
    most = _MANY if weight.numel() >= _MANY_WEIGHTS else _FEW
    return batch * height * width <= most and _has_channels_last(gradient, image)


def _has_channels_last(*images: torch.Tensor) -> bool:
    return any(
        not image.is_contiguous() and image.is_contiguous(memory_format=torch.channels_last)
        for image in images
    )


def _give_contiguous(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """Give contiguous copies, unless a result has a layout that no copy has."""
    given: Any = node.args
    examples: list[Any] = [
        each.meta["val"] if isinstance(each, torch.fx.Node) else each for each in given
    ]
    with detect_fake_mode(examples) or contextlib.nullcontext():
        images = [each.contiguous() for each in examples[:2]]
        found, wanted = _BACKWARD(*images, *examples[2:]), node.meta["val"]
    numbers: dict[torch.fx.Node, Any] = {user: user.args[1] for user in node.users}
    results = [(user, found[n], wanted[n]) for user, n in numbers.items()]
    if not all(_can_copy(own, before) for _, own, before in results):
        return
    for place in (0, 1):
        with graph.inserting_before(node):
            copy = _copy(graph, given[place], torch.contiguous_format, node)
        node.update_arg(place, copy)
    node.meta["val"] = found
    for result, own, before in results:
        result.meta["val"] = own
        if own is not None and own.stride() != before.stride():
            with graph.inserting_after(result):
                copy = _copy(graph, result, torch.channels_last, node)
            result.replace_all_uses_with(copy, functools.partial(operator.is_not, copy))


def _can_copy(own: torch.Tensor | None, before: torch.Tensor) -> bool:
    if own is None or own.stride() == before.stride():
        return True
    return own.clone(memory_format=torch.channels_last).stride() == before.stride()


def _copy(
    graph: torch.fx.Graph,
    node: torch.fx.Node,
    layout: torch.memory_format,
    origin: torch.fx.Node,
) -> torch.fx.Node:
    """Append a copy of a tensor in a layout, for another node."""
    copy = graph.call_function(_CLONE, (node,), {"memory_format": layout})
    copy.meta.update(origin.meta)
    copy.meta["val"] = node.meta["val"].clone(memory_format=layout)
    return copy
