"""Functions of f16, whose kernels convert strips of lanes by vector instructions."""

from collections.abc import Callable

import pytest
import torch
from torch.nn.functional import layer_norm

from tests.frontend_lowering.lowered import check

Results = tuple[torch.Tensor, ...]


def _along_rows(x: torch.Tensor, y: torch.Tensor) -> Results:
    return (
        *(x + y, x.float().sin(), (x.float() * 3e9).cos(), (x > y).half()),
        *(x.softmax(-1), layer_norm(x + y, x.shape[-1:]), x.float().sum(-1)),
        x.float().cumsum(-1),
    )


def _along_columns(x: torch.Tensor, y: torch.Tensor) -> Results:
    return (
        *(x.float().sum(0), x.amax(0), x.softmax(0), (x - x.float().mean(0)).half()),
        *(x.t() + y.t().contiguous(), x[::2] * y[1::2], torch.where(x > 0, x, y.exp())),
    )


@pytest.mark.parametrize("size", [(4, 200), (50, 63), (66, 16), (32, 7)])
@pytest.mark.parametrize("function", [_along_rows, _along_columns])
def test_functions_of_halves(
    function: Callable[[torch.Tensor, torch.Tensor], Results], size: tuple[int, int]
) -> None:
    x, y = (torch.randn(size).half() for _ in range(2))
    check(function, x, y, calls=None, rtol=2e-3, atol=2e-3)


def test_what_is_read_is_overwritten() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x.exp_() + 1

    check(function, torch.randn(3, 150).half(), calls=None, rtol=2e-3, atol=2e-3)
