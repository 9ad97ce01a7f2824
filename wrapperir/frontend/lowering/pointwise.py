"""Rules of operators that compute each element by itself."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from attrs import frozen
from torch import _prims_common
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as KIND

from wrapperir.frontend.lowering.nest_builder import NestBuilder
from wrapperir.frontend.lowering.rules import RULES, NotLoweredError, rule
from wrapperir.frontend.lowering.scope import LoopScope
from wrapperir.frontend.lowering.values import TensorValue, Value
from wrapperir.ir import DType, Expr
from wrapperir.lowering.scalar_op import ScalarOp as Op

aten: Any = torch.ops.aten
prims: Any = torch.ops.prims

Compute: TypeAlias = Callable[[NestBuilder, Sequence[str]], str]
"""Computes an element from operands of one dtype."""


def broadcast_point(
    tensor: TensorValue, size: Sequence[Expr], point: Sequence[Expr]
) -> tuple[Expr, ...]:
    """Return where a tensor that is broadcast to ``size`` has the element of a point."""
    missing = len(size) - len(tensor.size)
    return tuple(
        0 if extent == 1 else part
        for extent, part in zip(tensor.size, point[missing:], strict=True)
    )


@frozen
class Pointwise:
    """A rule: operands are converted to one dtype, and the result to that of the node.

    All arguments are operands, ``count`` of them.
    """

    compute: Compute
    kind: KIND = KIND.DEFAULT
    count: int = 1

    def __call__(self, scope: LoopScope, node: torch.fx.Node) -> Value:
        """Append the nest."""
        if node.kwargs or len(node.args) != self.count:
            raise NotLoweredError("more arguments than operands")
        return map_elements(scope, node, node.args, self.kind, self.compute)


def map_elements(
    scope: LoopScope,
    node: torch.fx.Node,
    operands: Sequence[Any],
    kind: KIND,
    compute: Compute,
) -> TensorValue:
    """Append a nest that computes the node's elements from operands, broadcast."""
    dtype = scope.element_type(compute_dtype(operands, kind))
    return build_elements(scope, node, operands, [dtype] * len(operands), compute)


def build_elements(
    scope: LoopScope,
    node: torch.fx.Node,
    operands: Sequence[Any],
    dtypes: Sequence[DType],
    compute: Compute,
) -> TensorValue:
    """Append a nest whose operands are converted to a dtype each."""
    example: torch.Tensor = node.meta["val"]
    check_devices(operands, example.device)
    result = scope.allocate(node.name, example)
    builder = NestBuilder(result.size)
    values = [
        read_operand(scope, builder, operand, dtype)
        for operand, dtype in zip(operands, dtypes, strict=True)
    ]
    builder.store(result, builder.point, compute(builder, values))
    scope.add_nest(builder, node.name)
    return result


def read_operand(scope: LoopScope, builder: NestBuilder, operand: Any, dtype: DType) -> str:
    """Return an operand's element at the builder's point, broadcast and converted."""
    if isinstance(operand, torch.fx.Node):
        value = scope.values[operand]
        if isinstance(value, TensorValue):
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


def _reciprocal(builder: NestBuilder, values: Sequence[str]) -> str:
    (x,) = values
    return builder.apply(Op.DIV, one(builder, x), x)


def sigmoid(builder: NestBuilder, values: Sequence[str]) -> str:
    """Return ``1 / (1 + exp(-x))``."""
    (x,) = values
    power = builder.apply(Op.EXP, builder.apply(Op.NEG, x))
    return builder.apply(
        Op.DIV, one(builder, x), builder.apply(Op.ADD, one(builder, x), power)
    )


def _relu(builder: NestBuilder, values: Sequence[str]) -> str:
    # -0.0 and NaN stay.
    (x,) = values
    is_less = builder.apply(Op.LT, x, zero(builder, x))
    return builder.apply(Op.WHERE, is_less, zero(builder, x), x)


def _square(builder: NestBuilder, values: Sequence[str]) -> str:
    (x,) = values
    return builder.apply(Op.MUL, x, x)


def _is_finite(builder: NestBuilder, values: Sequence[str]) -> str:
    (x,) = values
    strange = builder.apply(Op.OR, builder.apply(Op.ISNAN, x), builder.apply(Op.ISINF, x))
    return builder.apply(Op.NOT, strange)


def _infinity(sign: int) -> Compute:
    def compute(builder: NestBuilder, values: Sequence[str]) -> str:
        (x,) = values
        if not builder.dtype(x).is_float:
            return builder.literal(False, DType.BOOL)
        bound = builder.literal(sign * float("inf"), builder.dtype(x))
        return builder.apply(Op.EQ, x, bound)

    return compute


def _of_bools(op: Op) -> Compute:
    """Return an operator on the truth of its operands."""

    def compute(builder: NestBuilder, values: Sequence[str]) -> str:
        return builder.apply(op, *(truth(builder, value) for value in values))

    return compute


def truth(builder: NestBuilder, value: str) -> str:
    """Return whether a value is not zero."""
    return builder.cast(value, DType.BOOL)


def _sign_bit(builder: NestBuilder, values: Sequence[str]) -> str:
    (x,) = values
    if builder.dtype(x).is_float:
        return builder.apply(Op.SIGNBIT, x)
    return builder.apply(Op.LT, x, zero(builder, x))


def _is_nan(builder: NestBuilder, values: Sequence[str]) -> str:
    (x,) = values
    if builder.dtype(x).is_float:
        return builder.apply(Op.ISNAN, x)
    return builder.literal(False, DType.BOOL)


def _is_inf(builder: NestBuilder, values: Sequence[str]) -> str:
    (x,) = values
    if builder.dtype(x).is_float:
        return builder.apply(Op.ISINF, x)
    return builder.literal(False, DType.BOOL)


_FLOAT = KIND.INT_TO_FLOAT
_BOOL = KIND.ALWAYS_BOOL

_FUNCTIONS = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "erfc"),
    *("exp", "exp2", "expm1", "lgamma", "log", "log10", "log1p", "log2", "rsqrt", "sin"),
    *("sinh", "sqrt", "tan", "tanh"),
)

_UNARY: dict[str, tuple[Compute, KIND]] = {
    **{name: (plain(Op(name)), _FLOAT) for name in _FUNCTIONS},
    "abs": (plain(Op.ABS), KIND.DEFAULT),
    "neg": (plain(Op.NEG), KIND.DEFAULT),
    "sign": (plain(Op.SIGN), KIND.DEFAULT),
    "sgn": (plain(Op.SIGN), KIND.DEFAULT),
    "floor": (plain(Op.FLOOR), KIND.DEFAULT),
    "ceil": (plain(Op.CEIL), KIND.DEFAULT),
    "trunc": (plain(Op.TRUNC), KIND.DEFAULT),
    "round": (plain(Op.ROUND), KIND.DEFAULT),
    "bitwise_not": (plain(Op.BITNOT), KIND.DEFAULT),
    "logical_not": (_of_bools(Op.NOT), _BOOL),
    "reciprocal": (_reciprocal, _FLOAT),
    "sigmoid": (sigmoid, _FLOAT),
    "relu": (_relu, KIND.DEFAULT),
    "square": (_square, KIND.BOOL_TO_LONG),
    "isnan": (_is_nan, _BOOL),
    "isinf": (_is_inf, _BOOL),
    "isfinite": (_is_finite, _BOOL),
    "isposinf": (_infinity(1), _BOOL),
    "isneginf": (_infinity(-1), _BOOL),
    "signbit": (_sign_bit, _BOOL),
}

_BINARY: dict[str, tuple[Compute, KIND]] = {
    "mul": (plain(Op.MUL), KIND.DEFAULT),
    "div": (plain(Op.DIV), _FLOAT),
    "true_divide": (plain(Op.DIV), _FLOAT),
    "maximum": (plain(Op.MAXIMUM), KIND.DEFAULT),
    "minimum": (plain(Op.MINIMUM), KIND.DEFAULT),
    "fmax": (plain(Op.FMAX), KIND.DEFAULT),
    "fmin": (plain(Op.FMIN), KIND.DEFAULT),
    "pow": (plain(Op.POW), KIND.BOOL_TO_LONG),
    "atan2": (plain(Op.ATAN2), _FLOAT),
    "hypot": (plain(Op.HYPOT), KIND.DEFAULT),
    "copysign": (plain(Op.COPYSIGN), _FLOAT),
    "nextafter": (plain(Op.NEXTAFTER), KIND.NO_OPMATH),
    "eq": (plain(Op.EQ), _BOOL),
    "ne": (plain(Op.NE), _BOOL),
    "lt": (plain(Op.LT), _BOOL),
    "le": (plain(Op.LE), _BOOL),
    "gt": (plain(Op.GT), _BOOL),
    "ge": (plain(Op.GE), _BOOL),
    "logical_and": (_of_bools(Op.AND), _BOOL),
    "logical_or": (_of_bools(Op.OR), _BOOL),
    "logical_xor": (_of_bools(Op.XOR), _BOOL),
    "bitwise_and": (plain(Op.AND), KIND.DEFAULT),
    "bitwise_or": (plain(Op.OR), KIND.DEFAULT),
    "bitwise_xor": (plain(Op.XOR), KIND.DEFAULT),
    "bitwise_left_shift": (plain(Op.SHL), KIND.DEFAULT),
    "bitwise_right_shift": (plain(Op.SHR), KIND.DEFAULT),
    "__lshift__": (plain(Op.SHL), KIND.DEFAULT),
    "__rshift__": (plain(Op.SHR), KIND.DEFAULT),
}


_PRIMS = (
    *("abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh"),
    *("bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "ceil", "copysign", "cos"),
    *("cosh", "eq", "erf", "erfc", "exp", "exp2", "expm1", "floor", "fmax", "fmin", "fmod"),
    *("ge", "gt", "hypot", "le", "lgamma", "log", "log10", "log1p", "log2", "lt"),
    *("maximum", "minimum", "mul", "ne", "neg", "nextafter", "pow", "reciprocal"),
    *("remainder", "round", "rsqrt", "shift_left", "sign", "signbit", "sin", "sinh"),
    *("sqrt", "sub", "tan", "tanh", "trunc"),
)
_PRIM_NAMES = {"shift_left": Op.SHL}


def _register_prims() -> None:
    """Register operators whose operands have one dtype."""
    for name in _PRIMS:
        found = _UNARY.get(name)
        count = 1 if found is not None else 2
        if found is None:
            found = _BINARY.get(name)
        if found is None:
            found = plain(_PRIM_NAMES.get(name) or Op(name)), KIND.DEFAULT
        compute, kind = found
        operator = getattr(prims, name, None)
        if operator is not None:
            RULES[operator.default] = Pointwise(compute, kind, count)
    RULES[prims.where.default] = _where


def _register() -> None:
    for table, count in ((_UNARY, 1), (_BINARY, 2)):
        for name, (compute, kind) in table.items():
            packet = getattr(aten, name, None)
            if packet is None:
                continue
            for overload in packet.overloads():
                if overload in ("default", "Tensor", "Scalar", "Tensor_Tensor") or (
                    overload in ("Tensor_Scalar", "Scalar_Tensor")
                ):
                    RULES[getattr(packet, overload)] = Pointwise(compute, kind, count)


_register()


def _sum(op: Op) -> Callable[[LoopScope, torch.fx.Node], Value]:
    """Return the rule of ``add`` or ``sub``, whose second operand may have a factor."""

    def lower(scope: LoopScope, node: torch.fx.Node) -> Value:
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

    return lower


RULES[aten.add.Tensor] = RULES[aten.add.Scalar] = _sum(Op.ADD)
RULES[aten.sub.Tensor] = RULES[aten.sub.Scalar] = _sum(Op.SUB)


@rule(aten.rsub.Tensor, aten.rsub.Scalar)
def _rsub(scope: LoopScope, node: torch.fx.Node) -> Value:
    """Lower ``other - alpha * x``."""
    alpha = node.kwargs.get("alpha", node.args[2] if len(node.args) > 2 else 1)
    factor = scope.expr(alpha)

    def compute(builder: NestBuilder, values: Sequence[str]) -> str:
        right, left = values
        if factor != 1:
            number = number_operand(builder, factor, builder.dtype(right))
            right = builder.apply(Op.MUL, right, number)
        return builder.apply(Op.SUB, left, right)

    return map_elements(scope, node, node.args[:2], KIND.DEFAULT, compute)


@rule(aten.where.self, aten.where.ScalarSelf, aten.where.ScalarOther, aten.where.Scalar)
def _where(scope: LoopScope, node: torch.fx.Node) -> Value:
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
def _clamp(scope: LoopScope, node: torch.fx.Node) -> Value:
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
def _convert(scope: LoopScope, node: torch.fx.Node) -> Value:
    if set(node.kwargs) - {"dtype", "memory_format", "layout", "device", "pin_memory"}:
        raise NotLoweredError("unknown arguments")
    source = scope.tensor(node.args[0])
    check_devices(node.args[:1], node.meta["val"].device)
    return build_elements(scope, node, node.args[:1], [source.dtype], lambda _, x: x[0])


@rule(prims.div.default)
def _divide_alike(scope: LoopScope, node: torch.fx.Node) -> Value:
    is_float = node.meta["val"].dtype.is_floating_point
    op = Op.DIV if is_float else Op.TRUNCDIV
    return map_elements(scope, node, node.args[:2], KIND.DEFAULT, plain(op))


@rule(aten.clone.default, aten.contiguous.default, aten.lift_fresh_copy.default)
def _clone(scope: LoopScope, node: torch.fx.Node) -> Value:
    source = scope.tensor(node.args[0])
    return build_elements(scope, node, node.args[:1], [source.dtype], lambda _, x: x[0])


@rule(aten.copy.default)
def _copied(scope: LoopScope, node: torch.fx.Node) -> Value:
    source = scope.tensor(node.args[1])
    return build_elements(scope, node, node.args[1:2], [source.dtype], lambda _, x: x[0])


def _checked_division(
    scope: LoopScope, node: torch.fx.Node, operands: Sequence[Any], op: Op
) -> Value:
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


@rule(aten.floor_divide.default, aten.floor_divide.Scalar)
def _floor_divide(scope: LoopScope, node: torch.fx.Node) -> Value:
    return _checked_division(scope, node, node.args[:2], Op.FLOORDIV)


@rule(aten.remainder.Tensor, aten.remainder.Scalar, aten.remainder.Scalar_Tensor)
def _remainder(scope: LoopScope, node: torch.fx.Node) -> Value:
    return _checked_division(scope, node, node.args[:2], Op.REMAINDER)


@rule(aten.fmod.Tensor, aten.fmod.Scalar)
def _fmod(scope: LoopScope, node: torch.fx.Node) -> Value:
    return _checked_division(scope, node, node.args[:2], Op.FMOD)


@rule(aten.div.Tensor_mode, aten.div.Scalar_mode)
def _divide_rounding(scope: LoopScope, node: torch.fx.Node) -> Value:
    mode = node.kwargs.get("rounding_mode")
    operands = node.args[:2]
    if mode == "floor":
        return _checked_division(scope, node, operands, Op.FLOORDIV)
    if mode == "trunc":
        return _checked_division(scope, node, operands, Op.TRUNCDIV)
    return map_elements(scope, node, operands, _FLOAT, plain(Op.DIV))


@rule(aten.addcmul.default, aten.addcdiv.default)
def _add_scaled(scope: LoopScope, node: torch.fx.Node) -> Value:
    is_product = node.target is aten.addcmul.default
    factor = scope.expr(node.kwargs.get("value", 1))

    def compute(builder: NestBuilder, values: Sequence[str]) -> str:
        x, left, right = values
        number = number_operand(builder, factor, builder.dtype(x))
        scaled = left if factor == 1 else builder.apply(Op.MUL, number, left)
        part = builder.apply(Op.MUL if is_product else Op.DIV, scaled, right)
        return builder.apply(Op.ADD, x, part)

    kind = KIND.DEFAULT if is_product else _FLOAT
    return map_elements(scope, node, node.args[:3], kind, compute)


@rule(aten.copy_.default)
def _copy(scope: LoopScope, node: torch.fx.Node) -> Value:
    target, source = scope.tensor(node.args[0]), scope.tensor(node.args[1])
    check_devices(node.args[:2], node.meta["val"].device)
    if source.buffer == target.buffer:
        if source == target:
            return target
        fresh = scope.workspace(source.size, source.dtype, source)
        scope.copy(source, fresh, node.name)
        source = fresh
    builder = NestBuilder(target.size)
    point = broadcast_point(source, target.size, builder.point)
    builder.store(target, builder.point, builder.load(source, point))
    scope.add_nest(builder, node.name)
    return target


_register_prims()
