"""Rules of operators on elements that a table says: one computation, one promotion."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from attrs import frozen
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as KIND

from wrapperir.frontend.lowering.elementwise import (
    Compute,
    build_elements,
    compute_dtype,
    map_elements,
    one,
    plain,
    zero,
)
from wrapperir.frontend.lowering.nest_builder import NestBuilder
from wrapperir.frontend.lowering.rules import RULES, NotLoweredError
from wrapperir.frontend.lowering.scope import LoopScope
from wrapperir.frontend.lowering.values import NodeValue
from wrapperir.ir import DType
from wrapperir.lowering.scalar_op import ScalarOp as Op
from wrapperir.lowering.scalar_op import operand_count

aten: Any = torch.ops.aten
prims: Any = torch.ops.prims

_OfSquare: TypeAlias = Callable[[NestBuilder, str, str], str]
"""Computes an element from its operand's square and its operand."""


@frozen
class Pointwise:
    """A rule: operands are converted to one dtype, and the result to that of the node.

    All arguments are operands, ``count`` of them.
    """

    compute: Compute
    kind: KIND = KIND.DEFAULT
    count: int = 1

    def __call__(self, scope: LoopScope, node: torch.fx.Node) -> NodeValue:
        """Append the nest."""
        if node.kwargs or len(node.args) != self.count:
            raise NotLoweredError("more arguments than operands")
        return map_elements(scope, node, node.args, self.kind, self.compute)


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


def _cube(builder: NestBuilder, square: str, x: str) -> str:
    return builder.apply(Op.MUL, square, x)


def _inverse_square(builder: NestBuilder, square: str, _: str) -> str:
    return _reciprocal(builder, [square])


def _of_square(function: _OfSquare, kept: DType) -> Compute:
    """Return the computation of a power from the square, which is rounded to a dtype."""

    def compute(builder: NestBuilder, values: Sequence[str]) -> str:
        (x,) = values
        square = builder.cast(_square(builder, values), kept)
        return function(builder, builder.cast(square, builder.dtype(x)), x)

    return compute


_POWERS: dict[float, Compute] = {
    **{2: _square, -1: _reciprocal, 0.5: plain(Op.SQRT), -0.5: plain(Op.RSQRT)},
}
_POWERS_OF_SQUARES: dict[float, _OfSquare] = {3: _cube, -2: _inverse_square}
"""Powers of real numbers that eager computes with other operators."""


def _power(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    base, exponent = node.args
    dtype = compute_dtype(node.args, KIND.BOOL_TO_LONG)
    example: torch.Tensor = node.meta["val"]
    compute: Compute | None = None
    if isinstance(exponent, int | float):
        compute = _POWERS.get(exponent)
        of_square = _POWERS_OF_SQUARES.get(exponent)
        if of_square is not None:
            # Eager computes powers of f16 in f32 on CPUs.
            in_f32 = example.dtype is torch.float16 and example.device.type == "cpu"
            kept = scope.element_type(dtype if in_f32 else example.dtype)
            compute = _of_square(of_square, kept)
    if compute is None or not dtype.is_floating_point:
        return Pointwise(plain(Op.POW), KIND.BOOL_TO_LONG, 2)(scope, node)
    return build_elements(scope, node, [base], [scope.element_type(dtype)], compute)


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
    "_neg_view": (plain(Op.NEG), KIND.DEFAULT),  # nothing else is told what is negated
    "sign": (plain(Op.SIGN), KIND.DEFAULT),
    "floor": (plain(Op.FLOOR), KIND.DEFAULT),
    "ceil": (plain(Op.CEIL), KIND.DEFAULT),
    "trunc": (plain(Op.TRUNC), KIND.DEFAULT),
    "round": (plain(Op.ROUND), KIND.DEFAULT),
    "bitwise_not": (plain(Op.BITNOT), KIND.DEFAULT),
    "logical_not": (_of_bools(Op.NOT), _BOOL),
    "reciprocal": (_reciprocal, _FLOAT),
    "sigmoid": (sigmoid, _FLOAT),
    "relu": (_relu, KIND.DEFAULT),
    "isnan": (_is_nan, _BOOL),
    "isinf": (_is_inf, _BOOL),
    "signbit": (_sign_bit, _BOOL),
}

_BINARY: dict[str, tuple[Compute, KIND]] = {
    "mul": (plain(Op.MUL), KIND.DEFAULT),
    "div": (plain(Op.DIV), _FLOAT),
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
    "shift_left": (plain(Op.SHL), KIND.DEFAULT),
}


def _register_prims() -> None:
    """Register operators whose operands have one dtype."""
    plainly = {op.value: (plain(op), KIND.DEFAULT) for op in Op if op is not Op.WHERE}
    table = {**plainly, **_UNARY, **_BINARY}
    counts = {op.value: operand_count(op) for op in Op}
    counts |= dict.fromkeys(_UNARY, 1) | dict.fromkeys(_BINARY, 2)
    del table["div"]  # whose kind decides how it rounds
    for name, (compute, kind) in table.items():
        operator = getattr(prims, name, None)
        if operator is not None:
            count = (
                operand_count(Op(name)) if name in plainly else 1 if name in _UNARY else 2
            )
            RULES[operator.default] = Pointwise(compute, kind, count)


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
_register_prims()
RULES[aten.pow.Tensor_Scalar] = _power
