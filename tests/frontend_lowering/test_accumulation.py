"""Products and rows that add to a tensor."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from wrapperir.frontend.lowering.accumulation import accumulate_products, accumulate_rows

aten: Any = torch.ops.aten

A, B, X = torch.randn(6, 4), torch.randn(4, 5), torch.randn(6, 5)


def _sum(a: torch.Tensor, b: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.mm(a, b) + x


def _permuted_twice(a: torch.Tensor, b: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return x + torch.mm(a, b).permute(1, 0).permute(1, 0)


def _permuted_once(a: torch.Tensor, b: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return x.permute(1, 0) + torch.mm(a, b).permute(1, 0)


def _used_again(a: torch.Tensor, b: torch.Tensor, x: torch.Tensor) -> list[torch.Tensor]:
    product = torch.mm(a, b)
    return [product + x, product]


def _not_an_output(a: torch.Tensor, b: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return (torch.mm(a, b) + x).exp()


def _scaled(a: torch.Tensor, b: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.add(torch.mm(a, b), x, alpha=2)


def _broadcast(a: torch.Tensor, b: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.mm(a, b) + x[0]


@pytest.mark.parametrize(
    ("function", "accumulates"),
    [
        (_sum, True),
        (_permuted_twice, True),
        (_permuted_once, False),
        (_used_again, False),
        (_not_an_output, False),
        (_scaled, False),
        (_broadcast, False),
    ],
)
def test_a_sum_that_is_an_output_becomes_a_product_that_adds(
    function: object, accumulates: bool
) -> None:
    assert callable(function)
    traced = make_fx(function, tracing_mode="fake")(A, B, X)
    accumulate_products(traced.graph)
    traced.recompile()
    found = {node.target for node in traced.graph.nodes}
    assert (torch.ops.aten.addmm.default in found) == accumulates
    assert (torch.ops.aten.mm.default in found) != accumulates
    torch.testing.assert_close(traced(A, B, X), function(A, B, X))


ROWS, INDEX = torch.randn(3, 2, 5), torch.tensor([[0, 5], [2, 0], [2, 1]])


def _rows(x: torch.Tensor, **options: Any) -> torch.Tensor:
    given = {"num_weights": 6, "padding_idx": -1, "scale_grad_by_freq": False, **options}
    rows = aten.embedding_dense_backward(ROWS.to(x.dtype), INDEX, *given.values())
    result: torch.Tensor = rows
    return result


@pytest.mark.parametrize(
    ("function", "updates"),
    [
        (lambda x: x + _rows(x), 1),
        (lambda x: _rows(x, padding_idx=2) + x, 1),
        (lambda x: _rows(x) + x.exp() + _rows(x, padding_idx=0), 2),
        (lambda x: x + _rows(x, scale_grad_by_freq=True), 0),
        (lambda x: x[0] + _rows(x), 0),
        (lambda x: x.half() + _rows(x.half()), 0),
        (lambda x: x + (_rows(x) + _rows(x).exp()), 1),
    ],
)
def test_gradients_of_embeddings_are_added_to_others(
    function: Callable[[torch.Tensor], torch.Tensor], updates: int
) -> None:
    traced = make_fx(function, tracing_mode="fake", _allow_non_fake_inputs=True)(X)
    accumulate_rows(traced.graph)
    traced.recompile()
    found = [node.target for node in traced.graph.nodes]
    assert found.count(aten._unsafe_index_put.default) == updates
    torch.testing.assert_close(traced(X), function(X))
