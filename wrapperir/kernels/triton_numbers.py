"""Triton's narrow floats as numpy arrays.

Triton's interpreter keeps bf16 and fp8 as raw bits in unsigned arrays, adds and multiplies
those bits as if they were numbers, and truncates where the hardware rounds to the nearest
even.  Here the bits are widened to f32, computed on, and rounded back by PyTorch.
"""

# Triton carries no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownParameterType=false, reportPrivateUsage=false
# pyright: reportMissingTypeStubs=false, reportAttributeAccessIssue=false

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import triton.language as tl
from triton.runtime import interpreter

Array = npt.NDArray[Any]

numpy_dtype = functools.cache(interpreter._get_np_dtype)
"""The numpy type that Triton's interpreter keeps a scalar type in."""

_NARROW: Mapping[tl.dtype, torch.dtype] = {
    tl.bfloat16: torch.bfloat16,
    tl.float8e4nv: torch.float8_e4m3fn,
    tl.float8e5: torch.float8_e5m2,
    tl.float8e4b8: torch.float8_e4m3fnuz,
    tl.float8e5b16: torch.float8_e5m2fnuz,
}


def is_narrow(dtype: tl.dtype) -> bool:
    """Say whether arrays of a scalar type hold bits rather than numbers."""
    return dtype in _NARROW


def to_torch(data: Array) -> torch.Tensor:
    """Return a tensor with a copy of the array, which may be read-only or strided."""
    return torch.from_numpy(np.array(data, copy=True))


def widen(data: Array, dtype: tl.dtype) -> Array:
    """Return the numbers of an array of a scalar type; f32 for narrow types."""
    narrow = _NARROW.get(dtype)
    if narrow is None or data.dtype == np.bool_:
        return data
    return to_torch(data).view(narrow).float().numpy()


def round_to(numbers: Array, dtype: tl.dtype) -> Array:
    """Return the bits of numbers rounded to a narrow type, to the nearest even.

    Numbers beyond the range of an fp8 type become its largest, as the hardware's
    saturating conversion does.
    """
    narrow = _NARROW[dtype]
    tensor = to_torch(numbers)
    if not tensor.is_floating_point():
        tensor = tensor.double()
    if narrow is torch.bfloat16:
        return tensor.to(narrow).view(torch.uint16).numpy()
    limit = torch.finfo(narrow).max
    return tensor.clamp(-limit, limit).to(narrow).view(torch.uint8).numpy()
