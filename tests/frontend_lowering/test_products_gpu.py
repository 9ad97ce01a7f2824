"""Convolutions and products as loops on a GPU, beside a run in f64."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def _compare(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> str:
    """Compare errors beside f64 with eager's; return the emitted code."""
    from torch._inductor.utils import run_and_get_code

    torch._dynamo.reset()
    compiled: Any = torch.compile(
        function, backend="wrapperir", options={"frontend": "lowering"}
    )
    found, (code, *_) = run_and_get_code(compiled, *inputs)
    wanted = function(*(each.double() for each in inputs))
    eager = function(*inputs)
    assert found.stride() == eager.stride()
    error, eagers = ((each.double() - wanted).norm() for each in (found, eager))
    assert error <= 1.1 * eagers + 1e-6 * wanted.norm()
    return str(code)


def _halves(*size: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    made = torch.randn(size, device="cuda").to(dtype)
    return made.to(memory_format=torch.channels_last) if len(size) == 4 else made


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("pixels", "channels", "results", "side", "stride"),
    [(56, 64, 64, 1, 1), (56, 64, 64, 3, 2), (14, 256, 256, 3, 1), (64, 3, 64, 7, 2)],
)
def test_convolutions(
    pixels: int, channels: int, results: int, side: int, stride: int, dtype: torch.dtype
) -> None:
    x = _halves(2, channels, pixels, pixels, dtype=dtype)
    weight = _halves(results, channels, side, side, dtype=dtype) * 0.05
    scale = _halves(results, 1, 1, dtype=dtype)

    def function(
        x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor
    ) -> torch.Tensor:
        found: torch.Tensor = torch.nn.functional.conv2d(
            x, weight, stride=stride, padding=side // 2
        )
        return (found * scale).relu()

    code = _compare(function, x, weight, scale)
    assert "tl.dot" in code


@pytest.mark.parametrize("shape", [(64, 768, 3072), (64, 3072, 768), (49, 520, 200)])
def test_products(shape: tuple[int, int, int]) -> None:
    rows, depth, columns = shape
    x, weight = _halves(rows, depth), _halves(columns, depth) * 0.02
    bias = _halves(columns)

    def function(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.silu(torch.nn.functional.linear(x, weight, bias))

    assert "tl.dot" in _compare(function, x, weight, bias)
