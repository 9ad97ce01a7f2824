"""Views through the lowering, beside eager."""

import torch

from tests.frontend_lowering.lowered import check


def test_broadcasting_and_strides() -> None:
    x, y = torch.randn(4, 1, 5), torch.randn(3, 5).t().contiguous().t()
    check(lambda x, y: (x + y, (x * y).transpose(0, 2) + 1), x, y)


def test_symbolic_sizes() -> None:
    x, y = torch.randn(5, 7), torch.randn(7, 5)
    check(lambda x, y: (x + y.t()) * x.shape[0], x, y, dynamic=True)


def test_inputs_that_are_written() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y)
        y.copy_(y.flip(0))
        return x * y

    check(function, torch.randn(3, 4), torch.randn(3, 4))
