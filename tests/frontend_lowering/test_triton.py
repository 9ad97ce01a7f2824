"""Functions through the lowering, with Triton kernels that the CPU interprets."""

from collections.abc import Callable

import pytest
import torch

from tests.frontend_lowering.lowered import check
from wrapperir.ir import KernelDefinitionLine, Language
from wrapperir.lowering.loops import Nest
from wrapperir.lowering.renderer import Renderer
from wrapperir.lowering.triton import TritonRenderer
from wrapperir.plugin import PluginManager


def _renderer(manager: PluginManager, nest: Nest, device_kind: str) -> Renderer:
    renderer = TritonRenderer()
    assert renderer.refusal(nest) is None
    return renderer


@pytest.fixture(autouse=True)
def _triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PluginManager, "renderer", _renderer)


def _check(
    function: Callable[..., object], *inputs: torch.Tensor, dynamic: bool = False
) -> None:
    for lowering in check(function, *inputs, dynamic=dynamic):
        definitions = lowering.lowered.program.definitions
        for line in definitions:
            assert isinstance(line, KernelDefinitionLine)
            assert line.language is Language.TRITON
        assert definitions


def test_pointwise_functions() -> None:
    x, y = torch.randn(10, 30), torch.randn(30)
    _check(lambda x, y: (torch.nn.functional.gelu(x + y), torch.where(x > 0, x, y)), x, y)


def test_views_and_transpositions() -> None:
    x, y = torch.randn(4, 1, 5), torch.randn(3, 5).t().contiguous().t()
    _check(lambda x, y: (x + y, (x * y).transpose(0, 2) + 1), x, y)


def test_symbolic_sizes() -> None:
    x, y = torch.randn(5, 7), torch.randn(7, 5)
    _check(lambda x, y: (x + y.t()) * x.shape[0], x, y, dynamic=True)


def test_whole_numbers_and_casts() -> None:
    x, y = torch.randint(-9, 9, (50,)), torch.randint(1, 5, (50,))
    _check(lambda x, y: (x // y, x % y, x / y, x.bool(), (x > y) & (y > 2)), x, y)


def test_halves_are_computed_in_f32() -> None:
    x, y = torch.randn(2, 40).bfloat16()
    _check(lambda x, y: (torch.maximum(x, y).neg(), x.abs() > y), x, y)


def test_reductions_scans_and_losses() -> None:
    x, target = torch.randn(4, 6), torch.arange(4)

    def function(x: torch.Tensor, target: torch.Tensor) -> list[torch.Tensor]:
        return [
            x.softmax(0),
            *x.max(1),
            x.var(1),
            x.cumsum(0),
            (x > 0).any(),
            torch.nn.functional.layer_norm(x, (6,)),
            torch.nn.functional.cross_entropy(x, target),
        ]

    _check(function, x, target)
