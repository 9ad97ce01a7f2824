"""Operators of an emitted program, called with their tensors, their numbers and ``out``.

They are PyTorch's own; where there is a compiler, they are called through operators.cpp.
So are checks of layouts.
"""

from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

_TORCH: Any = torch


def mm_out(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """Write ``a @ b`` to ``out``."""
    torch.mm(a, b, out=out)


def bmm_out(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """Write ``a @ b``, a batch of products, to ``out``."""
    torch.bmm(a, b, out=out)


def addmm_out(
    x: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    beta: float,
    alpha: float,
    out: torch.Tensor,
) -> None:
    """Write ``beta * x + alpha * (a @ b)`` to ``out``."""
    torch.addmm(x, a, b, beta=beta, alpha=alpha, out=out)


def baddbmm_out(
    x: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    beta: float,
    alpha: float,
    out: torch.Tensor,
) -> None:
    """Write ``beta * x + alpha * (a @ b)``, for batches, to ``out``."""
    torch.baddbmm(x, a, b, beta=beta, alpha=alpha, out=out)


def assert_layout(
    tensor: torch.Tensor, size: tuple[int, ...], stride: tuple[int, ...], subject: str
) -> None:
    """Check the size and stride of a tensor; strides of dimensions of size 1 do not count.

    Raises:
        AssertionError: they differ.
    """
    if tensor.shape == size and tensor.stride() == stride:
        return
    try:
        _TORCH._C._dynamo.guards.assert_size_stride(tensor, size, stride)
    except AssertionError:
        found = f"size {[*tensor.shape]} and stride {[*tensor.stride()]}"
        message = f"{subject} has {found}, not {[*size]} and {[*stride]}"
        raise AssertionError(message) from None


_HERE = Path(__file__).parent
_native_module: Any = ModuleType("native_module")
SourceFileLoader("native_module", str(_HERE / "native_module.py")).exec_module(
    _native_module
)
compiled: ModuleType | None = _native_module.build(_HERE / "operators.cpp")
if compiled is not None:
    mm_out = compiled.mm_out
    bmm_out = compiled.bmm_out
    addmm_out = compiled.addmm_out
    baddbmm_out = compiled.baddbmm_out
    assert_layout = compiled.assert_layout_explained_by(assert_layout)
