"""Rules of operators that replace the elements of a view of a tensor."""

from collections.abc import Sequence
from typing import Any, TypeGuard

import torch
from torch._prims_common import is_non_overlapping_and_dense_or_false

from wrapperir.frontend.aten.values import lower_extent
from wrapperir.frontend.lowering.element_positions import both, less, within
from wrapperir.frontend.lowering.nest_builder import NestBuilder
from wrapperir.frontend.lowering.overwriting import changed, may_overwrite
from wrapperir.frontend.lowering.rules import NotLoweredError, argument, rule
from wrapperir.frontend.lowering.scope import LoopScope
from wrapperir.frontend.lowering.values import IndexedTensor, NodeValue, dimensions
from wrapperir.frontend.lowering.views import diagonal, has_layout, normal, strided_view
from wrapperir.ir import DType, Expr, add, floordiv, maximum, mod, mul, sub
from wrapperir.lowering.scalar_op import ScalarOp as Op

aten: Any = torch.ops.aten


@rule(aten.slice_scatter.default)
def _slice_scatter(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    source, update = scope.tensor(node.args[0]), scope.tensor(node.args[1])
    dim = normal(int(argument(node, 2, "dim", 0)), len(source.size))
    given, step = argument(node, 3, "start"), argument(node, 5, "step", 1)
    start: Expr = 0 if given is None else scope.expr(given)
    if not isinstance(start, int) or not isinstance(step, int):
        raise NotLoweredError("a symbolic slice")
    extent = source.size[dim]
    if start < 0:
        start = maximum(add(extent, start), 0)
    if may_overwrite(scope, node):
        extents = start, update.size[dim], extent
        result = source
        if step == 1 and _is_constant(node.args[0]) and _all_known(extents):
            result = scope.allocate(node.name, node.meta["val"])
            _copy_around(scope, node, source, result, dim, extents)
        point = [*dimensions(len(source.size))]
        point[dim] = add(start, mul(point[dim], step))
        scope.copy(update, result.viewed(update.size, point), node.name)
        return result
    result, builder = scope.elements_of(node)
    at = sub(builder.point[dim], start)
    point = [*builder.point]
    point[dim] = floordiv(at, step)
    # Negative numbers divided by the step are negative too.
    masks = [within(builder, builder.point[dim], start, None)]
    if update.size[dim] != extent:
        masks.append(less(builder, point[dim], update.size[dim]))
    if step != 1:
        masks.append(less(builder, mod(at, step), 1))
    return _chosen(scope, node, builder, result, update, point, both(builder, *masks))


def _is_constant(node: Any) -> bool:
    return node.target in (aten.full.default, aten.full_like.default)


def _all_known(extents: Sequence[Expr]) -> TypeGuard[Sequence[int]]:
    return all(isinstance(each, int) for each in extents)


def _copy_around(
    scope: LoopScope,
    node: torch.fx.Node,
    source: IndexedTensor,
    result: IndexedTensor,
    dim: int,
    extents: Sequence[int],
) -> None:
    """Append nests that copy what is before and after a slice.

    Of a constant, that is less to write than all of it before the slice is.
    """
    start, count, extent = extents
    for first, end in ((0, start), (start + count, extent)):
        if first < end:
            size: list[Expr] = [*source.size]
            size[dim] = end - first
            point = [*dimensions(len(size))]
            point[dim] = add(point[dim], first)
            part = source.viewed(size, point)
            scope.copy(part, result.viewed(size, point), node.name)


def _chosen(
    scope: LoopScope,
    node: torch.fx.Node,
    builder: NestBuilder,
    result: IndexedTensor,
    update: IndexedTensor,
    point: list[Expr],
    mask: str | None,
) -> IndexedTensor:
    """Append the nest of a result: the update where ``mask`` is true, else as before."""
    value = builder.load(update, point, mask=mask)
    if mask is not None:
        old = builder.load(scope.tensor(node.args[0]), builder.point)
        value = builder.apply(Op.WHERE, mask, builder.cast(value, result.dtype), old)
    return scope.add_elements(node, result, builder, value)


@rule(aten.select_scatter.default)
def _select_scatter(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    source, update = scope.tensor(node.args[0]), scope.tensor(node.args[1])
    dim = normal(int(argument(node, 2, "dim")), len(source.size))
    at = scope.expr(argument(node, 3, "index"))
    if not isinstance(at, int):
        raise NotLoweredError("a symbolic position")
    if at < 0:
        at = add(source.size[dim], at)
    if may_overwrite(scope, node):
        rest = dimensions(len(update.size))
        point: list[Expr] = [*rest[:dim], at, *rest[dim:]]
        scope.copy(update, source.viewed(update.size, point), node.name)
        return source
    result, builder = scope.elements_of(node)
    mask = builder.apply(
        Op.EQ,
        builder.index_value(builder.point[dim], DType.I64),
        builder.index_value(at, DType.I64),
    )
    own = [*builder.point[:dim], *builder.point[dim + 1 :]]
    return _chosen(scope, node, builder, result, update, own, mask)


@rule(aten.diagonal_scatter.default)
def _diagonal_scatter(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    update = scope.tensor(node.args[1])
    offset, first, second = (
        argument(node, 2 + place, name, default)
        for place, (name, default) in enumerate((("offset", 0), ("dim1", 0), ("dim2", 1)))
    )
    result = changed(scope, node)
    target = diagonal(result, update.size, offset, first, second)
    scope.copy(update, target, node.name)
    return result


@rule(aten.as_strided_scatter.default)
def _as_strided_scatter(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    source, update = scope.tensor(node.args[0]), scope.tensor(node.args[1])
    before: Any = node.args[0]
    example, kept = before.meta["val"], node.meta["val"]
    is_dense = is_non_overlapping_and_dense_or_false(example)
    is_alike = is_dense and example.stride() == kept.stride()
    if not is_alike or not has_layout(scope, source, example):
        raise NotLoweredError("in eager mode this is other memory")
    given = argument(node, 4, "storage_offset")
    start = scope.expr(example.storage_offset() if given is None else given)
    result = changed(scope, node)
    own = scope.buffers[result.buffer].offset
    begin = own if result is source else lower_extent(example.storage_offset())
    steps = scope.exprs(argument(node, 3, "stride"))
    target = strided_view(scope, result, update.size, steps, sub(start, begin))
    scope.copy(update, target, node.name)
    return result
