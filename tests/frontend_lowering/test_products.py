"""Convolutions and products as loops, with Triton kernels that the CPU interprets."""

import math
from collections.abc import Callable

import pytest
import torch
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.nn.functional import conv2d

from tests.frontend_lowering.lowered import check
from wrapperir.frontend.lowering import products
from wrapperir.frontend.lowering.lower import LoweringStages
from wrapperir.ir import KernelDefinitionLine
from wrapperir.lowering import costs, matrix_product
from wrapperir.lowering.kernel import KernelLaunch
from wrapperir.lowering.loops import Nest
from wrapperir.lowering.renderer import Renderer
from wrapperir.lowering.triton import TritonRenderer
from wrapperir.plugin import PluginManager


def _renderer(manager: PluginManager, nest: Nest, device_kind: str) -> Renderer:
    renderer = TritonRenderer()
    assert renderer.refusal(nest) is None
    return renderer


@pytest.fixture(autouse=True)
def _like_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the CPU take Triton kernels, and multiply matrices, also small ones."""
    cpu = evolve(costs.CPU_COSTS, multiplies_matrices=True)
    monkeypatch.setattr(PluginManager, "renderer", _renderer)
    monkeypatch.setattr(costs, "CPU_COSTS", cpu)
    monkeypatch.setattr(products, "DEVICES", {"cpu"})
    for module in (products, matrix_product):
        monkeypatch.setattr(module, "LEAST_TERMS", 1 << 12)


def _check(
    function: Callable[..., torch.Tensor], *inputs: torch.Tensor, kernels: int = 1
) -> list[KernelLaunch]:
    """Compare a function with eager; return its launches, of which the first multiplies."""
    (lowering,) = check(function, *inputs, rtol=2e-2, atol=2e-2)
    launches = _launches(lowering)
    assert len(launches) == kernels
    assert launches[0].kernel.tiling.multiplies
    for line in lowering.lowered.program.definitions:
        assert isinstance(line, KernelDefinitionLine)
        assert line.source.count("tl.dot") == (line.name == launches[0].kernel.name)
    return launches


def _launches(lowering: LoweringStages) -> list[KernelLaunch]:
    return [each for each in lowering.schedule.items if isinstance(each, KernelLaunch)]


def _image(*size: int) -> torch.Tensor:
    return torch.randn(size).half().to(memory_format=torch.channels_last)


def _weight(*size: int) -> torch.Tensor:
    return _image(*size) / math.sqrt(size[1] * size[2] * size[3])


def _finished(
    x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor
) -> torch.Tensor:
    found: torch.Tensor = conv2d(x, weight, padding=1)
    scaled: torch.Tensor = found * scale + shift
    return scaled.relu().half()


@pytest.mark.parametrize(
    ("side", "stride", "padding", "dilation"),
    [(1, 1, 0, 1), (1, 2, 0, 1), (3, 1, 1, 1), (3, 2, 1, 1), (3, 1, 0, 1), (3, 1, 2, 2)],
)
def test_a_convolution_and_what_follows_it_are_a_kernel(
    side: int, stride: int, padding: int, dilation: int
) -> None:
    x, weight = _image(2, 16, 9, 9), _weight(24, 16, side, side)
    scale, shift = torch.rand(24, 1, 1), torch.rand(24, 1, 1)

    def function(
        x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor
    ) -> torch.Tensor:
        found = conv2d(x, weight, None, stride, padding, dilation)
        return torch.relu(found * scale + shift).half()

    _check(function, x, weight, scale, shift)


def test_images_with_channels_first() -> None:
    x, weight = torch.randn(2, 16, 9, 9).half(), _weight(24, 16, 3, 3).contiguous()
    scale, shift = torch.rand(24, 1, 1), torch.rand(24, 1, 1)
    (only,) = _check(_finished, x, weight, scale, shift)
    assert only.kernel.nest.axes[0].extent == 24  # rows; pixels are contiguous


def test_a_bias_and_bfloat16() -> None:
    x, weight = torch.randn(3, 20, 40).bfloat16(), torch.randn(17, 20, 3).bfloat16() / 8
    bias = torch.randn(17).bfloat16()

    def function(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.conv1d(x, weight, bias, padding=1).sigmoid()

    _check(function, x, weight, bias)


def test_a_convolution_of_few_pixels_is_split_along_its_channels() -> None:
    x, weight = _image(1, 192, 4, 4), _weight(16, 192, 3, 3)
    scale, shift = torch.rand(16, 1, 1), torch.rand(16, 1, 1)
    first, second = _check(_finished, x, weight, scale, shift, kernels=2)
    batches = first.kernel.tiling.blocks[0]
    (parts,) = (axis.extent for axis in first.kernel.nest.axes if axis.name in batches)
    assert isinstance(parts, int)
    assert 192 % parts == 0
    assert first.buffers[-1] in second.buffers


@pytest.mark.parametrize(
    ("groups", "dtype"), [(1, torch.float32), (16, torch.float32), (16, torch.float16)]
)
def test_other_convolutions_are_called(groups: int, dtype: torch.dtype) -> None:
    x, weight = torch.randn(2, 16, 9, 9, dtype=dtype), torch.randn(16, 16 // groups, 3, 3)
    weight = weight.to(dtype)
    check(lambda x, w: conv2d(x, w, groups=groups), x, weight, calls=1)


def test_a_product_of_which_elements_are_computed_is_a_kernel() -> None:
    x, weight = torch.randn(20, 64).half(), torch.randn(30, 64).half() / 8
    bias = torch.randn(30).half()

    def function(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.silu(torch.nn.functional.linear(x, weight, bias))

    _check(function, x, weight, bias)


def test_a_product_is_called_where_nothing_or_a_reduction_follows() -> None:
    x, weight = torch.randn(20, 64).half(), torch.randn(64, 30).half() / 8
    for function in (torch.mm, lambda x, w: (torch.mm(x, w) + 1).float().softmax(1)):
        check(function, x, weight, calls=1, rtol=2e-2, atol=2e-2)


def test_what_is_computed_of_a_product_is_looked_at_once() -> None:
    """A walk along all paths of the graph would not end."""
    graph = torch.fx.Graph()
    product = last = graph.placeholder("product")
    for _ in range(60):
        both = graph.call_function(torch.ops.aten.sigmoid.default, (last,))
        last = graph.call_function(torch.ops.aten.mul.Tensor, (last, both))
    graph.output((last,))
    assert products.ends_in_elements(product)
    assert not products.ends_in_elements(last)


def test_a_product_of_long_sums_is_split_whatever_follows() -> None:
    x, weight = torch.randn(20, 1536).half(), torch.randn(1536, 30).half() / 40
    _check(torch.mm, x, weight, kernels=2)


def test_large_products_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "MOST_TERMS", 1 << 13)
    x, weight = torch.randn(20, 64).half(), torch.randn(64, 30).half() / 8
    check(lambda x, w: (x @ w).relu(), x, weight, calls=1, rtol=2e-2, atol=2e-2)


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_drawn_convolutions(data: st.DataObject) -> None:
    def number(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    channels, results, side = number(16, 24), number(16, 24), number(1, 3)
    stride, dilation = number(1, 2), number(1, 2)
    padding = number(0, side - 1)
    height, width = number(6, 10), number(6, 10)
    x, weight = _image(1, channels, height, width), _weight(results, channels, side, side)
    if data.draw(st.booleans()):
        weight = weight.contiguous()

    def function(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return conv2d(x, weight, None, stride, padding, dilation).neg()

    check(function, x, weight, calls=None, rtol=2e-2, atol=2e-2)
