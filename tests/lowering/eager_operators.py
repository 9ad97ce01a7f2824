"""Eager's functions of the operators of nests, and numbers that tell them apart."""

from collections.abc import Callable, Mapping
from functools import partial

import torch

from wrapperir.ir import DType
from wrapperir.lowering.scalar_op import ScalarOp

FLOATS = (DType.F32, DType.F64)
WHOLE = (DType.I64, DType.I32, DType.I16, DType.I8, DType.U8)
LENGTH = 61
_OF_BOTH = frozenset(
    {
        *(ScalarOp.NEG, ScalarOp.ABS, ScalarOp.SIGN, ScalarOp.ADD, ScalarOp.SUB),
        *(ScalarOp.MUL, ScalarOp.FLOORDIV, ScalarOp.TRUNCDIV, ScalarOp.REMAINDER),
        *(ScalarOp.FMOD, ScalarOp.POW, ScalarOp.MINIMUM, ScalarOp.MAXIMUM, ScalarOp.EQ),
        *(ScalarOp.NE, ScalarOp.LT, ScalarOp.LE, ScalarOp.GT, ScalarOp.GE),
        *(ScalarOp.FLOOR, ScalarOp.CEIL, ScalarOp.TRUNC, ScalarOp.ROUND),
    }
)
_OF_WHOLE = frozenset(
    {
        *(ScalarOp.BITNOT, ScalarOp.AND, ScalarOp.OR, ScalarOp.XOR),
        *(ScalarOp.SHL, ScalarOp.SHR),
    }
)
_OF_BOOLS = frozenset(
    {
        *(ScalarOp.NOT, ScalarOp.AND, ScalarOp.OR, ScalarOp.XOR, ScalarOp.EQ),
        *(ScalarOp.NE, ScalarOp.LT, ScalarOp.LE, ScalarOp.GT, ScalarOp.GE),
        *(ScalarOp.MINIMUM, ScalarOp.MAXIMUM, ScalarOp.ADD, ScalarOp.MUL),
        *(ScalarOp.SIGN, ScalarOp.ISNAN, ScalarOp.ISINF, ScalarOp.SIGNBIT),
    }
)
_NOT_OF_FLOATS = frozenset(
    {ScalarOp.CAST, ScalarOp.BITCAST, ScalarOp.WHERE, ScalarOp.NOT, *_OF_WHOLE}
)
_OF_HALVES = _OF_BOTH - {ScalarOp.POW, ScalarOp.FLOORDIV} | {ScalarOp.DIV, ScalarOp.ISNAN}
DIVISIONS = frozenset(
    {ScalarOp.FLOORDIV, ScalarOp.TRUNCDIV, ScalarOp.REMAINDER, ScalarOp.FMOD}
)
_NAMED: Mapping[ScalarOp, Callable[..., torch.Tensor]] = {
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


def operators_of(dtype: DType) -> list[ScalarOp]:
    """Return the operators that take a dtype."""
    if dtype is DType.BOOL:
        return [op for op in ScalarOp if op in _OF_BOOLS]
    if dtype in (DType.F16, DType.BF16):
        return [op for op in ScalarOp if op in _OF_HALVES]
    if dtype.is_float:
        return [op for op in ScalarOp if op not in _NOT_OF_FLOATS]
    found = [op for op in ScalarOp if op in _OF_BOTH | _OF_WHOLE]
    if dtype is not DType.U8:  # eager's sign bit is that of signed dtypes
        found.append(ScalarOp.SIGNBIT)
    return found


def eager(op: ScalarOp) -> Callable[..., torch.Tensor]:
    """Return eager's function of an operator."""
    found = _NAMED.get(op)
    return getattr(torch, op.value) if found is None else found


def numbers(dtype: DType, seed: int, length: int = LENGTH) -> torch.Tensor:
    """Return numbers of a dtype, with special ones among them."""
    generator = torch.Generator().manual_seed(seed)
    kind = getattr(torch, dtype.torch_name)
    if dtype is DType.BOOL:
        return torch.rand(length, generator=generator) > 0.5
    if dtype.is_float:
        inf, nan = float("inf"), float("nan")
        special = [0.0, -0.0, 1, -1, inf, -inf, nan, 0.5, -0.5, 1.5, 2.5, -2.5, 300.5]
        special += [-300.5, 1e10, -1e10, 3e38, -3e38, 127, 128, 255, 256, 65504, 1e-7]
        chosen = torch.tensor(special, dtype=torch.float64)
        chosen = chosen[torch.randperm(len(special), generator=generator)]
        drawn = torch.randn(length - len(special), generator=generator) * 3
        return torch.cat([chosen, drawn.double()]).to(kind)
    drawn = torch.randint(-130, 130, (length,), generator=generator)
    drawn[:4] = torch.tensor([2**31 - 1, -(2**31), 2**62, 3])
    return drawn.to(kind)


def same(got: torch.Tensor, wanted: torch.Tensor, tolerance: float) -> bool:
    """Say whether results are equal, to a relative tolerance, with the signs of zeros."""
    assert got.dtype == wanted.dtype
    if not got.dtype.is_floating_point:
        return torch.equal(got, wanted)
    near = torch.isclose(
        got.double(), wanted.double(), rtol=tolerance, atol=1e-44, equal_nan=True
    )
    signs = torch.signbit(got) == torch.signbit(wanted)
    return bool((near & (signs | wanted.isnan())).all())
