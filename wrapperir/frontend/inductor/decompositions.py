"""Decompositions of operators: Inductor's, and sums for small matrix products."""

import torch

from wrapperir.frontend.aten.small_products import Decompositions, summed_products

aten = torch.ops.aten


def decompositions() -> Decompositions:
    """Return Inductor's table, with small matrix products on CUDA as sums."""
    # Graphs that PyTorch has kept name this function, and are loaded without the table.
    from torch._inductor.decomposition import select_decomp_table

    table: Decompositions = dict(select_decomp_table())
    mm, addmm = table[aten.mm.default], table[aten.addmm.default]
    return {**table, **summed_products(mm, addmm)}
