"""Eager's functions of operators on elements, reductions, scans and indices, on tensors.

Of ``u16``, ``u32`` and ``u64`` eager has hardly any: they are computed in ``i64``, where
``u64`` wraps at the same place but compares as signed.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce

import torch

from wrapperir.ir import (
    VARIADIC,
    DType,
    Expr,
    ExprOp,
    Operation,
    Symbol,
    evaluate,
    symbols_in,
)
from wrapperir.lowering.scalar_op import ReduceOp, ScalarOp, reduced_dtypes

_OPERATORS: Mapping[ScalarOp, Callable[..., torch.Tensor]] = {
    ScalarOp.FLOORDIV: partial(torch.div, rounding_mode="floor"),
    ScalarOp.TRUNCDIV: partial(torch.div, rounding_mode="trunc"),
    ScalarOp.NOT: torch.logical_not,
    ScalarOp.BITNOT: torch.bitwise_not,
    ScalarOp.AND: torch.bitwise_and,
    ScalarOp.OR: torch.bitwise_or,
    ScalarOp.XOR: torch.bitwise_xor,
    ScalarOp.SHL: torch.bitwise_left_shift,
    ScalarOp.SHR: torch.bitwise_right_shift,
}


def _ceildiv(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return -torch.floor_divide(-a, b)


def _where(holds: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.where(holds.bool(), a, b)


def _whole(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def convert(value: torch.Tensor) -> torch.Tensor:
        return function(value).long()

    return convert


_INDEX: Mapping[ExprOp, Callable[..., torch.Tensor]] = {
    ExprOp.ADD: torch.add,
    ExprOp.SUB: torch.sub,
    ExprOp.MUL: torch.mul,
    ExprOp.NEG: torch.neg,
    ExprOp.ABS: torch.abs,
    ExprOp.TRUEDIV: torch.true_divide,
    ExprOp.FLOORDIV: torch.floor_divide,
    ExprOp.CEILDIV: _ceildiv,
    ExprOp.MOD: torch.remainder,
    ExprOp.POW: torch.pow,
    ExprOp.MIN: torch.minimum,
    ExprOp.MAX: torch.maximum,
    ExprOp.EQ: torch.eq,
    ExprOp.NE: torch.ne,
    ExprOp.LT: torch.lt,
    ExprOp.LE: torch.le,
    ExprOp.GT: torch.gt,
    ExprOp.GE: torch.ge,
    ExprOp.AND: torch.logical_and,
    ExprOp.OR: torch.logical_or,
    ExprOp.NOT: torch.logical_not,
    ExprOp.WHERE: _where,
    ExprOp.SHL: torch.bitwise_left_shift,
    ExprOp.SHR: torch.bitwise_right_shift,
    ExprOp.BITAND: torch.bitwise_and,
    ExprOp.BITOR: torch.bitwise_or,
    ExprOp.BITXOR: torch.bitwise_xor,
    ExprOp.TO_FLOAT: torch.Tensor.double,
    ExprOp.FLOOR: _whole(torch.floor),
    ExprOp.CEIL: _whole(torch.ceil),
    ExprOp.TRUNC: _whole(torch.trunc),
    ExprOp.ROUND: _whole(torch.round),
    ExprOp.SQRT: torch.sqrt,
    ExprOp.LOG2: torch.log2,
}
_WIDENED = frozenset({torch.uint16, torch.uint32, torch.uint64})


def dtype_in_torch(dtype: DType) -> torch.dtype:
    """Return torch's name of a dtype."""
    found: torch.dtype = getattr(torch, dtype.torch_name)
    return found


def number_tensor(value: int | float | bool, dtype: DType) -> torch.Tensor:
    """Return a tensor of one number, converted as ``Tensor.fill_`` does: wrapped."""
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        value = (value + (1 << 63)) % (1 << 64) - (1 << 63)
    exact = torch.float64 if isinstance(value, float) else None
    return torch.tensor(value, dtype=exact).to(dtype_in_torch(dtype))


def eager_operator(op: ScalarOp) -> Callable[..., torch.Tensor]:
    """Return eager's function of an operator other than casts."""
    found: Callable[..., torch.Tensor] = _OPERATORS.get(op) or getattr(torch, op.value)
    return found


def apply_operator(
    op: ScalarOp, dtype: DType, operands: Sequence[torch.Tensor]
) -> torch.Tensor:
    """Return an operator's results, of ``dtype``, for tensors that are broadcast."""
    kind = dtype_in_torch(dtype)
    if op is ScalarOp.CAST:
        return operands[0].to(kind)
    if op is ScalarOp.BITCAST:
        return operands[0].view(kind)
    return eager_operator(op)(*map(_widened, operands)).to(kind)


def index_values(
    expr: Expr, places: Mapping[str, torch.Tensor], symbols: Mapping[str, int | float]
) -> torch.Tensor:
    """Return the values of an index expression, for axes and values that are tensors.

    What size symbols alone decide has no dimensions.

    Raises:
        EvaluationError: a name is unknown, or an expression over sizes has no value.
    """
    if isinstance(expr, Symbol) and expr.name in places:
        return places[expr.name]
    if not isinstance(expr, Operation) or places.keys().isdisjoint(symbols_in(expr)):
        return torch.tensor(evaluate(expr, symbols))
    args = [index_values(arg, places, symbols) for arg in expr.args]
    function = _INDEX[expr.op]
    return reduce(function, args) if expr.op in VARIADIC else function(*args)


def reduce_rows(
    op: ReduceOp, dtype: DType, operands: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    """Return the results of a reduction along the last dimension of ``operands``."""
    return _converted(_reduced(op, [_widened(each) for each in operands]), op, dtype)


def scan_rows(
    op: ReduceOp, dtype: DType, operands: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    """Return the results of a scan along the last dimension of ``operands``."""
    (value,) = map(_widened, operands)
    if op in (ReduceOp.SUM, ReduceOp.PROD):
        add = torch.cumsum if op is ReduceOp.SUM else torch.cumprod
        return (add(value, -1, dtype=value.dtype).to(dtype_in_torch(dtype)),)
    is_least = op in (ReduceOp.MIN, ReduceOp.ARGMIN)
    extremes, places = (torch.cummin if is_least else torch.cummax)(value, -1)
    both = extremes.to(dtype_in_torch(dtype)), places
    return both if op in (ReduceOp.ARGMIN, ReduceOp.ARGMAX) else both[:1]


def _widened(value: torch.Tensor) -> torch.Tensor:
    return value.long() if value.dtype in _WIDENED else value


def _converted(
    values: Sequence[torch.Tensor], op: ReduceOp, dtype: DType
) -> tuple[torch.Tensor, ...]:
    wanted = map(dtype_in_torch, reduced_dtypes(op, dtype))
    return tuple(value.to(kind) for value, kind in zip(values, wanted, strict=True))


def _reduced(op: ReduceOp, operands: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    value = operands[0]
    match op:
        case ReduceOp.SUM:
            return (value.sum(-1, dtype=value.dtype),)
        case ReduceOp.PROD:
            return (value.prod(-1, dtype=value.dtype),)
        case ReduceOp.MIN:
            return (value.amin(-1),)
        case ReduceOp.MAX:
            return (value.amax(-1),)
        case ReduceOp.ANY:
            return (value.any(-1),)
        case ReduceOp.ALL:
            return (value.all(-1),)
        case ReduceOp.ARGMIN | ReduceOp.ARGMAX:
            if value.dtype is torch.bool:
                value = value.byte()
            return (value.argmin(-1) if op is ReduceOp.ARGMIN else value.argmax(-1),)
        case ReduceOp.ONLINE_SOFTMAX:
            peak = value.amax(-1)
            return (peak, (value - peak[..., None]).exp().sum(-1))
        case ReduceOp.WELFORD:
            return _moments(operands)


def _moments(operands: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """Return means, sums of squared differences from them, and counts."""
    if len(operands) == 1:
        (means,) = operands
        squares, counts = torch.zeros_like(means), torch.ones_like(means)
    else:
        means, squares, counts = operands
    total = counts.sum(-1)
    mean = (means * counts).sum(-1) / total.clamp(min=1)
    apart = (means - mean[..., None]).square() * counts
    return mean, (squares + apart).sum(-1), total
