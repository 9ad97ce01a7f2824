"""Rules of softmax, its logarithm, and their gradients.

Each is one nest, whose inner loops run over the dimension: the maximum, the sum of
exponentials, the results.
"""

from collections.abc import Sequence
from typing import Any

import torch

from wrapperir.frontend.lowering.nest_builder import NestBuilder
from wrapperir.frontend.lowering.reduction_space import ReductionSpace, arguments
from wrapperir.frontend.lowering.reductions import space_of, widen
from wrapperir.frontend.lowering.rules import rule
from wrapperir.frontend.lowering.scope import LoopScope
from wrapperir.frontend.lowering.values import TensorValue, Value
from wrapperir.ir import Expr
from wrapperir.lowering.scalar_op import ReduceOp
from wrapperir.lowering.scalar_op import ScalarOp as Op

aten: Any = torch.ops.aten


def _load_wide(
    builder: NestBuilder, tensor: TensorValue, space: ReductionSpace, inner: Sequence[Expr]
) -> str:
    return widen(builder, builder.load(tensor, space.point(builder.point, inner)))


def _reduce_maximum(
    builder: NestBuilder, tensor: TensorValue, space: ReductionSpace
) -> str:
    with builder.inner(space.inner) as inner:
        value = _load_wide(builder, tensor, space, inner)
        (most,) = builder.reduce(ReduceOp.MAX, value)
    return most


def _reduce_exponentials(
    builder: NestBuilder, tensor: TensorValue, space: ReductionSpace, most: str
) -> str:
    """Return the sum of ``exp(x - most)``."""
    with builder.inner(space.inner) as inner:
        value = _load_wide(builder, tensor, space, inner)
        power = builder.apply(Op.EXP, builder.apply(Op.SUB, value, most))
        (total,) = builder.reduce(ReduceOp.SUM, power)
    return total


@rule(aten._softmax.default, aten._log_softmax.default)
def _softmax(scope: LoopScope, node: torch.fx.Node) -> Value:
    tensor = scope.tensor(node.args[0])
    space = space_of(scope, node, arguments(node)["dim"])
    result = scope.allocate(node.name, node.meta["val"])
    builder = space.builder()
    most = _reduce_maximum(builder, tensor, space)
    total = _reduce_exponentials(builder, tensor, space, most)
    is_log = node.target is aten._log_softmax.default
    if is_log:
        total = builder.apply(Op.LOG, total)
    with builder.inner(space.inner) as inner:
        value = _load_wide(builder, tensor, space, inner)
        value = builder.apply(Op.SUB, value, most)
        if is_log:
            value = builder.apply(Op.SUB, value, total)
        else:
            value = builder.apply(Op.DIV, builder.apply(Op.EXP, value), total)
        builder.store(result, space.point(builder.point, inner), value)
    scope.add_nest(builder, node.name)
    return result


@rule(aten._softmax_backward_data.default, aten._log_softmax_backward_data.default)
def _softmax_backward(scope: LoopScope, node: torch.fx.Node) -> Value:
    """Lower ``(grad - sum(grad * y)) * y``, or ``grad - exp(y) * sum(grad)``."""
    gradient, output = scope.tensor(node.args[0]), scope.tensor(node.args[1])
    space = space_of(scope, node, arguments(node)["dim"])
    result = scope.allocate(node.name, node.meta["val"])
    builder = space.builder()
    is_log = node.target is aten._log_softmax_backward_data.default

    with builder.inner(space.inner) as inner:
        value = _load_wide(builder, gradient, space, inner)
        if not is_log:
            y = _load_wide(builder, output, space, inner)
            value = builder.apply(Op.MUL, value, y)
        (total,) = builder.reduce(ReduceOp.SUM, value)
    with builder.inner(space.inner) as inner:
        value = _load_wide(builder, gradient, space, inner)
        y = _load_wide(builder, output, space, inner)
        if is_log:
            part = builder.apply(Op.MUL, builder.apply(Op.EXP, y), total)
            value = builder.apply(Op.SUB, value, part)
        else:
            value = builder.apply(Op.MUL, builder.apply(Op.SUB, value, total), y)
        builder.store(result, space.point(builder.point, inner), value)
    scope.add_nest(builder, node.name)
    return result


@rule(aten.logsumexp.default)
def _logsumexp(scope: LoopScope, node: torch.fx.Node) -> Value:
    tensor = scope.tensor(node.args[0])
    space = space_of(scope, node, arguments(node)["dim"])
    result = scope.allocate(node.name, node.meta["val"])
    builder = space.builder()
    most = _reduce_maximum(builder, tensor, space)
    # An infinite maximum would make inf - inf.
    zero = builder.literal(0.0, builder.dtype(most))
    shift = builder.apply(Op.WHERE, builder.apply(Op.ISINF, most), zero, most)
    total = _reduce_exponentials(builder, tensor, space, shift)
    value = builder.apply(Op.ADD, builder.apply(Op.LOG, total), shift)
    builder.store(result, space.result_point(result, builder.point), value)
    scope.add_nest(builder, node.name)
    return result
