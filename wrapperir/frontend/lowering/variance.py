"""Rules of variances."""

from typing import Any

import torch

from wrapperir.frontend.lowering.elementwise import number_operand
from wrapperir.frontend.lowering.nest_builder import NestBuilder
from wrapperir.frontend.lowering.reduction_space import arguments
from wrapperir.frontend.lowering.reductions import space_of, widen
from wrapperir.frontend.lowering.rules import NotLoweredError, rule
from wrapperir.frontend.lowering.scope import LoopScope
from wrapperir.frontend.lowering.values import NodeValue
from wrapperir.ir import Expr, maximum, sub
from wrapperir.lowering.scalar_op import ReduceOp
from wrapperir.lowering.scalar_op import ScalarOp as Op

aten: Any = torch.ops.aten
prims: Any = torch.ops.prims


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
