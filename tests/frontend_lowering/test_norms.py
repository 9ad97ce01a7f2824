"""Norms and their gradients through the lowering, beside eager."""

import torch
import torch.nn.functional as F  # noqa: N812

from tests.frontend_lowering.lowered import check
from tests.frontend_lowering.training import check_training


def values(*size: int) -> torch.Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(len(size)))


def test_layer_norm() -> None:
    def function(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        return [
            F.layer_norm(x, (5, 6), w, b),
            F.layer_norm(x, (6,)),
            F.layer_norm(x, (4, 5, 6), eps=0.1),
            F.layer_norm(x.transpose(0, 1), (4, 6), bias=b.detach()[:4]),
            F.rms_norm(x, (5, 6), w),
        ]

    inputs = (values(4, 5, 6), values(5, 6), values(5, 6))
    check_training(function, *inputs, rtol=1e-4, atol=1e-5)
    check(function, *(each.bfloat16() for each in inputs), rtol=0.01, atol=0.02)


def test_group_norm() -> None:
    def function(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        return [
            F.group_norm(x, 3, w, b),
            F.group_norm(x, 1),
            F.group_norm(x.flatten(2), 6, w),
            F.group_norm(x[:, :, 0, 0], 2, w, b),
        ]

    inputs = (values(2, 6, 3, 4), values(6), values(6))
    check_training(function, *inputs, rtol=1e-4, atol=1e-5)
    check(function, *(each.bfloat16() for each in inputs), rtol=0.01, atol=0.02)


def test_batch_norm() -> None:
    def function(
        x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, mean: torch.Tensor
    ) -> list[torch.Tensor]:
        means, variances = mean.detach().clone(), mean.detach().abs() + 1
        y = F.batch_norm(x, means, variances, w, b, training=True)
        z = F.batch_norm(x[:, :, 0, 0], means, variances, w, training=True, momentum=0.3)
        still = F.batch_norm(x, means, variances, w, b)
        return [y, z, still, F.instance_norm(x, weight=w, bias=b), means, variances]

    inputs = (values(4, 6, 3, 4), values(6), values(6), values(6))
    check_training(function, *inputs[:3], inputs[3] * 0, rtol=1e-4, atol=1e-5)
    nhwc = inputs[0].contiguous(memory_format=torch.channels_last)
    check(function, nhwc, *inputs[1:], rtol=1e-4, atol=1e-5)
    check(function, inputs[0].bfloat16(), *inputs[1:], rtol=0.01, atol=0.02)


def test_statistics_of_modules() -> None:
    norm = torch.nn.BatchNorm1d(5)
    x = values(4, 5, 3)
    check(lambda x: norm(x), x, calls=None)


def test_symbolic_sizes() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
        y = x.transpose(1, 2).contiguous()
        return [
            F.layer_norm(x, (x.shape[-1],), w),
            F.group_norm(y, 2),
            F.batch_norm(y, None, None, w, training=True),
        ]

    check_training(function, values(4, 5, 6), values(6), dynamic=True, rtol=1e-4, atol=1e-5)
