"""The layouts that PyTorch gives to what it computes element by element."""

# torch says little of its types.
# pyright: reportUnknownMemberType=false, reportPrivateUsage=false

from collections.abc import Callable, Mapping

import torch
from attrs import evolve

from wrapperir.emit.torch_dtypes import TORCH_DTYPES
from wrapperir.ir.expr import EvaluationError, Expr, evaluate_int, mul
from wrapperir.ir.types import TensorType, contiguous_stride

_WithoutModes = torch._C._DisableTorchDispatch  # whoever compiles may be under a mode


def dense_type(
    compute: Callable[[torch.Tensor], torch.Tensor],
    type: TensorType,
    samples: Mapping[str, int],
) -> TensorType:
    """Return ``type`` with the layout of what ``compute`` makes of such a tensor.

    ``samples`` has a number for each symbol.  The order of dimensions is that of such a
    run: PyTorch goes by which stride is larger.
    """
    try:
        size = [evaluate_int(entry, samples) for entry in type.size]
        stride = [evaluate_int(entry, samples) for entry in type.stride]
        dtype: torch.dtype = getattr(torch, TORCH_DTYPES[type.dtype])
        with _WithoutModes():
            sample = torch.empty_strided(size, stride, dtype=dtype, device="meta")
            found = compute(sample).stride()
    except (EvaluationError, RuntimeError):  # no such tensor: the run will say so
        return evolve(type, stride=contiguous_stride(type.size), offset=0)
    if all(isinstance(entry, int) for entry in type.size):
        return evolve(type, stride=tuple(found), offset=0)
    strides: list[Expr] = [0] * len(found)
    step: Expr = 1
    for dim in sorted(range(len(found)), key=lambda dim: (found[dim], -dim)):
        strides[dim] = step
        step = mul(type.size[dim], step)
    return evolve(type, stride=tuple(strides), offset=0)
