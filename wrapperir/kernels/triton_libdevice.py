"""The functions of ``libdevice`` on the CPU, by PyTorch and numpy.

Under Triton's interpreter every function of ``triton.language.extra.libdevice`` does
nothing and returns ``None``.  :data:`STAND_INS` has one for each that Inductor emits, and
their relatives.
"""

# Triton carries no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownParameterType=false, reportPrivateUsage=false
# pyright: reportMissingTypeStubs=false, reportAttributeAccessIssue=false

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime.interpreter import _get_np_dtype

from wrapperir.kernels.triton_builder import Array, handle, numbers_of, to_torch
from wrapperir.kernels.triton_reduce import block

Function = Callable[..., torch.Tensor]


def _round_half_away(x: torch.Tensor) -> torch.Tensor:
    return torch.copysign(torch.floor(x.abs() + 0.5), x)


def _wide(function: Function) -> Function:
    """Compute in f64, so that the result is correctly rounded but for double rounding."""

    def wide(*args: torch.Tensor) -> torch.Tensor:
        return function(*(x.double() for x in args)).to(args[0].dtype)

    return wide


def _fma(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    return x * y + z


def _frexp_exponent(x: torch.Tensor) -> torch.Tensor:
    exponent = torch.frexp(x)[1] - 1
    bounds = torch.iinfo(torch.int32)
    exponent = torch.where(x == 0, bounds.min, exponent)
    return torch.where(torch.isfinite(x), exponent, bounds.max).int()


def _logb(x: torch.Tensor) -> torch.Tensor:
    exponent = (torch.frexp(x)[1] - 1).to(x.dtype)
    special = torch.where(x == 0, -torch.inf, x.abs())
    return torch.where((x == 0) | ~torch.isfinite(x), special, exponent)


def _bits(dtype: torch.dtype) -> Function:
    return lambda x: x.view(dtype)


def _flag(function: Function) -> Function:
    return lambda x: function(x).int()


def _to_int(rounding: Function, dtype: torch.dtype) -> Function:
    return lambda x: rounding(x).to(dtype)


# The functions that have the same name in torch.
_SAME_NAME = """
    abs acos acosh asin asinh atan atanh ceil cos cosh erf erfc erfinv exp exp2 expm1
    floor lgamma log log10 log1p log2 rsqrt sin sinh sqrt tan tanh trunc
"""
_UNARY: Mapping[str, Function] = {
    **{name: getattr(torch, name) for name in _SAME_NAME.split()},
    "cbrt": _wide(lambda x: torch.copysign(x.abs() ** (1 / 3), x)),
    "cospi": _wide(lambda x: torch.cos(torch.remainder(x, 2) * torch.pi)),
    "cyl_bessel_i0": torch.special.i0,
    "cyl_bessel_i1": torch.special.i1,
    "erfcx": torch.special.erfcx,
    "exp10": _wide(lambda x: 10**x),
    "fast_cosf": torch.cos,
    "fast_exp10f": _wide(lambda x: 10**x),
    "fast_expf": torch.exp,
    "fast_log10f": torch.log10,
    "fast_log2f": torch.log2,
    "fast_logf": torch.log,
    "fast_sinf": torch.sin,
    "fast_tanf": torch.tan,
    "fast_tanhf": torch.tanh,
    "j0": torch.special.bessel_j0,
    "j1": torch.special.bessel_j1,
    "logb": _logb,
    "nearbyint": torch.round,
    "normcdf": torch.special.ndtr,
    "normcdfinv": torch.special.ndtri,
    "rcp_rn": torch.reciprocal,
    "rint": torch.round,
    "round": _round_half_away,
    "rsqrt_rn": torch.rsqrt,
    "saturatef": lambda x: torch.nan_to_num(x.clamp(0, 1), nan=0.0),
    "sinpi": _wide(lambda x: torch.sin(torch.remainder(x, 2) * torch.pi)),
    "sqrt_rn": torch.sqrt,
    "tgamma": _wide(lambda x: torch.from_numpy(np.asarray(_gamma(x.numpy())))),
    "y0": torch.special.bessel_y0,
    "y1": torch.special.bessel_y1,
    # Tests and conversions, whose results have another type.
    "double_as_longlong": _bits(torch.int64),
    "finitef": _flag(torch.isfinite),
    "float2int_rn": _to_int(torch.round, torch.int32),
    "float2int_rz": _to_int(torch.trunc, torch.int32),
    "float_as_int": _bits(torch.int32),
    "ilogb": _frexp_exponent,
    "int_as_float": _bits(torch.float32),
    "isfinited": _flag(torch.isfinite),
    "isinf": _flag(torch.isinf),
    "isnan": _flag(torch.isnan),
    "llrint": _to_int(torch.round, torch.int64),
    "llround": _to_int(_round_half_away, torch.int64),
    "longlong_as_double": _bits(torch.float64),
    "signbit": _flag(torch.signbit),
}

_NARY: Mapping[str, Function] = {
    "pow": torch.pow,
    "nextafter": torch.nextafter,
    "hypot": torch.hypot,
    "fmod": torch.fmod,
    "copysign": torch.copysign,
    "atan2": torch.atan2,
    "add_rn": torch.add,
    "div_rn": torch.div,
    "fast_dividef": torch.div,
    "fast_powf": torch.pow,
    "fdim": lambda x, y: torch.where(x > y, x - y, torch.where(x <= y, 0.0, x + y)),
    "fma": _wide(_fma),
    "fma_rn": _wide(_fma),
    "mul_rn": torch.mul,
    "norm3d": _wide(lambda x, y, z: (x * x + y * y + z * z).sqrt()),
    "remainder": _wide(lambda x, y: torch.fmod(x, y) - _half_step(x, y)),
    "rhypot": lambda x, y: torch.hypot(x, y).reciprocal(),
    "sub_rn": torch.sub,
}

_WITH_EXPONENT: Mapping[str, Function] = {
    "ldexp": _wide(lambda x, e: torch.ldexp(x, e)),
    "scalbn": _wide(lambda x, e: torch.ldexp(x, e)),
}


def _gamma(x: Array) -> Array:
    def gamma(value: float) -> float:
        try:
            return math.gamma(value)
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    values: Array = np.vectorize(gamma, otypes=[np.float64])(x)
    return values


def _half_step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return what IEEE ``remainder`` subtracts from ``fmod`` to reach the nearest."""
    quotient = x / y
    return y * (torch.round(quotient) - torch.trunc(quotient))


def _broadcast(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    shape = np.broadcast_shapes(*(tuple(tensor.shape) for tensor in tensors))
    return [tensor.expand(shape) for tensor in tensors]


def _number(value: Any, like: tl.dtype) -> Array:
    if isinstance(value, tl.constexpr):
        value = value.value
    if isinstance(value, tl.tensor):
        return numbers_of(value.handle)
    return np.array([value], dtype=_get_np_dtype(like))


def _call(function: Function, *args: Any, integers: bool = False, **_: Any) -> tl.tensor:
    tensors = [a for a in args if isinstance(a, tl.tensor)]
    like = tensors[0].dtype if tensors else tl.float32
    arrays = [to_torch(_number(a, like)) for a in args]
    if not integers:
        common = arrays[0].dtype if arrays[0].is_floating_point() else torch.float32
        arrays = [a.to(common) for a in arrays] if len(arrays) > 1 else arrays
    data = function(*_broadcast(arrays)).numpy()
    dtype = _RESULTS.get(data.dtype.name, like)
    if dtype.is_floating() and like.is_floating() and dtype != like and data.itemsize >= 4:
        dtype = like if like.primitive_bitwidth < 32 else dtype
    result = handle(data, dtype).data
    scalar = all(not a.type.is_block() for a in tensors)
    return block(result.reshape(()) if scalar else result, dtype)


_RESULTS: Mapping[str, tl.dtype] = {
    "float32": tl.float32,
    "float64": tl.float64,
    "float16": tl.float16,
    "int32": tl.int32,
    "int64": tl.int64,
}

STAND_INS: Mapping[str, Callable[..., tl.tensor]] = {
    name: partial(_call, function) for name, function in {**_UNARY, **_NARY}.items()
} | {
    name: partial(_call, function, integers=True)
    for name, function in _WITH_EXPONENT.items()
}
"""By name, what to call in place of the functions of ``libdevice``."""


def missing(name: str) -> Callable[..., tl.tensor]:
    """Return a stand-in that raises: the function is not available."""

    def unavailable(*args: Any, **_: Any) -> tl.tensor:
        raise NotImplementedError(f"libdevice.{name} has no stand-in on the CPU")

    return unavailable
