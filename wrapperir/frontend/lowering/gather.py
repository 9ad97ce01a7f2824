"""Rules of operators that read elements whose positions other tensors have."""

from collections.abc import Sequence
from typing import Any

import torch

from wrapperir.frontend.lowering.creation import fill
from wrapperir.frontend.lowering.element_positions import (
    OUT_OF_RANGE,
    indexed,
    out_of_bounds,
    position,
)
from wrapperir.frontend.lowering.nest_builder import NestBuilder
from wrapperir.frontend.lowering.rules import NotLoweredError, rule
from wrapperir.frontend.lowering.scope import LoopScope
from wrapperir.frontend.lowering.values import IndexedTensor, NodeValue
from wrapperir.frontend.lowering.views import normal, reshaped
from wrapperir.ir import Expr, product

aten: Any = torch.ops.aten


def matched(tensor: IndexedTensor, point: Sequence[Expr]) -> tuple[Expr, ...]:
    """Return a point for a tensor that may have one dimension where others have none."""
    if len(tensor.size) == len(point):
        return tuple(point)
    return () if not tensor.size else (0,)


def replaced(
    tensor: IndexedTensor, point: Sequence[Expr], dim: int, at: Expr
) -> tuple[Expr, ...]:
    """Return a point of a tensor with another position along a dimension."""
    own = [*matched(tensor, point)]
    if own:
        own[dim] = at
    return tuple(own)


def extent_of(tensor: IndexedTensor, dim: int) -> Expr:
    """Return the size of a dimension; a tensor without dimensions has one element."""
    return tensor.size[dim] if tensor.size else 1


@rule(aten.gather.default)
def _gather(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    source, index = scope.tensor(node.args[0]), scope.tensor(node.args[2])
    dim = normal(int(node.args[1]), len(source.size))  # type: ignore[arg-type]
    if 0 in index.size:
        return fill(scope, node, 0)
    extent = extent_of(source, dim)
    result, builder = scope.elements_of(node)
    along = builder.load(index, builder.point)
    at = position(builder, along, extent, out_of_bounds(dim, extent))
    value = builder.load(source, replaced(source, builder.point, dim, at))
    return scope.add_elements(node, result, builder, value)


@rule(aten.index_select.default)
def _index_select(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    source, index = scope.tensor(node.args[0]), scope.tensor(node.args[2])
    dim = normal(int(node.args[1]), len(source.size))  # type: ignore[arg-type]
    result, builder = scope.elements_of(node)
    along = builder.load(index, matched(index, builder.point[dim : dim + 1]))
    at = position(builder, along, extent_of(source, dim), OUT_OF_RANGE)
    value = builder.load(source, replaced(source, builder.point, dim, at))
    return scope.add_elements(node, result, builder, value)


@rule(aten.embedding.default)
def _embedding(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    weight, index = scope.tensor(node.args[0]), scope.tensor(node.args[1])
    result, builder = scope.elements_of(node)
    given = builder.load(index, builder.point[:-1])
    row = position(builder, given, weight.size[0], OUT_OF_RANGE)
    value = builder.load(weight, (row, builder.point[-1]))
    return scope.add_elements(node, result, builder, value)


@rule(aten.index.Tensor, aten._unsafe_index.Tensor)
def _index(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    given: Any = node.args[1]
    checks = node.target is aten.index.Tensor
    chosen = indexed(scope, scope.tensor(node.args[0]), given)
    result = scope.allocate(node.name, node.meta["val"])
    if len(result.size) != len(chosen.size):
        raise NotLoweredError("a size that the indices do not have")
    builder = NestBuilder(result.size)
    value = builder.load(chosen.source, chosen.point(builder, checks=checks))
    return scope.add_elements(node, result, builder, value)


@rule(aten.take.default)
def _take(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    source, index = scope.tensor(node.args[0]), scope.tensor(node.args[1])
    if 0 in index.size:
        return fill(scope, node, 0)
    count = product(source.size)
    flat = reshaped(scope, source, (count,))
    result, builder = scope.elements_of(node)
    given = builder.load(index, builder.point)
    message = "out of range: tried to access an index"
    at = position(builder, given, count, message, wraps=True)
    return scope.add_elements(node, result, builder, builder.load(flat, (at,)))
