"""Rules of softmax, its logarithm, and their gradients.

Each is one nest, whose inner loops run over the dimension: the maximum, the sum of
exponentials, the results.
"""

from collections.abc import Sequence
from typing import Any

import torch
from attrs import frozen

from wrapperir.frontend.lowering.nest_builder import NestBuilder
from wrapperir.frontend.lowering.reduction_space import (
    ReductionSpace,
    accumulated,
    arguments,
)
from wrapperir.frontend.lowering.reductions import space_of
from wrapperir.frontend.lowering.rules import rule
from wrapperir.frontend.lowering.scope import LoopScope
from wrapperir.frontend.lowering.values import IndexedTensor, NodeValue
from wrapperir.ir import DType, Expr
from wrapperir.lowering.scalar_op import ReduceOp
from wrapperir.lowering.scalar_op import ScalarOp as Op

aten: Any = torch.ops.aten


@frozen
class _Softmax:
    """A nest over the dimensions of ``space`` that stay, with arithmetic in ``dtype``."""

    builder: NestBuilder
    space: ReductionSpace
    dtype: DType

    def load(self, tensor: IndexedTensor, inner: Sequence[Expr]) -> str:
        """Return an element at a point of an inner loop."""
        value = self.builder.load(tensor, self.space.point(self.builder.point, inner))
        return self.builder.cast(value, self.dtype)

    def maximum(self, tensor: IndexedTensor) -> str:
        """Return the greatest element."""
        with self.builder.inner(self.space.inner) as inner:
            (most,) = self.builder.reduce(ReduceOp.MAX, self.load(tensor, inner))
        return most

    def exponentials(self, tensor: IndexedTensor, most: str) -> str:
        """Return the sum of ``exp(x - most)``."""
        with self.builder.inner(self.space.inner) as inner:
            less = self.builder.apply(Op.SUB, self.load(tensor, inner), most)
            power = self.builder.apply(Op.EXP, less)
            (total,) = self.builder.reduce(ReduceOp.SUM, power)
        return total


def _softmax_of(
    scope: LoopScope, node: torch.fx.Node
) -> tuple[IndexedTensor, ReductionSpace, _Softmax]:
    """Return the result of a node, the split of its dimensions, and a new nest."""
    space = space_of(scope, node, arguments(node)["dim"])
    result = scope.allocate(node.name, node.meta["val"])
    return result, space, _Softmax(space.builder(), space, accumulated(result.dtype))


@rule(aten._softmax.default, aten._log_softmax.default)
def _softmax(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    """Lower to a nest of the maximum and sum, and one of elements.

    They are one kernel where that reads less; where only some elements are used, such as
    those of a loss, the others are not computed.
    """
    tensor = scope.tensor(node.args[0])
    result, space, nest = _softmax_of(scope, node)
    builder = nest.builder
    most = nest.maximum(tensor)
    total = nest.exponentials(tensor, most)
    is_log = node.target is aten._log_softmax.default
    if is_log:
        total = builder.apply(Op.LOG, total)
    kept = [scope.workspace(space.outer, nest.dtype, tensor) for _ in range(2)]
    for target, value in zip(kept, (most, total), strict=True):
        builder.store(target, builder.point, value)
    scope.add_nest(builder, f"{node.name}_sum")
    builder = NestBuilder(space.size)
    value = builder.cast(builder.load(tensor, builder.point), nest.dtype)
    outer = [builder.point[dim] for dim in space.kept]
    most, total = (builder.load(each, outer) for each in kept)
    value = builder.apply(Op.SUB, value, most)
    if is_log:
        value = builder.apply(Op.SUB, value, total)
    else:
        value = builder.apply(Op.DIV, builder.apply(Op.EXP, value), total)
    builder.store(result, builder.point, value)
    scope.add_nest(builder, node.name)
    return result


@rule(aten._softmax_backward_data.default, aten._log_softmax_backward_data.default)
def _softmax_backward(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    """Lower ``(grad - sum(grad * y)) * y``, or ``grad - exp(y) * sum(grad)``."""
    gradient, output = scope.tensor(node.args[0]), scope.tensor(node.args[1])
    result, space, nest = _softmax_of(scope, node)
    builder = nest.builder
    is_log = node.target is aten._log_softmax_backward_data.default

    with builder.inner(space.inner) as inner:
        value = nest.load(gradient, inner)
        if not is_log:
            y = nest.load(output, inner)
            value = builder.apply(Op.MUL, value, y)
        (total,) = builder.reduce(ReduceOp.SUM, value)
    with builder.inner(space.inner) as inner:
        value = nest.load(gradient, inner)
        y = nest.load(output, inner)
        if is_log:
            part = builder.apply(Op.MUL, builder.apply(Op.EXP, y), total)
            value = builder.apply(Op.SUB, value, part)
        else:
            value = builder.apply(Op.MUL, builder.apply(Op.SUB, value, total), y)
        builder.store(result, space.point(builder.point, inner), value)
    scope.add_nest(builder, node.name)
    return result


@rule(aten.logsumexp.default)
def _logsumexp(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    tensor = scope.tensor(node.args[0])
    result, space, nest = _softmax_of(scope, node)
    builder = nest.builder
    most = nest.maximum(tensor)
    # An infinite maximum would make inf - inf.
    zero = builder.literal(0.0, builder.dtype(most))
    shift = builder.apply(Op.WHERE, builder.apply(Op.ISINF, most), zero, most)
    total = nest.exponentials(tensor, shift)
    value = builder.apply(Op.ADD, builder.apply(Op.LOG, total), shift)
    builder.store(result, space.result_point(result, builder.point), value)
    scope.add_nest(builder, node.name)
    return result
