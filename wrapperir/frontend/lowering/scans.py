"""Rules of cumulative operators."""

from typing import Any

import torch

from wrapperir.frontend.lowering.nest_builder import NestBuilder
from wrapperir.frontend.lowering.reduction_space import (
    ReductionSpace,
    arguments,
)
from wrapperir.frontend.lowering.reductions import is_greatest, widen
from wrapperir.frontend.lowering.rules import rule
from wrapperir.frontend.lowering.scope import LoopScope
from wrapperir.frontend.lowering.values import IndexedTensor, NodeValue
from wrapperir.ir import DType
from wrapperir.lowering.dtypes import accumulated
from wrapperir.lowering.scalar_op import ReduceOp

aten: Any = torch.ops.aten


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


def _compared(builder: NestBuilder, value: str) -> str:
    if builder.dtype(value) is DType.BOOL:
        return builder.cast(value, DType.U8)
    return widen(builder, value)
