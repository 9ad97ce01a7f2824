"""Decompositions of operators, Inductor's and one for matrix products of one row."""

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch._inductor.decomposition import select_decomp_table
from torch.fx.experimental.symbolic_shapes import statically_known_true

aten = torch.ops.aten

Decompositions: TypeAlias = dict[torch._ops.OpOverload[..., Any], Callable[..., Any]]

LEAST_SIDE = 512
"""Rows and columns of a matrix that a row is multiplied with, at the least."""

MOST_ELEMENTS = 1 << 24
"""Elements of such a matrix, at the most: a library reads larger ones faster."""

_DTYPES = torch.float16, torch.bfloat16, torch.float32


def decompositions() -> Decompositions:
    """Return Inductor's table, with products of one row on CUDA as sums.

    Inductor then writes a reduction, which is fused with what surrounds it, in place of a
    library call.  The matrix is one whose columns are dense, as ``linear`` has it, with
    sides of at least :data:`LEAST_SIDE` and at most :data:`MOST_ELEMENTS` elements.
    ``python -m bench.gpu.one_row_products`` compares them.
    """
    table: Decompositions = dict(select_decomp_table())
    mm, addmm = table[aten.mm.default], table[aten.addmm.default]

    def multiply(x: torch.Tensor, w: torch.Tensor) -> Any:
        return sum_of_products(x, w).to(x.dtype) if is_row_product(x, w) else mm(x, w)

    def multiply_add(
        bias: torch.Tensor,
        x: torch.Tensor,
        w: torch.Tensor,
        *,
        beta: float = 1,
        alpha: float = 1,
    ) -> Any:
        if beta == alpha == 1 and is_row_product(x, w):
            return (sum_of_products(x, w) + bias).to(x.dtype)
        return addmm(bias, x, w, beta=beta, alpha=alpha)

    return {**table, aten.mm.default: multiply, aten.addmm.default: multiply_add}


def is_row_product(x: torch.Tensor, w: torch.Tensor) -> bool:
    """Return whether a product is one that :func:`decompositions` makes a sum."""
    rows, columns = w.shape
    return (
        x.device.type == w.device.type == "cuda"
        and x.dtype == w.dtype
        and x.dtype in _DTYPES
        and statically_known_true(rows >= LEAST_SIDE)
        and statically_known_true(columns >= LEAST_SIDE)
        and statically_known_true(rows * columns <= MOST_ELEMENTS)
        and statically_known_true(x.shape[0] == 1)
        and statically_known_true(w.stride(0) == 1)
    )


def sum_of_products(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Return the product of a row and a matrix in f32."""
    return (x.unsqueeze(2).float() * w.unsqueeze(0)).sum(1)
