"""Poolings, their gradients, and the resampling of images."""

from typing import Any

import pytest
import torch
from torch.nn import functional

from tests.frontend_lowering.lowered import check

Results = tuple[torch.Tensor, ...]
aten: Any = torch.ops.aten


def _maxima(x: torch.Tensor) -> Results:
    pool = aten.max_pool2d_with_indices
    low = torch.full_like(x, -float("inf"))
    return (
        *pool(x, 2),
        *pool(x, [3, 2], [2, 1], [1, 1]),
        *pool(x, 3, 2, 1, 1, True),
        *pool(x[0], 2, 1, 1, 2),
        *pool(low, 3, 2, 1),
        *pool(x.bfloat16(), 3, 1, 1),
        *pool((x * 9).long(), 3, 2, 1),
        *aten.max_pool3d_with_indices(x, 2, 1, 1),
        functional.max_pool1d(x[0], 3, 2),
        *aten.adaptive_max_pool2d(x, [3, 2]),
        *aten.adaptive_max_pool3d(x, [2, 7, 3]),
        functional.relu(functional.max_pool2d(x, 2)) + 1,
    )


def _means(x: torch.Tensor) -> Results:
    pool = aten.avg_pool2d
    return (
        *(pool(x, 2), pool(x, [3, 2], [2, 1], [1, 1]), pool(x, 3, 2, 1, True)),
        *(pool(x, 3, 2, 1, True, False), pool(x, 3, 1, 1, False, False)),
        *(pool(x[0], 3, 2, 0, True), pool(x, 2, 2, 0, False, True, 3)),
        *(pool(x.double(), 2), functional.avg_pool1d(x[0], 3, 2, 1)),
        *(aten.avg_pool3d(x, 2, 1, 1), aten.avg_pool3d(x, 2, 2, 1, True, False)),
        *(functional.adaptive_avg_pool2d(x, (3, 2)), aten._adaptive_avg_pool2d(x, [1, 1])),
        *(aten._adaptive_avg_pool2d(x, [7, 12]), aten._adaptive_avg_pool3d(x, [2, 3, 5])),
        functional.adaptive_avg_pool1d(x[0], 4),
    )


def _pool_gradients(x: torch.Tensor, y: torch.Tensor) -> Results:
    found: list[torch.Tensor] = []
    for kernel, stride, padding, dilation, ceil in (
        (2, 2, 0, 1, False),
        (3, 2, 1, 1, True),
        (3, 1, 1, 1, False),
        (2, 1, 1, 2, False),
        (2, 3, 0, 1, False),
    ):
        window = ([kernel] * 2, [stride] * 2, [padding] * 2)
        values, places = aten.max_pool2d_with_indices(x, *window, [dilation] * 2, ceil)
        gradient = y[:, :, : values.shape[2], : values.shape[3]] * 2
        found.append(
            aten.max_pool2d_with_indices_backward(
                gradient, x, *window, [dilation] * 2, ceil, places
            )
        )
        for counts, divisor in ((True, None), (False, None), (True, 5)):
            if dilation == 1:
                found.append(
                    aten.avg_pool2d_backward(gradient, x, *window, ceil, counts, divisor)
                )
    for size in ([3, 2], [6, 7], [1, 1], [12, 7]):
        values, places = aten.adaptive_max_pool2d(x, size)
        gradient = y[:, :, : size[0], : size[1]].contiguous()
        found.append(aten._adaptive_avg_pool2d_backward(gradient, x))
        found.append(aten.adaptive_max_pool2d_backward(gradient, x, places))
    return tuple(found)


@pytest.mark.parametrize("dynamic", [False, pytest.param(True, marks=pytest.mark.sweep)])
def test_poolings_are_those_of_eager(dynamic: bool) -> None:
    x = torch.randn(2, 3, 6, 7)
    x[0, 0, 1, 1] = float("nan")
    check(_maxima, x, dynamic=dynamic)
    if not dynamic:
        check(_means, x)


def test_gradients_of_poolings() -> None:
    x, y = torch.randn(2, 3, 6, 7), torch.randn(2, 3, 12, 12)
    check(_pool_gradients, x, y)


def test_poolings_keep_channels_last() -> None:
    def pooled(x: torch.Tensor) -> Results:
        values, places = aten.max_pool2d_with_indices(x, 3, 2, 1)
        return values, places, functional.avg_pool2d(x, 2)

    x = torch.randn(2, 3, 6, 7).contiguous(memory_format=torch.channels_last)
    check(pooled, x)


def _resampled(x: torch.Tensor) -> Results:
    resize = functional.interpolate
    return (
        *(resize(x, scale_factor=2.0), resize(x, size=(4, 9)), resize(x[0], size=5)),
        *(
            resize(x, size=(4, 9), mode="bilinear"),
            resize(x, scale_factor=2, mode="bicubic"),
        ),
        resize(x, size=(4, 9), mode="bilinear", align_corners=True),
        resize(x[0], size=5, mode="linear"),
        resize(x, size=(4, 9), mode="nearest-exact"),
        *(functional.pixel_shuffle(x[:, :2].repeat(1, 2, 1, 1), 2),),
        functional.unfold(x, (2, 3), padding=1),
    )


def test_images_are_resampled() -> None:
    check(_resampled, torch.randn(2, 3, 6, 7))
