"""Rules of the negative log likelihood loss and its gradient."""

from collections.abc import Sequence
from typing import Any

import torch
from attrs import frozen
from torch.nn._reduction import get_enum

from wrapperir.frontend.lowering.elementwise import number_operand
from wrapperir.frontend.lowering.nest_builder import NestBuilder
from wrapperir.frontend.lowering.norms import optional
from wrapperir.frontend.lowering.reduction_space import accumulated, arguments
from wrapperir.frontend.lowering.rules import NotLoweredError, rule
from wrapperir.frontend.lowering.scope import LoopScope
from wrapperir.frontend.lowering.values import IndexedTensor, NodeValue
from wrapperir.ir import DType, Expr, Symbol
from wrapperir.lowering.scalar_op import ReduceOp
from wrapperir.lowering.scalar_op import ScalarOp as Op

aten: Any = torch.ops.aten

MEAN = get_enum("mean")


@frozen(kw_only=True)
class _Loss:
    """The tensors of a loss: ``input`` has a value for each class, at ``channel``."""

    input: IndexedTensor
    target: IndexedTensor
    weight: IndexedTensor | None
    ignored: Expr
    channel: int

    @property
    def dtype(self) -> DType:
        """The dtype of arithmetic."""
        return accumulated(self.input.dtype)

    def load_target(self, builder: NestBuilder, point: Sequence[Expr]) -> tuple[str, str]:
        """Return the class at a point of the target, and whether it counts."""
        target = builder.cast(builder.load(self.target, point), DType.I64)
        ignored = number_operand(builder, self.ignored, DType.I64)
        return target, builder.apply(Op.NE, target, ignored)

    def term(
        self, builder: NestBuilder, point: Sequence[Expr], *, checks: bool
    ) -> tuple[str, str]:
        """Return the loss at a point of the target, and its weight; 0 where ignored."""
        target, counts = self.load_target(builder, point)
        classes = builder.index_value(self.input.size[self.channel], DType.I64)
        least = builder.literal(0, DType.I64)
        valid = builder.apply(
            Op.AND,
            builder.apply(Op.GE, target, least),
            builder.apply(Op.LT, target, classes),
        )
        if checks:
            builder.check(valid, "Target is out of bounds.", mask=counts)
        read = builder.apply(Op.AND, counts, valid)
        place = self.input_point(point, Symbol(target))
        value = builder.cast(builder.load(self.input, place, mask=read), self.dtype)
        loss = builder.apply(Op.SUB, number_operand(builder, 0, self.dtype), value)
        if self.weight is None:
            return loss, builder.cast(counts, self.dtype)
        weight = builder.load(self.weight, [Symbol(target)], mask=read)
        weight = builder.cast(weight, self.dtype)
        return builder.apply(Op.MUL, loss, weight), weight

    def input_point(self, point: Sequence[Expr], place: Expr) -> tuple[Expr, ...]:
        """Return the point of the input for a point of the target and a class."""
        return (*point[: self.channel], place, *point[self.channel :])


def _loss(scope: LoopScope, node: torch.fx.Node) -> _Loss:
    given = arguments(node)
    input, target = scope.tensor(given["self"]), scope.tensor(given["target"])
    if len(target.size) != len(input.size) - 1:
        raise NotLoweredError("a target of one element for an input of one dimension")
    return _Loss(
        input=input,
        target=target,
        weight=optional(scope, given["weight"]),
        ignored=scope.expr(given["ignore_index"]),
        channel=min(len(target.size), 1),
    )


@rule(aten.nll_loss_forward.default, aten.nll_loss2d_forward.default)
def _nll_loss(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    """Lower to the loss and the total weight, which is 0 where losses are not reduced."""
    loss = _loss(scope, node)
    reduction = arguments(node)["reduction"]
    examples = node.meta["val"]
    result = scope.allocate(node.name, examples[0])
    total = scope.allocate(f"{node.name}_weight", examples[1])
    checks = examples[0].device.type == "cpu"
    if result.size:
        builder = NestBuilder(result.size)
        value, _ = loss.term(builder, builder.point, checks=checks)
        builder.store(result, builder.point, value)
        scope.add_nest(builder, node.name)
        builder = NestBuilder(())
        builder.store(total, (), builder.literal(0, total.dtype))
        scope.add_nest(builder, f"{node.name}_weight")
        return result, total
    builder = NestBuilder(())
    with builder.inner(loss.target.size or (1,)) as inner:
        point = inner if loss.target.size else ()
        term, weight = loss.term(builder, point, checks=checks)
        (value,) = builder.reduce(ReduceOp.SUM, term)
        (weights,) = builder.reduce(ReduceOp.SUM, weight)
    if reduction == MEAN:
        value = builder.apply(Op.DIV, value, weights)
    builder.store(result, (), value)
    builder.store(total, (), weights)
    scope.add_nest(builder, node.name)
    return result, total


@rule(aten.nll_loss_backward.default, aten.nll_loss2d_backward.default)
def _nll_loss_backward(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    """Lower to one nest of elements: only that of the target's class is not 0."""
    given = arguments(node)
    loss = _loss(scope, node)
    gradient = scope.tensor(given["grad_output"])
    total = scope.tensor(given["total_weight"])
    result = scope.allocate(node.name, node.meta["val"])
    builder = NestBuilder(result.size)
    point = builder.point
    place = point[loss.channel]
    rest = (*point[: loss.channel], *point[loss.channel + 1 :])
    target, counts = loss.load_target(builder, rest)
    is_target = builder.apply(Op.EQ, target, builder.index_value(place, DType.I64))
    value = builder.cast(builder.load(gradient, rest if gradient.size else ()), loss.dtype)
    if loss.weight is not None:
        weight = builder.cast(builder.load(loss.weight, [place]), loss.dtype)
        value = builder.apply(Op.MUL, value, weight)
    if given["reduction"] == MEAN:
        divisor = builder.cast(builder.load(total, ()), loss.dtype)
        value = builder.apply(Op.DIV, value, divisor)
    value = builder.apply(
        Op.WHERE,
        builder.apply(Op.AND, is_target, counts),
        builder.apply(Op.NEG, value),
        number_operand(builder, 0, loss.dtype),
    )
    builder.store(result, point, value)
    scope.add_nest(builder, node.name)
    return result
