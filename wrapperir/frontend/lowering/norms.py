"""Rules of layer and group norms, and of their gradients."""

from collections.abc import Sequence
from typing import Any

import torch
from attrs import frozen

from wrapperir.frontend.lowering.nest_builder import NestBuilder
from wrapperir.frontend.lowering.normalization import (
    Normalization,
    Normalized,
    kept_statistics,
    write_elements,
    write_input_gradient,
    write_parameter_gradients,
    write_statistics,
)
from wrapperir.frontend.lowering.reduction_space import arguments
from wrapperir.frontend.lowering.rules import NotLoweredError, rule
from wrapperir.frontend.lowering.scope import LoopScope
from wrapperir.frontend.lowering.values import IndexedTensor, NodeValue, dimensions
from wrapperir.ir import Expr, add, floordiv, mul

aten: Any = torch.ops.aten


def optional(scope: LoopScope, argument: Any) -> IndexedTensor | None:
    """Return the tensor that an argument is, if it is given."""
    return None if argument is None else scope.tensor(argument)


def _layer_normalization(tensor: IndexedTensor, shape: Sequence[Any]) -> Normalization:
    rank = len(tensor.size)
    dims = tuple(range(rank - len(shape), rank))
    return Normalization(tensor.size, dims, dims)


def _without_reduced(tensor: IndexedTensor, norm: Normalization) -> IndexedTensor:
    """Return a view of statistics without the last dimensions, of one element."""
    kept = [tensor.size[dim] for dim in norm.space.kept]
    return tensor.viewed(kept, [*dimensions(len(kept)), *[0] * len(norm.dims)])


@rule(aten.native_layer_norm.default)
def _layer_norm(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    given = arguments(node)
    tensor = scope.tensor(given["input"])
    norm = _layer_normalization(tensor, given["normalized_shape"])
    examples = node.meta["val"]
    result = scope.allocate(node.name, examples[0])
    mean = scope.allocate(f"{node.name}_mean", examples[1])
    deviation = scope.allocate(f"{node.name}_rstd", examples[2])
    results = [_without_reduced(each, norm) for each in (mean, deviation)]
    kept = kept_statistics(scope, tensor, results)
    tensors = Normalized(
        norm=norm,
        input=tensor,
        weight=optional(scope, given["weight"]),
        bias=optional(scope, given["bias"]),
        mean=kept[0],
        deviation=kept[1],
    )
    _add_norm(scope, node, tensors, result, results)
    return result, mean, deviation


def _add_norm(
    scope: LoopScope,
    node: torch.fx.Node,
    tensors: Normalized,
    result: IndexedTensor,
    statistics: Sequence[IndexedTensor],
) -> None:
    """Append the nests of a norm."""
    builder = tensors.norm.space.builder()
    epsilon = scope.expr(arguments(node)["eps"])
    write_statistics(builder, tensors, epsilon, statistics)
    scope.add_nest(builder, f"{node.name}_mean")
    builder = NestBuilder(tensors.norm.size)
    write_elements(builder, tensors, result)
    scope.add_nest(builder, node.name)


@rule(aten.native_layer_norm_backward.default)
def _layer_norm_backward(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    given = arguments(node)
    tensor = scope.tensor(given["input"])
    norm = _layer_normalization(tensor, given["normalized_shape"])
    tensors = Normalized(
        norm=norm,
        input=tensor,
        weight=optional(scope, given["weight"]),
        mean=_without_reduced(scope.tensor(given["mean"]), norm),
        deviation=_without_reduced(scope.tensor(given["rstd"]), norm),
    )
    return _gradients(scope, node, tensors, scope.tensor(given["grad_out"]), None)


def _gradients(
    scope: LoopScope,
    node: torch.fx.Node,
    tensors: Normalized,
    gradient: IndexedTensor,
    split: "_Groups | None",
) -> NodeValue:
    """Append the nests of the gradients of input, weight and bias; return them.

    ``split`` gives results the dimensions of the norm.
    """
    norm = tensors.norm
    results = [
        None if example is None else scope.allocate(f"{node.name}_{place}", example)
        for place, example in enumerate(node.meta["val"])
    ]
    input, weight, bias = results
    if input is not None:
        builder = norm.space.builder()
        view = input if split is None else split.view(input)
        write_input_gradient(builder, tensors, gradient, view)
        scope.add_nest(builder, f"{node.name}_input")
    if weight is not None or bias is not None:
        builder = norm.parameter_space.builder()
        wanted = [
            each if split is None or each is None else split.parameter(each)
            for each in (weight, bias)
        ]
        write_parameter_gradients(builder, tensors, gradient, *wanted)
        scope.add_nest(builder, f"{node.name}_parameters")
    return tuple(results)


@frozen
class _Groups:
    """Channels, the second dimension of tensors, split in groups of ``length``."""

    number: Expr
    length: Expr

    def view(self, tensor: IndexedTensor) -> IndexedTensor:
        """Return a tensor whose second and third dimensions are group and channel."""
        count = len(tensor.size) + 1
        batch, group, channel, *rest = dimensions(count)
        size = [tensor.size[0], self.number, self.length, *tensor.size[2:]]
        return tensor.viewed(size, [batch, add(mul(group, self.length), channel), *rest])

    def parameter(self, tensor: IndexedTensor) -> IndexedTensor:
        """Return a tensor of channels as one of groups and channels."""
        group, channel = dimensions(2)
        return tensor.viewed(
            (self.number, self.length), [add(mul(group, self.length), channel)]
        )

    def optional_parameter(self, tensor: IndexedTensor | None) -> IndexedTensor | None:
        """Return the same, of a tensor that is given."""
        return None if tensor is None else self.parameter(tensor)


def _groups(scope: LoopScope, node: torch.fx.Node) -> tuple[_Groups, Normalization]:
    given = arguments(node)
    number = scope.expr(given["group"])
    tensor = scope.tensor(given["input"])
    if len(tensor.size) < 2:
        raise NotLoweredError("a tensor without channels")
    groups = _Groups(number, floordiv(tensor.size[1], number))
    size = groups.view(tensor).size
    return groups, Normalization(size, tuple(range(2, len(size))), (1, 2))


@rule(aten.native_group_norm.default)
def _group_norm(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    given = arguments(node)
    groups, norm = _groups(scope, node)
    examples = node.meta["val"]
    result = scope.allocate(node.name, examples[0])
    mean = scope.allocate(f"{node.name}_mean", examples[1])
    deviation = scope.allocate(f"{node.name}_rstd", examples[2])
    tensor = scope.tensor(given["input"])
    kept = kept_statistics(scope, tensor, (mean, deviation))
    tensors = Normalized(
        norm=norm,
        input=groups.view(tensor),
        weight=groups.optional_parameter(optional(scope, given["weight"])),
        bias=groups.optional_parameter(optional(scope, given["bias"])),
        mean=kept[0],
        deviation=kept[1],
    )
    _add_norm(scope, node, tensors, groups.view(result), (mean, deviation))
    return result, mean, deviation


@rule(aten.native_group_norm_backward.default)
def _group_norm_backward(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    given = arguments(node)
    groups, norm = _groups(scope, node)
    tensors = Normalized(
        norm=norm,
        input=groups.view(scope.tensor(given["input"])),
        weight=groups.optional_parameter(optional(scope, given["weight"])),
        mean=scope.tensor(given["mean"]),
        deviation=scope.tensor(given["rstd"]),
    )
    gradient = groups.view(scope.tensor(given["grad_out"]))
    return _gradients(scope, node, tensors, gradient, groups)
