"""Backward passes of depthwise convolutions are given what PyTorch computes fastest."""

import pytest
import torch

from tests.frontend_lowering.training import check_training
from wrapperir.ir import MultiOutputLine, TensorType


def _image_strides(channels: int, side: int, kernel: int, batch: int) -> object:
    """Train through a convolution as in a ConvNeXt; return strides of its gradient."""

    def normed(
        x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.conv2d(x.relu(), weight, bias, padding=kernel // 2, groups=channels)
        y = torch.nn.functional.layer_norm(y.permute(0, 2, 3, 1), (channels,))
        return y.permute(0, 3, 1, 2) + x, y.mean()

    x = torch.randn(batch, channels, side, side).to(memory_format=torch.channels_last)
    weight = torch.randn(channels, 1, kernel, kernel) / kernel
    bias = torch.randn(channels)
    stages = check_training(normed, x, weight, bias, calls=None, rtol=1e-4, atol=1e-3)
    lines = stages[-1].lowered.program.lines
    (image, *_) = (line.type for line in lines if isinstance(line, MultiOutputLine))
    assert isinstance(image, TensorType)
    return image.stride


@pytest.mark.parametrize(
    ("channels", "side", "kernel", "batch"),
    [(384, 4, 7, 1), (700, 2, 7, 2), (669, 3, 7, 100)],
)
def test_few_pixels_are_contiguous(
    channels: int, side: int, kernel: int, batch: int
) -> None:
    found = _image_strides(channels, side, kernel, batch)
    assert found == (channels * side * side, side * side, side, 1)


@pytest.mark.parametrize(
    ("channels", "side", "kernel", "batch"), [(384, 4, 3, 1), (64, 8, 7, 1), (700, 2, 3, 2)]
)
def test_others_keep_the_layout_of_eager(
    channels: int, side: int, kernel: int, batch: int
) -> None:
    found = _image_strides(channels, side, kernel, batch)
    assert found == (channels * side * side, 1, channels * side, channels)


def test_wanted_gradients_may_be_some() -> None:
    weight = torch.randn(8, 1, 5, 5)

    def convolved(x: torch.Tensor) -> torch.Tensor:
        return torch.conv2d(x.sin(), weight, padding=2, groups=8).sin()

    x = torch.randn(1, 8, 3, 3).to(memory_format=torch.channels_last)
    check_training(convolved, x, calls=None)
