"""Triton kernels of a user's, as functions that Dynamo traces."""
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
# ruff: noqa: N803

from typing import Any

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    total = tl.load(x_ptr + at, inside) + tl.load(y_ptr + at, inside)
    tl.store(out_ptr + at, total, inside)


CONFIGS = [triton.Config({"BLOCK": 16}, num_warps=2), triton.Config({"BLOCK": 8})]
tuned_kernel = triton.autotune(configs=CONFIGS, key=[])(add_kernel)


@triton.jit
def double_kernel(x, y, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS
    y.store([row, 0], x.load([row, 0]) * 2)


def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Add with a kernel that has one config."""
    out = torch.empty_like(x)
    n = out.numel()
    add_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n, BLOCK=16)
    return out


@triton.jit
def fill_kernel(out_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, at)


def count_twice(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Launch one kernel with two grids, of 16 and of 32 elements."""
    first, second = torch.empty_like(x), torch.empty_like(y)
    fill_kernel[(2,)](first, BLOCK=8)
    fill_kernel[(4,)](second, BLOCK=8)
    return first, second


def count(x: torch.Tensor) -> torch.Tensor:
    """Launch a kernel that is not given the size that its grid is made of."""
    out = torch.empty_like(x)
    fill_kernel[(x.numel() // 8,)](out, BLOCK=8)
    return out


def add_tuned(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Add with a kernel that is tuned."""
    out = torch.empty_like(x)
    n = out.numel()
    tuned_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n)
    return out


@torch.library.triton_op("wrapperir_tests::add", mutates_args={})
def add_operator(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Add as an operator that tracers look into."""
    out = torch.empty_like(x)
    n = out.numel()
    kernel: Any = torch.library.wrap_triton(add_kernel)
    kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n, BLOCK=16)
    return out


def double(x: torch.Tensor) -> torch.Tensor:
    """Double rows behind tensor descriptors, four in each program."""
    y = torch.empty_like(x)
    given, out = (TensorDescriptor.from_tensor(t, [4, 16]) for t in (x, y))
    double_kernel[(x.shape[0] // 4,)](given, out, ROWS=4)
    return y + 1
