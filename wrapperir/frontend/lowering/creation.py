"""Rules of operators that make tensors of numbers."""

from collections.abc import Sequence
from typing import Any

import torch

from wrapperir.frontend.lowering.elementwise import number_operand
from wrapperir.frontend.lowering.rules import NotLoweredError, rule
from wrapperir.frontend.lowering.scope import LoopScope
from wrapperir.frontend.lowering.values import IndexedTensor, NodeValue
from wrapperir.ir import DType, Expr, add, mul
from wrapperir.lowering.scalar_op import ScalarOp as Op

aten: Any = torch.ops.aten
prims: Any = torch.ops.prims


def fill(scope: LoopScope, node: torch.fx.Node, number: Expr) -> IndexedTensor:
    """Append a nest that gives each element of the node's result a number."""
    result, builder = scope.elements_of(node)
    return scope.add_elements(
        node, result, builder, number_operand(builder, number, result.dtype)
    )


@rule(aten.full.default, aten.full_like.default)
def _full(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    return fill(scope, node, scope.expr(node.args[1]))


@rule(aten.scalar_tensor.default)
def _scalar_tensor(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    return fill(scope, node, scope.expr(node.args[0]))


@rule(aten.empty.memory_format, aten.empty_strided.default, aten.empty_permuted.default)
def _empty(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    # Operators that draw random numbers take such tensors for their sizes only.
    for user in node.users:
        if torch.Tag.nondeterministic_seeded in getattr(user.target, "tags", ()):
            raise NotLoweredError("elements that nothing reads")
    return fill(scope, node, 0)


@rule(prims.iota.default)
def _iota(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    start, step = scope.expr(node.kwargs["start"]), scope.expr(node.kwargs["step"])
    return _progression(scope, node, start, step)


@rule(aten.arange.start_step)
def _arange(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    given: Sequence[Any] = [*node.args, 1][:3]
    start, _, step = scope.exprs(given)
    return _progression(scope, node, start, step)


def _progression(
    scope: LoopScope, node: torch.fx.Node, start: Expr, step: Expr
) -> IndexedTensor:
    """Append a nest of ``start + i * step``."""
    result, builder = scope.elements_of(node)
    (position,) = builder.point
    if isinstance(start, float) or isinstance(step, float):
        dtype = result.dtype if result.dtype.itemsize >= 4 else DType.F32
        at = builder.index_value(position, dtype)
        scaled = builder.apply(Op.MUL, at, number_operand(builder, step, dtype))
        value = builder.apply(Op.ADD, number_operand(builder, start, dtype), scaled)
    else:
        value = builder.index_value(add(start, mul(position, step)), result.dtype)
    return scope.add_elements(node, result, builder, value)
