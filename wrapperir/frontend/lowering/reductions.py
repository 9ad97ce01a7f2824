"""Rules of operators that reduce or scan dimensions: sums, extremes, variances."""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import torch

from wrapperir.frontend.lowering.elementwise import number_operand
from wrapperir.frontend.lowering.nest_builder import NestBuilder
from wrapperir.frontend.lowering.pointwise import truth
from wrapperir.frontend.lowering.reduction_space import (
    ReductionSpace,
    arguments,
    reduction_space,
)
from wrapperir.frontend.lowering.rules import NotLoweredError, rule
from wrapperir.frontend.lowering.scope import LoopScope
from wrapperir.frontend.lowering.values import IndexedTensor, NodeValue
from wrapperir.ir import DType, Expr, maximum, sub
from wrapperir.lowering.dtypes import accumulated
from wrapperir.lowering.scalar_op import ReduceOp
from wrapperir.lowering.scalar_op import ScalarOp as Op

aten: Any = torch.ops.aten
prims: Any = torch.ops.prims

OneValue: TypeAlias = Callable[[NestBuilder, str], str]
"""Computes a value from another."""


def same(builder: NestBuilder, value: str) -> str:
    """Return the value."""
    return value


def reduce_elements(
    scope: LoopScope,
    node: torch.fx.Node,
    space: ReductionSpace,
    op: ReduceOp,
    element: OneValue,
    finish: OneValue = same,
) -> IndexedTensor:
    """Append a nest that reduces what ``element`` computes of the node's first argument.

    ``finish`` computes the result from what is reduced.
    """
    tensor = scope.tensor(node.args[0])
    result = scope.allocate(node.name, node.meta["val"])
    builder = space.builder()
    with builder.inner(space.inner) as inner:
        value = builder.load(tensor, space.point(builder.point, inner))
        (reduced,) = builder.reduce(op, element(builder, value))
    finished = finish(builder, reduced)
    builder.store(result, space.result_point(result, builder.point), finished)
    scope.add_nest(builder, node.name)
    return result


def space_of(scope: LoopScope, node: torch.fx.Node, dims: object) -> ReductionSpace:
    """Return the dimensions that a node reduces, given its argument ``dims``."""
    example: Any = node.meta["val"]
    result: torch.Tensor = example[0] if isinstance(example, tuple | list) else example
    given: Any = dims
    chosen: int | Iterable[int] | None = given
    return reduction_space(scope.tensor(node.args[0]), chosen, result)


@rule(
    *(aten.sum.default, aten.sum.dim_IntList, prims.sum.default),
    *(aten.prod.default, aten.prod.dim_int, prims.prod.default),
)
def _sum(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    """Lower a sum or product, of values converted to the dtype of the result."""
    given = arguments(node)
    space = space_of(scope, node, given.get("dim", given.get("dims")))
    dtype = scope.element_type(node.meta["val"].dtype)
    is_sum = node.target.__name__.startswith("sum")  # type: ignore[union-attr]
    op = ReduceOp.SUM if is_sum else ReduceOp.PROD
    if dtype is DType.BOOL:
        op = ReduceOp.ANY if is_sum else ReduceOp.ALL

    def element(builder: NestBuilder, value: str) -> str:
        return builder.cast(builder.cast(value, dtype), accumulated(dtype))

    return reduce_elements(scope, node, space, op, element)


@rule(aten.mean.default, aten.mean.dim)
def _mean(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    space = space_of(scope, node, arguments(node).get("dim"))
    dtype = scope.element_type(node.meta["val"].dtype)
    if not dtype.is_float:
        raise NotLoweredError("a mean of whole numbers")

    def element(builder: NestBuilder, value: str) -> str:
        return builder.cast(builder.cast(value, dtype), accumulated(dtype))

    def finish(builder: NestBuilder, value: str) -> str:
        count = number_operand(builder, space.count, builder.dtype(value))
        return builder.apply(Op.DIV, value, count)

    return reduce_elements(scope, node, space, ReduceOp.SUM, element, finish)


def extreme_operation(dtype: DType, is_max: bool) -> ReduceOp:
    """Return the reduction to the greatest or least value of a dtype."""
    if dtype is DType.BOOL:
        return ReduceOp.ANY if is_max else ReduceOp.ALL
    return ReduceOp.MAX if is_max else ReduceOp.MIN


def widen(builder: NestBuilder, value: str) -> str:
    """Return a value in the dtype that values of its dtype are added up in."""
    return builder.cast(value, accumulated(builder.dtype(value)))


@rule(
    *(aten.amax.default, aten.max.default, prims.amax.default),
    *(aten.amin.default, aten.min.default, prims.amin.default),
)
def _extreme(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    given = arguments(node)
    space = space_of(scope, node, given.get("dim", given.get("dims")))
    op = extreme_operation(scope.tensor(node.args[0]).dtype, is_greatest(node))
    return reduce_elements(scope, node, space, op, widen)


def is_greatest(node: torch.fx.Node) -> bool:
    """Say whether a node looks for the greatest value, not the least."""
    target: Any = node.target
    return "max" in target.__name__.split(".")[0]


@rule(aten.max.dim, aten.min.dim)
def _extreme_and_position(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    """Lower to the extreme value along a dimension and the first position of it."""
    tensor = scope.tensor(node.args[0])
    space = space_of(scope, node, arguments(node)["dim"])
    examples = node.meta["val"]
    values = scope.allocate(f"{node.name}_values", examples[0])
    places = scope.allocate(f"{node.name}_indices", examples[1])
    builder = space.builder()
    with builder.inner(space.inner) as inner:
        value = widen(builder, builder.load(tensor, space.point(builder.point, inner)))
        op = extreme_operation(tensor.dtype, is_greatest(node))
        (extreme,) = builder.reduce(op, value)
        position = ReduceOp.ARGMAX if is_greatest(node) else ReduceOp.ARGMIN
        (place,) = builder.reduce(position, _compared(builder, value))
    point = space.result_point(values, builder.point)
    builder.store(values, point, extreme)
    builder.store(places, point, place)
    scope.add_nest(builder, node.name)
    return values, places


def _compared(builder: NestBuilder, value: str) -> str:
    """Return a value in a dtype that ``ARGMIN`` and ``ARGMAX`` can compare."""
    if builder.dtype(value) is DType.BOOL:
        return builder.cast(value, DType.U8)
    return widen(builder, value)


@rule(aten.argmax.default, aten.argmin.default)
def _position(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    space = space_of(scope, node, arguments(node)["dim"])
    op = ReduceOp.ARGMAX if is_greatest(node) else ReduceOp.ARGMIN
    return reduce_elements(scope, node, space, op, _compared)


@rule(
    *(aten.any.default, aten.any.dim, aten.any.dims),
    *(aten.all.default, aten.all.dim, aten.all.dims),
)
def _any(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    space = space_of(scope, node, arguments(node).get("dim"))
    is_any = node.target.__name__.startswith("any")  # type: ignore[union-attr]
    return reduce_elements(
        scope, node, space, ReduceOp.ANY if is_any else ReduceOp.ALL, truth
    )


def _divided(builder: NestBuilder, value: str, count: Expr, correction: Expr) -> str:
    """Return a value divided by ``count - correction``, or by 0 if that is less."""
    if isinstance(correction, float) and correction.is_integer():
        correction = int(correction)
    dtype = builder.dtype(value)
    if isinstance(correction, int):
        divisor = number_operand(builder, maximum(sub(count, correction), 0), dtype)
    else:
        number = builder.index_value(count, dtype)
        less = builder.apply(Op.SUB, number, number_operand(builder, correction, dtype))
        divisor = builder.apply(Op.MAXIMUM, less, number_operand(builder, 0, dtype))
    return builder.apply(Op.DIV, value, divisor)


@rule(aten.var.correction, aten.var_mean.correction, prims.var.default)
def _variance(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    """Lower to the variance, and the mean if it is wanted; half types are read as f32."""
    given = arguments(node)
    space = space_of(scope, node, given.get("dim", given.get("dims")))
    tensor = scope.tensor(node.args[0])
    correction = 1 if given["correction"] is None else scope.expr(given["correction"])
    if not tensor.dtype.is_float:
        raise NotLoweredError("a variance of whole numbers")
    examples: Any = node.meta["val"]
    several = isinstance(examples, tuple | list)
    result = scope.allocate(node.name, examples[0] if several else examples)
    builder = space.builder()
    with builder.inner(space.inner) as inner:
        value = widen(builder, builder.load(tensor, space.point(builder.point, inner)))
        mean, squares, _ = builder.reduce(ReduceOp.WELFORD, value)
    point = space.result_point(result, builder.point)
    variance = _divided(builder, squares, space.count, correction)
    builder.store(result, point, variance)
    middle = scope.allocate(f"{node.name}_mean", examples[1]) if several else None
    if middle is not None:
        builder.store(middle, point, mean)
    scope.add_nest(builder, node.name)
    return result if middle is None else (result, middle)


def _scan_space(tensor: IndexedTensor, dim: int) -> ReductionSpace:
    rank = len(tensor.size)
    return ReductionSpace(tensor.size, (dim % rank,) if rank else ())


@rule(aten.cumsum.default, aten.cumprod.default)
def _cumulative_sum(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    tensor = scope.tensor(node.args[0])
    space = _scan_space(tensor, arguments(node)["dim"])
    dtype = scope.element_type(node.meta["val"].dtype)
    op = ReduceOp.SUM if node.target is aten.cumsum.default else ReduceOp.PROD
    result = scope.allocate(node.name, node.meta["val"])
    builder = space.builder()
    with builder.inner(space.inner) as inner:
        point = space.point(builder.point, inner)
        value = builder.cast(builder.load(tensor, point), dtype)
        value = builder.cast(value, accumulated(dtype))
        (total,) = builder.scan(op, value)
        builder.store(result, point, total)
    scope.add_nest(builder, node.name)
    return result


@rule(aten.cummax.default, aten.cummin.default)
def _cumulative_extreme(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    """Lower to the extreme values so far, and the last position of each."""
    tensor = scope.tensor(node.args[0])
    space = _scan_space(tensor, arguments(node)["dim"])
    examples = node.meta["val"]
    values = scope.allocate(f"{node.name}_values", examples[0])
    places = scope.allocate(f"{node.name}_indices", examples[1])
    op = ReduceOp.ARGMAX if is_greatest(node) else ReduceOp.ARGMIN
    builder = space.builder()
    with builder.inner(space.inner) as inner:
        point = space.point(builder.point, inner)
        extreme, place = builder.scan(op, _compared(builder, builder.load(tensor, point)))
        builder.store(values, point, extreme)
        builder.store(places, point, place)
    scope.add_nest(builder, node.name)
    return values, places
