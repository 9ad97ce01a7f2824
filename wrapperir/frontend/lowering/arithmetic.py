"""Rules of operators on elements with arguments of their own: factors, bounds, modes."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as KIND
from torch.fx.experimental.symbolic_shapes import statically_known_true

from wrapperir.frontend.aten.values import lower_dtype
from wrapperir.frontend.lowering.elementwise import (
    Compute,
    broadcast_point,
    build_elements,
    check_devices,
    compute_dtype,
    map_elements,
    number_operand,
    plain,
    zero,
)
from wrapperir.frontend.lowering.nest_builder import NestBuilder
from wrapperir.frontend.lowering.overwriting import keep_old_values
from wrapperir.frontend.lowering.rules import LATE_RULES, RULES, NotLoweredError, rule
from wrapperir.frontend.lowering.scope import LoopScope
from wrapperir.frontend.lowering.values import NodeValue
from wrapperir.ir import DType
from wrapperir.lowering.dtypes import HALVES
from wrapperir.lowering.scalar_op import ScalarOp as Op

aten: Any = torch.ops.aten
prims: Any = torch.ops.prims


def _sum(scope: LoopScope, node: torch.fx.Node, *, op: Op) -> NodeValue:
    """Lower ``add`` or ``sub``, whose second operand may have a factor."""
    first, second = node.args[:2]
    alpha = node.kwargs.get("alpha", node.args[2] if len(node.args) > 2 else 1)
    if set(node.kwargs) - {"alpha"}:
        raise NotLoweredError("unknown arguments")
    factor = scope.expr(alpha)

    def compute(builder: NestBuilder, values: Sequence[str]) -> str:
        left, right = values
        if factor != 1:
            number = number_operand(builder, factor, builder.dtype(right))
            right = builder.apply(Op.MUL, right, number)
        return builder.apply(op, left, right)

    return map_elements(scope, node, (first, second), KIND.DEFAULT, compute)


for _packet, _op in ((aten.add, Op.ADD), (aten.sub, Op.SUB)):
    RULES[_packet.Tensor] = RULES[_packet.Scalar] = partial(_sum, op=_op)


def _multiply_add(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    """Lower what Dynamo makes of ``addcmul_``, ``addcdiv_`` and ``lerp_``."""

    def compute(builder: NestBuilder, values: Sequence[str]) -> str:
        first, second, third = values
        return builder.apply(Op.ADD, builder.apply(Op.MUL, first, second), third)

    return map_elements(scope, node, node.args, KIND.DEFAULT, compute)


LATE_RULES["prims.fma.default"] = _multiply_add


@rule(aten.where.self, prims.where.default)
def _where(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    condition, *others = node.args
    dtype = scope.element_type(compute_dtype(others, KIND.NO_OPMATH))

    def compute(builder: NestBuilder, values: Sequence[str]) -> str:
        return builder.apply(Op.WHERE, *values)

    dtypes = [DType.BOOL, dtype, dtype]
    return build_elements(scope, node, (condition, *others), dtypes, compute)


def _limited(builder: NestBuilder, value: str, bound: str, op: Op) -> str:
    """Return the bound where ``value op bound`` holds or the bound is NaN.

    Zeros are equal: -0.0 stays where the bound is 0.0.
    """
    beyond = builder.apply(op, value, bound)
    if builder.dtype(bound).is_float:
        beyond = builder.apply(Op.OR, beyond, builder.apply(Op.ISNAN, bound))
    return builder.apply(Op.WHERE, beyond, bound, value)


@rule(aten.clamp.default, aten.clamp.Tensor)
def _clamp(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    x, *bounds = [*node.args, None, None][:3]
    low = node.kwargs.get("min", bounds[0])
    high = node.kwargs.get("max", bounds[1])
    operands = [each for each in (x, low, high) if each is not None]

    def compute(builder: NestBuilder, values: Sequence[str]) -> str:
        result, *others = values
        for bound, op in ((low, Op.LT), (high, Op.GT)):
            if bound is not None:
                result = _limited(builder, result, others.pop(0), op)
        return result

    return map_elements(scope, node, operands, KIND.DEFAULT, compute)


@rule(aten._to_copy.default, prims.convert_element_type.default)
def _convert(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    if set(node.kwargs) - {"dtype", "memory_format", "layout", "device", "pin_memory"}:
        raise NotLoweredError("unknown arguments")
    source = scope.tensor(node.args[0])
    check_devices(node.args[:1], node.meta["val"].device)
    return build_elements(scope, node, node.args[:1], [source.dtype], lambda _, x: x[0])


@rule(prims.div.default)
def _divide_alike(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    is_float = node.meta["val"].dtype.is_floating_point
    op = Op.DIV if is_float else Op.TRUNCDIV
    return map_elements(scope, node, node.args[:2], KIND.DEFAULT, plain(op))


@rule(aten.clone.default, aten.contiguous.default, aten.lift_fresh_copy.default)
def _clone(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    source = scope.tensor(node.args[0])
    return build_elements(scope, node, node.args[:1], [source.dtype], lambda _, x: x[0])


@rule(aten.copy.default)
def _copied(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    source = scope.tensor(node.args[1])
    return build_elements(scope, node, node.args[1:2], [source.dtype], lambda _, x: x[0])


def _checked_division(
    scope: LoopScope, node: torch.fx.Node, operands: Sequence[Any], op: Op
) -> NodeValue:
    """Lower a division of whole numbers, which has no result for a divisor of zero."""

    def compute(builder: NestBuilder, values: Sequence[str]) -> str:
        _, divisor = values
        if not builder.dtype(divisor).is_float and node.meta["val"].device.type == "cpu":
            is_known = isinstance(operands[1], int) and operands[1] != 0
            if not is_known:
                valid = builder.apply(Op.NE, divisor, zero(builder, divisor))
                builder.check(valid, "ZeroDivisionError")
        return builder.apply(op, *values)

    return map_elements(scope, node, operands, KIND.DEFAULT, compute)


@rule(aten.remainder.Tensor, aten.remainder.Scalar, aten.remainder.Scalar_Tensor)
def _remainder(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    return _checked_division(scope, node, node.args[:2], Op.REMAINDER)


@rule(aten.fmod.Tensor, aten.fmod.Scalar)
def _fmod(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    return _checked_division(scope, node, node.args[:2], Op.FMOD)


@rule(aten.div.Tensor_mode, aten.div.Scalar_mode)
def _divide_rounding(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    mode = node.kwargs.get("rounding_mode")
    operands = node.args[:2]
    if mode == "floor":
        return _checked_division(scope, node, operands, Op.FLOORDIV)
    if mode == "trunc" and _rounds_quotients(node, operands[1]):
        return map_elements(scope, node, operands, KIND.DEFAULT, _truncated_quotient(node))
    if mode == "trunc":
        return _checked_division(scope, node, operands, Op.TRUNCDIV)
    return map_elements(scope, node, operands, KIND.INT_TO_FLOAT, plain(Op.DIV))


def _rounds_quotients(node: torch.fx.Node, divisor: Any) -> bool:
    """Say whether eager rounds quotients of a half type before it truncates them.

    It does not where the divisor is one number on the CPU.
    """
    if not isinstance(divisor, torch.fx.Node) or _half_type(node) is None:
        return False
    example: Any = divisor.meta.get("val")
    if not isinstance(example, torch.Tensor):
        return False
    return example.device.type != "cpu" or not statically_known_true(example.numel() == 1)


def _half_type(node: torch.fx.Node) -> DType | None:
    dtype = lower_dtype(node.meta["val"].dtype)
    return dtype if dtype in HALVES else None


def _truncated_quotient(node: torch.fx.Node) -> Compute:
    """Return the computation of a quotient that is rounded to a half type, and truncated.

    A quotient just below a whole number becomes that number, so its rounding must stay
    where casts to half types and back are dropped: they are not, around the bits.
    """
    half = _half_type(node)
    assert half is not None

    def compute(builder: NestBuilder, values: Sequence[str]) -> str:
        quotient = builder.cast(builder.apply(Op.DIV, *values), half)
        quotient = builder.bitcast(builder.bitcast(quotient, DType.I16), half)
        return builder.apply(Op.TRUNC, builder.cast(quotient, DType.F32))

    return compute


@rule(aten.copy_.default)
def _copy(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    target, source = scope.tensor(node.args[0]), scope.tensor(node.args[1])
    check_devices(node.args[:2], node.meta["val"].device)
    if source.buffer == target.buffer:
        if source == target:
            return target
        fresh = scope.workspace(source.size, source.dtype, source)
        scope.copy(source, fresh, node.name)
        source = fresh
    keep_old_values(scope, node, target)
    builder = NestBuilder(target.size)
    point = broadcast_point(source, target.size, builder.point)
    builder.store(target, builder.point, builder.load(source, point))
    scope.add_nest(builder, node.name)
    return target
