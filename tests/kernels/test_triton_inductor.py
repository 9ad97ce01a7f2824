"""Sources that Inductor generates: what their kernels compute is what eager computes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from tests.kernels.inductor_triton import run_compiled

Function = Callable[..., Any]


def pointwise(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    first = (x.exp() + y.tanh()).sin() * x.erf() + torch.atan2(x, y) + x.abs().log1p()
    second = x.sigmoid().rsqrt() + torch.copysign(x, y) + torch.fmod(x, y) + x.lgamma()
    return first + second + torch.pow(x.abs(), y) + x.floor() + y.round() + x.sign()


def reductions(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    norm = F.layer_norm(x, x.shape[1:])
    return x.softmax(1), norm, x.argmax(1), x.var(1), x.amin(0), x.prod(0), (x > 0).any(1)


def scans(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.cumsum(1), x.sort(1).values, x.logcumsumexp(1)


def layouts(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    rows = torch.tensor([1, 3, 5])
    return x.bfloat16() * 3.3, torch.cat([x, x + 1], 1), x[rows], x.t().contiguous()


def integers(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    i = (x * 20).long()
    toward_zero = torch.div(i, -3, rounding_mode="trunc")
    return i // 7, i % 7, toward_zero, i.sum(), i.bitwise_xor(5) << 2, x.isnan()


def epilogue(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.relu(x @ y.t() + 1)


def search(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    indices = (x * 20).long().abs() % x.shape[1]
    return torch.bucketize(x, torch.linspace(-1, 1, 9)), x.scatter_add(1, indices, x)


@pytest.mark.parametrize(
    "function", [pointwise, reductions, scans, layouts, integers, epilogue, search]
)
def test_interpreted_kernels_match_eager(function: Function) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(12, 40), torch.randn(12, 40)
    args = (x, y) if function in (pointwise, epilogue) else (x,)
    torch.testing.assert_close(run_compiled(function, *args), function(*args))


def test_looped_reductions_match_eager() -> None:
    torch.manual_seed(0)
    x = torch.randn(12, 40)
    result = run_compiled(reductions, x, **{"triton.persistent_reductions": False})
    torch.testing.assert_close(result, reductions(x))
