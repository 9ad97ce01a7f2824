"""Gradients through the lowering, beside eager."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tests.frontend_lowering.lowered import called, compare, compiled, copied
from wrapperir.frontend.lowering.lower import LoweringStages


def check_training(
    function: Callable[..., Any],
    *inputs: torch.Tensor,
    calls: int | None = 0,
    dynamic: bool | None = None,
    rtol: float | None = None,
    atol: float | None = None,
) -> list[LoweringStages]:
    """Compare the results and gradients of a function with eager; return the stages.

    Inputs of real numbers get gradients.  ``calls`` is as in ``check``.
    """
    kept: list[LoweringStages] = []
    expected = _run(function, inputs)
    found = _run(compiled(function, kept, dynamic=dynamic), inputs)
    compare(found, expected, rtol, atol)
    assert len(kept) > 1, "no graph of gradients"
    if calls is not None:
        assert sum(map(called, kept)) == calls
    return kept


def _run(function: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> list[Any]:
    """Return results and gradients, for the gradients 1, 2 … of results' elements."""
    given = [copied(each).requires_grad_(each.is_floating_point()) for each in inputs]
    results = [
        each
        for each in pytree.tree_leaves(function(*given))
        if isinstance(each, torch.Tensor)
    ]
    real = [each for each in results if each.requires_grad]
    weights = [
        (torch.arange(each.numel(), dtype=torch.float64) % 17 / 8 - 1)
        .reshape(each.shape)
        .to(each.dtype)
        for each in real
    ]
    wanted = [each for each in given if each.requires_grad]
    gradients = torch.autograd.grad(real, wanted, weights, allow_unused=True)
    # Strides of gradients are not eager's: operators that a graph has differ from its.
    dense = [None if each is None else each.contiguous() for each in gradients]
    return [[each.detach() for each in results], *dense]
