"""The operators that take a dtype, and numbers that tell operators apart."""

import torch

from wrapperir.ir import DType
from wrapperir.lowering.scalar_op import ScalarOp, takes_dtype

FLOATS = (DType.F32, DType.F64)
WHOLE = (DType.I64, DType.I32, DType.I16, DType.I8, DType.U8)
LENGTH = 61
_EXACT = 2.0**-100
DIVISIONS = frozenset(
    {ScalarOp.FLOORDIV, ScalarOp.TRUNCDIV, ScalarOp.REMAINDER, ScalarOp.FMOD}
)
_CONVERSIONS = (ScalarOp.CAST, ScalarOp.BITCAST, ScalarOp.WHERE)


def operators_of(dtype: DType) -> list[ScalarOp]:
    """Return the operators that take a dtype, without conversions and ``where``."""
    found = [op for op in ScalarOp if takes_dtype(op, dtype) and op not in _CONVERSIONS]
    if dtype is DType.U8:  # eager's sign bit is that of signed dtypes
        found.remove(ScalarOp.SIGNBIT)
    return found


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


def assert_quotients(found: torch.Tensor, x: torch.Tensor, divisors: torch.Tensor) -> None:
    """Check quotients of rows: equal to eager's, or close where numbers are tiny."""
    wanted = x / divisors[:, None]
    torch.testing.assert_close(found, wanted, rtol=2.0**-22, atol=2.0**-148, equal_nan=True)
    assert torch.equal(found.signbit() | found.isnan(), wanted.signbit() | wanted.isnan())
    is_exact = (x.abs() >= _EXACT) & (wanted.abs() >= _EXACT)
    is_exact |= (x == 0) | ~wanted.isfinite()
    torch.testing.assert_close(
        found[is_exact], wanted[is_exact], rtol=0, atol=0, equal_nan=True
    )
