"""Nests that compute each element of a tensor by itself."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import _prims_common
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as KIND

from wrapperir.frontend.lowering.nest_builder import NestBuilder
from wrapperir.frontend.lowering.rules import NotLoweredError
from wrapperir.frontend.lowering.scope import LoopScope
from wrapperir.frontend.lowering.values import IndexedTensor
from wrapperir.ir import DType, Expr
from wrapperir.lowering.scalar_op import ScalarOp as Op

aten: Any = torch.ops.aten
prims: Any = torch.ops.prims

Compute: TypeAlias = Callable[[NestBuilder, Sequence[str]], str]
"""Computes an element from operands of one dtype."""


def broadcast_point(
    tensor: IndexedTensor, size: Sequence[Expr], point: Sequence[Expr]
) -> tuple[Expr, ...]:
    """Return where a tensor that is broadcast to ``size`` has the element of a point."""
    missing = len(size) - len(tensor.size)
    return tuple(
        0 if extent == 1 else part
        for extent, part in zip(tensor.size, point[missing:], strict=True)
    )


def map_elements(
    scope: LoopScope,
    node: torch.fx.Node,
    operands: Sequence[Any],
    kind: KIND,
    compute: Compute,
) -> IndexedTensor:
    """Append a nest that computes the node's elements from operands, broadcast."""
    dtype = scope.element_type(compute_dtype(operands, kind))
    return build_elements(scope, node, operands, [dtype] * len(operands), compute)


def build_elements(
    scope: LoopScope,
    node: torch.fx.Node,
    operands: Sequence[Any],
    dtypes: Sequence[DType],
    compute: Compute,
) -> IndexedTensor:
    """Append a nest whose operands are converted to a dtype each."""
    example: torch.Tensor = node.meta["val"]
    check_devices(operands, example.device)
    result = scope.allocate(node.name, example)
    builder = NestBuilder(result.size)
    values = [
        read_operand(scope, builder, operand, dtype)
        for operand, dtype in zip(operands, dtypes, strict=True)
    ]
    return scope.add_elements(node, result, builder, compute(builder, values))


def read_operand(scope: LoopScope, builder: NestBuilder, operand: Any, dtype: DType) -> str:
    """Return an operand's element at the builder's point, broadcast and converted."""
    if isinstance(operand, torch.fx.Node):
        value = scope.values[operand]
        if isinstance(value, IndexedTensor):
            point = broadcast_point(value, builder.size, builder.point)
            return builder.cast(builder.load(value, point), dtype)
    return number_operand(builder, scope.expr(operand), dtype)


def number_operand(builder: NestBuilder, number: Expr, dtype: DType) -> str:
    """Return a number as a value of the dtype, converted as eager converts scalars."""
    if isinstance(number, int | float):
        if dtype is DType.BOOL:
            return builder.literal(bool(number), dtype)
        return builder.literal(number if dtype.is_float else int(number), dtype)
    return builder.index_value(number, dtype)


def check_devices(operands: Sequence[Any], device: torch.device) -> None:
    """Raise unless loops on the device can read the operands.

    Raises:
        NotLoweredError: an operand is elsewhere, such as a CPU scalar beside GPU tensors.
    """
    for operand in operands:
        example = operand.meta.get("val") if isinstance(operand, torch.fx.Node) else None
        if isinstance(example, torch.Tensor) and example.device != device:
            raise NotLoweredError("an operand is on another device")


def compute_dtype(operands: Sequence[Any], kind: KIND) -> torch.dtype:
    """Return the dtype that eager computes in."""
    examples = [
        operand.meta["val"] if isinstance(operand, torch.fx.Node) else operand
        for operand in operands
    ]
    promote: Any = _prims_common.elementwise_dtypes
    dtype: torch.dtype = promote(*examples, type_promotion_kind=kind)[0]
    return dtype


def plain(op: Op) -> Compute:
    """Return the computation that is one operator."""
    return lambda builder, values: builder.apply(op, *values)


def one(builder: NestBuilder, like: str) -> str:
    """Return 1 in the dtype of a value."""
    return number_operand(builder, 1, builder.dtype(like))


def zero(builder: NestBuilder, like: str) -> str:
    """Return 0 in the dtype of a value."""
    return number_operand(builder, 0, builder.dtype(like))
