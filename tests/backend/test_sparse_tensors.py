"""Sparse gradients with our own lowering."""

from typing import Any

import pytest
import torch
from torch.nn.functional import embedding


def once(rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return embedding(rows, weight, sparse=True).sin()


def twice(rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return once(rows, weight) * once(rows + 1, weight)


def beside_a_dense_gradient(rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return once(rows, weight) + weight.exp().sum()


@pytest.mark.parametrize("function", [once, twice, beside_a_dense_gradient])
@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
def test_gradients_of_an_embedding(function: Any, emitter: str) -> None:
    def gradient(function: Any) -> Any:
        weight = torch.linspace(0, 1, 18).reshape(6, 3).requires_grad_()
        result = function(torch.tensor([[1, 2], [2, 4]]), weight)
        result.square().sum().backward()
        return weight.grad

    torch._dynamo.reset()
    options: Any = {"frontend": "lowering", "emitter": emitter}
    compiled = torch.compile(function, backend="wrapperir", options=options)
    found, wanted = gradient(compiled), gradient(function)
    assert found.layout is wanted.layout
    torch.testing.assert_close(found.to_dense(), wanted.to_dense())
