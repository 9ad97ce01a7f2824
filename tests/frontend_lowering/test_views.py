"""Views through the lowering, beside eager."""

import pytest
import torch

from tests.frontend_lowering.lowered import check
from wrapperir.lowering.cpp.renderer import CppRenderer


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


def test_sizes_that_a_call_defines() -> None:
    def function(x: torch.Tensor, at: torch.Tensor) -> list[torch.Tensor]:
        return [part + 1 for part in torch.tensor_split(x, at)]

    with torch._dynamo.config.patch(
        capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True
    ):
        check(function, torch.randn(6, 3), torch.tensor([1, 2, 4]), calls=None)


def test_constants() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.where(x > 0, x, torch.tensor(2.5)) + torch.tensor([1.0, 2.0, 3.0])

    check(function, torch.randn(4, 3))


def test_operators_that_no_renderer_writes_are_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(CppRenderer, "refusal", lambda self, nest: "not written")
    check(lambda x: (x + 1).sin(), torch.randn(4), calls=2)
