"""Decompositions of small matrix products on CUDA into sums."""

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch._ops import OpOverload
from torch.fx.experimental.symbolic_shapes import statically_known_true

aten = torch.ops.aten

Decompositions: TypeAlias = dict[OpOverload[..., Any], Callable[..., Any]]

MOST_TERMS = 1 << 21
"""Multiplications of a product that is a sum, if each column of its matrix is dense."""

MOST_TERMS_OF_ROWS = 1 << 18
"""Multiplications of a product that is a sum, if each row of its matrix is dense."""

MOST_TERMS_OF_ONE_ROW = 1 << 24
"""Multiplications of a product of one row that is a sum; columns are dense."""

MOST_DEPTH = 1 << 14
"""Terms of each sum."""

_DTYPES = torch.float16, torch.bfloat16, torch.float32


def summed_products(mm: Callable[..., Any], addmm: Callable[..., Any]) -> Decompositions:
    """Return decompositions that make small products sums; others are those given.

    A frontend then writes a reduction, which is fused with what surrounds it, in place of
    a library call, which takes some microseconds however small the product is.  Products
    of one row read each number of the matrix once, so they may be larger.
    ``python -m bench.gpu.summed_products`` compares both ways.
    """

    def multiply(x: torch.Tensor, w: torch.Tensor) -> Any:
        return sum_of_products(x, w).to(x.dtype) if is_summed(x, w) else mm(x, w)

    def multiply_add(
        bias: torch.Tensor,
        x: torch.Tensor,
        w: torch.Tensor,
        *,
        beta: float = 1,
        alpha: float = 1,
    ) -> Any:
        if beta == alpha == 1 and is_summed(x, w):
            return (sum_of_products(x, w) + bias).to(x.dtype)
        return addmm(bias, x, w, beta=beta, alpha=alpha)

    return {aten.mm.default: multiply, aten.addmm.default: multiply_add}


def is_summed(x: torch.Tensor, w: torch.Tensor) -> bool:
    """Return whether a product is one that :func:`summed_products` makes a sum."""
    if not (x.device.type == w.device.type == "cuda" and x.dtype == w.dtype in _DTYPES):
        return False
    (rows, depth), columns = x.shape, w.shape[1]
    is_row = statically_known_true(rows == 1)
    if statically_known_true(w.stride(0) == 1):
        most = MOST_TERMS_OF_ONE_ROW if is_row else MOST_TERMS
    elif statically_known_true(w.stride(1) == 1):
        most = MOST_TERMS_OF_ROWS
    else:
        return False
    return (
        statically_known_true(rows * depth * columns <= most)
        and statically_known_true(depth <= MOST_DEPTH)
        and (is_row or statically_known_true(x.stride(1) == 1))
    )


def sum_of_products(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Return the product of two matrices in f32."""
    return (x.unsqueeze(2).float() * w.unsqueeze(0)).sum(1)
