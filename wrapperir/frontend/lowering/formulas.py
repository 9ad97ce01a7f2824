"""Decompositions of operators that make fewer kernels than PyTorch's own.

What is one number for many elements is broadcast before it is computed with, so that all of
the result is computed at one point each.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import get_computation_dtype
from torch.nn._reduction import get_enum

aten: Any = torch.ops.aten


def _along(tensor: Tensor, dim: int, rank: int) -> Tensor:
    """Return a vector that is broadcast to tensors of a rank, along one dimension."""
    return tensor.reshape([-1 if place == dim else 1 for place in range(rank)])


def _computed(tensor: Tensor) -> Tensor:
    """Return a tensor in the dtype that eager computes in."""
    return tensor.to(get_computation_dtype(tensor.dtype))


def _batch_norm_inference(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return a norm by statistics that are given, and two tensors without elements."""
    x, rank = _computed(input), input.dim()
    mean, variance = (_along(_computed(t), 1, rank) for t in (running_mean, running_var))
    y = (x - mean) * torch.rsqrt(variance.expand_as(x) + eps)
    if weight is not None:
        y = y * _along(weight, 1, rank)
    if bias is not None:
        y = y + _along(bias, 1, rank)
    empty = input.new_empty(0)
    return y.to(input.dtype), empty, empty


def _group_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    batch: int,
    channels: int,
    inner: int,
    groups: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    x = _computed(input).reshape(batch, groups, channels // groups, inner)
    variance, mean = torch.var_mean(x, dim=(2, 3), correction=0, keepdim=True)
    deviation = torch.rsqrt(variance + eps)
    y = ((x - mean) * deviation).reshape(input.shape)
    if weight is not None:
        y = y * _along(weight, 1, input.dim())
    if bias is not None:
        y = y + _along(bias, 1, input.dim())
    mean, deviation = (t.reshape(batch, groups).to(input.dtype) for t in (mean, deviation))
    return y.to(input.dtype), mean, deviation


def _group_norm_backward(
    gradient: Tensor,
    input: Tensor,
    mean: Tensor,
    deviation: Tensor,
    weight: Tensor | None,
    batch: int,
    channels: int,
    inner: int,
    groups: int,
    wanted: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    """Return the gradients of input, weight and bias.

    For normal values ``n``, deviation ``d`` and weighted gradients ``g``, that of the input
    is ``d * (g - mean(g) - n * mean(g * n))``.
    """
    shape = batch, groups, channels // groups, inner
    given, x = (_computed(each).reshape(shape) for each in (gradient, input))
    mean, d = (_computed(each).reshape(batch, groups, 1, 1) for each in (mean, deviation))
    n = (x - mean) * d
    g = given if weight is None else given * weight.reshape(1, *shape[1:3], 1)
    middle, slope = (t.mean((2, 3), keepdim=True) for t in (g, g * n))
    results = (
        (d * (g - middle - n * slope)).reshape(input.shape),
        (given * n).sum((0, 3)).reshape(channels),
        given.sum((0, 3)).reshape(channels),
    )
    return tuple(
        each.to(input.dtype) if is_wanted else None
        for each, is_wanted in zip(results, wanted, strict=True)
    )


def _nll_loss_backward(
    gradient: Tensor,
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignored: int,
    total_weight: Tensor,
) -> Tensor:
    """Return the gradient of a loss: only that of the target's class is not 0."""
    channel = min(input.dim() - 1, 1)
    target = target.unsqueeze(channel)
    classes = torch.arange(input.size(channel), device=input.device)
    is_target = (_along(classes, channel, input.dim()) == target) & (target != ignored)
    if gradient.dim():
        gradient = gradient.unsqueeze(channel)
    value = -_computed(gradient).expand_as(input)
    if weight is not None:
        value = value * _along(weight, channel, input.dim())
    if reduction == get_enum("mean"):
        value = value / total_weight
    return torch.where(is_target, value, 0).to(input.dtype)


FORMULAS: Mapping[Any, Callable[..., Any]] = {
    aten._native_batch_norm_legit_no_training.default: _batch_norm_inference,
    aten.native_group_norm.default: _group_norm,
    aten.native_group_norm_backward.default: _group_norm_backward,
    aten.nll_loss_backward.default: _nll_loss_backward,
    aten.nll_loss2d_backward.default: _nll_loss_backward,
}
