"""Cumulative operators through the lowering, beside eager."""

import torch

from tests.frontend_lowering.lowered import check
from tests.frontend_lowering.training import check_training


def values(*size: int) -> torch.Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(len(size)))


def scans(x: torch.Tensor) -> list[torch.Tensor]:
    return [
        x.cumsum(1),
        x.cumsum(-1),
        x.transpose(0, 1).cumprod(0),
        *x.cummax(1),
        *x.cummin(0),
        *x[0, 0, 0].cummax(0),
        x.cumsum(0, dtype=torch.float64),
        x[0, 0, 0].cumsum(0),
        x[:, :0].cumsum(1),
    ]


def test_scans() -> None:
    x = values(4, 5, 6)
    x[1, 2, 3], x[2, :, 1] = float("nan"), x[2, 0, 1]
    whole = (values(3, 4, 5) * 3).to(torch.int8)
    given = (x, x.double(), x.half(), whole, whole.long())
    check(lambda *given: [*map(scans, given)], *given, rtol=1e-3, atol=1e-3)


def test_bools() -> None:
    x = values(4, 5, 6) > 0
    check(lambda x: (x.cumsum(1), x.cumprod(2), *x.cummax(0)), x)


def test_symbolic_sizes_and_gradients() -> None:
    check_training(lambda x: (x.cumsum(1), x.cumsum(0)), values(4, 5), dynamic=True)
