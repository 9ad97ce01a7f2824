"""Operators that draw random numbers are called, in order, and give eager's numbers."""

import torch

from tests.frontend_lowering.lowered import called, compare, compiled
from wrapperir.frontend.lowering.lower import LoweringStages

Results = tuple[torch.Tensor, ...]


def _drawn(x: torch.Tensor) -> Results:
    return (
        torch.nn.functional.dropout(x, 0.3) + 1,
        torch.rand(3, 2) * 2,
        torch.randn_like(x).sin(),
        torch.bernoulli(x.sigmoid()),
        torch.randint(0, 9, (4,)),
        torch.empty(5).uniform_(2, 3),
        torch.empty(5).exponential_(),
        torch.empty_like(x).normal_(1, 2),
        torch.ops.aten.native_dropout(x, 0.5, True)[0],
        torch.normal(x, 2.0),
        torch.randperm(7),
    )


def test_numbers_are_those_of_eager() -> None:
    kept: list[LoweringStages] = []
    x = torch.randn(4, 5)
    run = compiled(_drawn, kept)
    torch.manual_seed(3)  # pyright: ignore[reportUnknownMemberType]
    expected = _drawn(x)
    torch.manual_seed(3)  # pyright: ignore[reportUnknownMemberType]
    compare(run(x), expected, None, None)
    assert sum(map(called, kept)) >= 11
