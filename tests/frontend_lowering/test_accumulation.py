"""Products that add to a tensor."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from wrapperir.frontend.lowering.accumulation import accumulate_products

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
