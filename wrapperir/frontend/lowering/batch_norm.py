"""Rules of batch norm, in training and inference, and of its gradient."""

import operator
from collections.abc import Sequence
from typing import Any

import torch

from wrapperir.frontend.lowering.elementwise import number_operand
from wrapperir.frontend.lowering.nest_builder import NestBuilder
from wrapperir.frontend.lowering.normalization import (
    Normalization,
    Normalized,
    kept_statistics,
    write_elements,
    write_statistics,
)
from wrapperir.frontend.lowering.norms import optional
from wrapperir.frontend.lowering.reduction_space import arguments
from wrapperir.frontend.lowering.rules import NotLoweredError, rule
from wrapperir.frontend.lowering.scope import LoopScope
from wrapperir.frontend.lowering.values import IndexedTensor, NodeValue
from wrapperir.frontend.lowering.variance import divided
from wrapperir.ir import Expr
from wrapperir.lowering.scalar_op import ReduceOp
from wrapperir.lowering.scalar_op import ScalarOp as Op

aten: Any = torch.ops.aten


def _channels(tensor: IndexedTensor) -> Normalization:
    """Return the norm over all dimensions but the second."""
    if len(tensor.size) < 2:
        raise NotLoweredError("a tensor without channels")
    dims = [dim for dim in range(len(tensor.size)) if dim != 1]
    return Normalization(tensor.size, tuple(dims), (1,))


@rule(
    aten._native_batch_norm_legit_functional.default,
    aten._native_batch_norm_legit.no_stats,
)
def _batch_norm(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    given = arguments(node)
    if not given["training"]:
        raise NotLoweredError("batch norm that reads running statistics")
    tensor = scope.tensor(given["input"])
    norm = _channels(tensor)
    names = ("", "_mean", "_rstd", "_running_mean", "_running_var")
    result, mean, deviation, *running = [
        scope.allocate(f"{node.name}{name}", example)
        for name, example in zip(names, node.meta["val"], strict=False)
    ]
    kept = kept_statistics(scope, tensor, (mean, deviation))
    tensors = Normalized(
        norm=norm,
        input=tensor,
        weight=optional(scope, given["weight"]),
        bias=optional(scope, given["bias"]),
        mean=kept[0],
        deviation=kept[1],
    )
    builder = norm.space.builder()
    epsilon = scope.expr(given["eps"])
    middle, squares = write_statistics(builder, tensors, epsilon, (mean, deviation))
    if running:
        variance = divided(builder, squares, norm.space.count, 1)
        factor = scope.expr(given["momentum"])
        for name, new, target in zip(
            ("running_mean", "running_var"), (middle, variance), running, strict=True
        ):
            old = builder.load(scope.tensor(given[name]), builder.point)
            builder.store(target, builder.point, _moved(builder, old, new, factor))
    scope.add_nest(builder, f"{node.name}_mean")
    builder = NestBuilder(norm.size)
    write_elements(builder, tensors, result)
    scope.add_nest(builder, node.name)
    return result, mean, deviation, *running


def _moved(builder: NestBuilder, old: str, new: str, factor: Expr) -> str:
    """Return ``factor * new + (1 - factor) * old``."""
    dtype = builder.dtype(new)
    share = number_operand(builder, factor, dtype)
    rest = builder.apply(Op.SUB, number_operand(builder, 1, dtype), share)
    return builder.apply(
        Op.ADD,
        builder.apply(Op.MUL, share, new),
        builder.apply(Op.MUL, rest, builder.cast(old, dtype)),
    )


@rule(aten._native_batch_norm_legit_no_training.default)
def _batch_norm_inference(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    """Lower to one nest of elements: the statistics are given."""
    given = arguments(node)
    tensor = scope.tensor(given["input"])
    norm = _channels(tensor)
    examples = node.meta["val"]
    # On the CPU the statistics that are returned have no elements, and rarely a use.
    is_only_result = all(
        user.target is operator.getitem and user.args[1] == 0 for user in node.users
    )
    if examples[1].numel() != 0 and not is_only_result:
        raise NotLoweredError("batch norm that returns the statistics that it is given")
    result = scope.allocate(node.name, examples[0])
    builder = NestBuilder(tensor.size)
    tensors = _with_running(scope, node, norm)
    point = builder.point
    place = norm.statistic(point)
    mean = tensors.load(builder, tensors.mean, place)
    scale = _running_deviation(builder, tensors, point, scope.expr(given["eps"]))
    scale = tensors.weighted(builder, scale, point)
    value = tensors.normal(builder, point, mean, scale)
    builder.store(result, point, tensors.biased(builder, value, point))
    scope.add_nest(builder, node.name)
    if is_only_result:
        return result, None, None
    return result, *(_empty(scope, node, example) for example in examples[1:])


def _empty(scope: LoopScope, node: torch.fx.Node, example: torch.Tensor) -> IndexedTensor:
    """Return a tensor of no elements."""
    result = scope.allocate(f"{node.name}_empty", example)
    builder = NestBuilder(result.size)
    builder.store(result, builder.point, builder.literal(0, result.dtype))
    scope.add_nest(builder, node.name)
    return result


def _with_running(scope: LoopScope, node: torch.fx.Node, norm: Normalization) -> Normalized:
    """Return the tensors of a norm with running statistics; the deviation is a variance."""
    given = arguments(node)
    return Normalized(
        norm=norm,
        input=scope.tensor(given["input"]),
        weight=optional(scope, given["weight"]),
        bias=optional(scope, given.get("bias")),
        mean=scope.tensor(given["running_mean"]),
        deviation=scope.tensor(given["running_var"]),
    )


def _running_deviation(
    builder: NestBuilder, tensors: Normalized, point: Sequence[Expr], epsilon: Expr
) -> str:
    """Return ``1 / sqrt(variance + epsilon)``."""
    variance = tensors.load(builder, tensors.deviation, tensors.norm.statistic(point))
    small = number_operand(builder, epsilon, tensors.dtype)
    return builder.apply(Op.RSQRT, builder.apply(Op.ADD, variance, small))


@rule(aten.native_batch_norm_backward.default)
def _batch_norm_backward(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    """Lower to one nest, whose loops reduce and then write the input's gradient.

    In training, for normal values ``n`` and deviation ``d``, the gradient of the input is
    ``d * weight * (g - mean(g) - n * mean(g * n))``.
    """
    given = arguments(node)
    gradient = scope.tensor(given["grad_out"])
    norm = _channels(gradient)
    if given["train"]:
        tensors = Normalized(
            norm=norm,
            input=scope.tensor(given["input"]),
            weight=optional(scope, given["weight"]),
            mean=scope.tensor(given["save_mean"]),
            deviation=scope.tensor(given["save_invstd"]),
        )
    else:
        tensors = _with_running(scope, node, norm)
    results = [
        None if example is None else scope.allocate(f"{node.name}_{place}", example)
        for place, example in enumerate(node.meta["val"])
    ]
    builder = norm.space.builder()
    first = norm.space.point(builder.point, [0] * len(norm.dims))
    mean = tensors.load(builder, tensors.mean, builder.point)
    if given["train"]:
        deviation = tensors.load(builder, tensors.deviation, builder.point)
    else:
        deviation = _running_deviation(builder, tensors, first, scope.expr(given["eps"]))
    with builder.inner(norm.space.inner) as inner:
        point = norm.space.point(builder.point, inner)
        value = tensors.load(builder, gradient, point)
        normal = tensors.normal(builder, point, mean, deviation)
        (total,) = builder.reduce(ReduceOp.SUM, value)
        (product,) = builder.reduce(ReduceOp.SUM, builder.apply(Op.MUL, value, normal))
    for wanted, sum in zip(results[1:], (product, total), strict=True):
        if wanted is not None:
            builder.store(wanted, builder.point, sum)
    if results[0] is not None:
        scale = tensors.weighted(builder, deviation, first)
        count = number_operand(builder, norm.space.count, tensors.dtype)
        middle = builder.apply(Op.DIV, total, count)
        slope = builder.apply(Op.DIV, product, count)
        with builder.inner(norm.space.inner) as inner:
            point = norm.space.point(builder.point, inner)
            value = tensors.load(builder, gradient, point)
            if given["train"]:
                normal = tensors.normal(builder, point, mean, deviation)
                part = builder.apply(Op.MUL, normal, slope)
                value = builder.apply(Op.SUB, builder.apply(Op.SUB, value, middle), part)
            value = builder.apply(Op.MUL, value, scale)
            builder.store(results[0], point, value)
    scope.add_nest(builder, node.name)
    return tuple(results)
