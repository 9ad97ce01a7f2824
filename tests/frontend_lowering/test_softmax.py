"""Softmax and losses through the lowering, beside eager."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from tests.frontend_lowering.lowered import check, compiled
from tests.frontend_lowering.training import check_training

INF = float("inf")


def values(*size: int) -> torch.Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(len(size)))


def softmaxes(x: torch.Tensor) -> list[torch.Tensor]:
    return [
        x.softmax(1),
        x.transpose(0, 2).softmax(0),
        x.log_softmax(-1),
        x.logsumexp(1),
        F.softmin(x, 0),
        x[0, 0, 0].softmax(0),
        x.softmax(1, dtype=torch.float64),
    ]


def test_softmax() -> None:
    x = values(3, 5, 7)
    check(lambda x, y: (softmaxes(x), softmaxes(y)), x.double(), x)
    check(softmaxes, x.half(), rtol=0.01, atol=1e-4)


def test_gradients_of_symbolic_sizes() -> None:
    check_training(softmaxes, values(3, 5, 7), dynamic=True, rtol=1e-5, atol=1e-5)


def test_softmax_of_infinities() -> None:
    x = values(3, 5, 7)
    x[0, :, 1], x[1, :, 2], x[2, 1, :], x[0, 0, 0] = -INF, INF, -INF, float("nan")
    check(lambda x: (*softmaxes(x), torch._safe_softmax(x, 1)), x)


def test_logsumexp_of_whole_numbers() -> None:
    x = values(3, 5) * 3
    check(lambda *given: [x.logsumexp(1) for x in given], x.long(), x.char(), x > 0)


def losses(
    x: torch.Tensor, w: torch.Tensor, target: torch.Tensor, pixels: torch.Tensor
) -> list[torch.Tensor]:
    flat, w = x[:, :, 0, 0], w.detach()
    found: list[torch.Tensor] = []
    for reduction in ("mean", "sum", "none"):
        found += [
            F.cross_entropy(flat, target, reduction=reduction),
            F.cross_entropy(x, pixels, w, reduction=reduction),
            F.cross_entropy(flat[0], target[0], reduction=reduction),
            F.nll_loss(x, pixels.clamp(0), reduction=reduction, ignore_index=2),
        ]
    found.append(F.cross_entropy(x, pixels, w, label_smoothing=0.1))
    found.append(F.cross_entropy(flat, x[:, :, 0, 1].softmax(1)))
    return found


def test_losses_of_classes() -> None:
    target, pixels = torch.tensor([0, 5, -100, 3]), torch.arange(60).view(4, 5, 3) % 6
    pixels[1, 2] = -100
    given = (values(4, 6, 5, 3), values(6).abs(), target, pixels)
    check_training(losses, *given, calls=None, rtol=1e-5, atol=1e-5)
    nhwc = given[0].contiguous(memory_format=torch.channels_last)
    check(losses, nhwc.double(), given[1].double(), *given[2:], calls=None)


def test_a_loss_reads_only_the_elements_of_classes() -> None:
    (lowering,) = check(F.cross_entropy, values(8, 16), torch.arange(8))
    sizes = [type.size for type in lowering.schedule.buffers.values()]
    assert sizes.count((8, 16)) == 1, "log_softmax is stored"


def test_a_class_out_of_bounds() -> None:
    function = compiled(F.nll_loss, [])
    x = values(4, 6)
    function(x, torch.tensor([0, 5, -100, 3]))
    for wrong in (6, -1):
        with pytest.raises(RuntimeError, match="out of bounds"):
            function(x, torch.tensor([0, 5, wrong, 3]))


def test_losses_of_numbers() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [
            F.mse_loss(x, y),
            F.l1_loss(x, y, reduction="sum"),
            F.smooth_l1_loss(x, y),
            F.huber_loss(x, y, reduction="none"),
            F.binary_cross_entropy_with_logits(x, y.sigmoid()),
            F.binary_cross_entropy(x.sigmoid(), y.sigmoid()),
            F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean"),
            F.soft_margin_loss(x, y.detach().sign()),
            F.hinge_embedding_loss(x, y.detach().sign()),
            F.poisson_nll_loss(x, y.abs()),
            F.gaussian_nll_loss(x, y, y.abs() + 0.5),
        ]

    given = (values(4, 6), values(4, 6) * 2)
    check_training(function, *given, calls=None, rtol=1e-5, atol=1e-5)
