"""Operators of an emitted program, called with their tensors, their numbers and ``out``.

They are PyTorch's own; where there is a compiler, they are called through operators.cpp.
So are checks of layouts.
"""

import hashlib
import importlib.util
import sys
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


def _import_beside(name: str) -> Any:
    """Import a file without state, once for all emitted programs that have it."""
    path = Path(__file__).with_name(f"{name}.py")
    key = f"wrapperir_{name}_{hashlib.sha256(path.read_bytes()).hexdigest()}"
    if key not in sys.modules:
        spec = importlib.util.spec_from_file_location(key, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[key] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[key])
    return sys.modules[key]


compiled: ModuleType | None = _import_beside("native_module").build(
    Path(__file__).with_name("operators.cpp"), _import_beside("private_cache")
)
if compiled is not None:
    mm_out = compiled.mm_out
    bmm_out = compiled.bmm_out
    addmm_out = compiled.addmm_out
    baddbmm_out = compiled.baddbmm_out
    assert_layout = compiled.assert_layout_explained_by(assert_layout)
