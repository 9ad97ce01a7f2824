"""The cut of a training graph into forward and backward, so that little is saved."""

import math
from collections.abc import Sequence
from functools import partial
from itertools import starmap
from typing import Any

import torch
from attrs import frozen
from torch import Tensor

from wrapperir.frontend.aten.saved_draws import cut_saving_draws
from wrapperir.frontend.lowering.decompositions import append_function
from wrapperir.frontend.lowering.pool_windows import FixedWindow
from wrapperir.frontend.lowering.pooling import fixed_windows
from wrapperir.frontend.lowering.reduction_space import arguments

aten: Any = torch.ops.aten

_SHAPE_ONLY: tuple[Any, ...] = tuple(
    getattr(aten, f"{name}{rank}d{kind}_backward").default
    for rank in (2, 3)
    for name, kind in (
        *(("max_pool", "_with_indices"), ("avg_pool", "")),
        *(("adaptive_max_pool", ""), ("_adaptive_avg_pool", "")),
    )
)
"""Gradients that read the shape of what was pooled, their second argument, alone."""

_MOST_OFFSETS = 128
"""Elements of a window whose numbers fit one byte."""


def partition(
    joint: torch.fx.GraphModule, inputs: Sequence[Any], **settings: Any
) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
    """Return the forward and the backward graph of a joint graph.

    What is saved between them is PyTorch's choice, of the fewest bytes.
    """
    _skip_aliases(joint.graph)
    for target in _SHAPE_ONLY:
        for node in joint.graph.find_nodes(op="call_function", target=target):
            _give_shape_only(joint.graph, node)
    for rank in (2, 3):
        pool = getattr(aten, f"max_pool{rank}d_with_indices")
        for node in joint.graph.find_nodes(op="call_function", target=pool.default):
            _save_offsets(joint.graph, node, rank)
    return cut_saving_draws(joint, inputs, **settings)


def _skip_aliases(graph: torch.fx.Graph) -> None:
    """Use tensors in place of their aliases, which would be saved beside them."""
    for node in graph.find_nodes(op="call_function", target=aten.alias.default):
        (source,) = node.all_input_nodes
        for user in list(node.users):
            if user.op != "output":
                user.replace_input_with(node, source)
        if not node.users:
            graph.erase_node(node)


def _give_shape_only(graph: torch.fx.Graph, gradient: torch.fx.Node) -> None:
    """Give a gradient zeros in place of the source, of which it reads no element.

    The source would be saved for it.  Loops do not read the zeros either, and so they are
    not computed.
    """
    source = gradient.args[1]
    assert isinstance(source, torch.fx.Node)
    example: Any = source.meta["val"]
    if not all(isinstance(extent, int) for extent in example.shape):
        return
    with graph.inserting_before(gradient):
        zeros = append_function(graph, lambda: example.new_zeros(example.shape))
    gradient.replace_input_with(source, zeros)


def _save_offsets(graph: torch.fx.Graph, pool: torch.fx.Node, rank: int) -> None:
    """Compute a gradient's positions in the source from offsets in windows, of one byte.

    ::

        %at = pool(%x)[1] : i64            %at = pool(%x)[1]
        gradient(%g, %x, …, %at)      →    %offset = … %at … : i8
                                           %again = … %offset … : i64
                                           gradient(%g, %x, …, %again)
    """
    dims = _dimensions(pool, rank)
    if not dims or math.prod(each.window.kernel for each in dims) > _MOST_OFFSETS:
        return
    gradient = getattr(aten, f"max_pool{rank}d_with_indices_backward").default
    for index in list(pool.users):
        users = [user for user in index.users if user.target is gradient]
        if index.args[1] != 1 or not users:
            continue
        with graph.inserting_before(users[0]):
            offset = append_function(graph, partial(_offsets, dimensions=dims), index)
            again = append_function(graph, partial(_positions, dimensions=dims), offset)
        for user in users:
            user.replace_input_with(index, again)


@frozen
class _Dimension:
    """The windows along one dimension, and the extents of the source and of the results."""

    window: FixedWindow
    source: int
    results: int

    def starts(self, following: int, device: torch.device) -> Tensor:
        """Return where windows begin, as a tensor with ``following`` dimensions more."""
        number = torch.arange(self.results, dtype=torch.int32, device=device)
        number = number.view(-1, *[1] * following)
        return number * self.window.stride - self.window.padding


def _dimensions(pool: torch.fx.Node, rank: int) -> Sequence[_Dimension]:
    """Return the dimensions of a pooling; none if sizes are symbols."""
    given = arguments(pool)
    source: torch.Tensor = given["self"].meta["val"]
    sources, results = source.shape[-rank:], pool.meta["val"][0].shape[-rank:]
    if not all(isinstance(extent, int) for extent in (*sources, *results)):
        return ()
    windows = fixed_windows(given, sources, results)
    return tuple(starmap(_Dimension, zip(windows, sources, results, strict=True)))


def _offsets(index: Tensor, dimensions: Sequence[_Dimension]) -> Tensor:
    """Return the numbers of positions in their windows."""
    above = index.to(torch.int32)  # which is divided faster than i64
    total = torch.zeros_like(above)
    scale = 1
    for following, each in enumerate(reversed(dimensions)):
        position = above
        above = position.div(each.source, rounding_mode="floor")
        distance = position - above * each.source - each.starts(following, index.device)
        if each.window.dilation != 1:
            distance = distance.div(each.window.dilation, rounding_mode="floor")
        total = total + distance * scale
        scale *= each.window.kernel
    return total.to(torch.int8)


def _positions(offset: Tensor, dimensions: Sequence[_Dimension]) -> Tensor:
    """Return the positions in the source of numbers in windows."""
    above = offset.to(torch.int32)
    total = torch.zeros_like(above)
    scale = 1
    for following, each in enumerate(reversed(dimensions)):
        number = above
        above = number.div(each.window.kernel, rounding_mode="floor")
        distance = (number - above * each.window.kernel) * each.window.dilation
        total = total + (each.starts(following, offset.device) + distance) * scale
        scale *= each.source
    return total.to(torch.int64)
