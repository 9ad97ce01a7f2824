"""Operators that put tensors beside each other, or elements around them."""

from typing import Any

import pytest
import torch
from torch.nn.functional import one_hot, pad

from tests.frontend_lowering.lowered import check
from tests.torch_release import BEFORE_2_13
from wrapperir.lowering.traffic import item_traffic

aten: Any = torch.ops.aten
Results = tuple[torch.Tensor, ...]


def _joined(x: torch.Tensor, y: torch.Tensor, n: torch.Tensor) -> Results:
    empty = x.new_empty(0)
    return (
        torch.cat([x, y]),
        torch.cat([x.t(), y.t(), x.t()], -1).sin(),
        torch.cat([x, n]) + 1,
        torch.cat([n, x.half()], 0),
        torch.cat([empty, x, y[:0], y]),
        torch.cat([empty, empty]),
        torch.cat([x[:, :1]] * 9, 1) * 2,
        torch.cat((-x[:, 2:], x[:, :2]), 1) * x.cos() + x,
        torch.cat([x > 0, y > 0]).t().logical_not(),
        torch.stack([x, x * 2, x + 1], 1),
        torch.stack([x[0, 0], y[0, 0]]),
        torch.hstack([x[0], y[0]]),
    )


def _moved(x: torch.Tensor) -> Results:
    return (
        *(x.roll(2, 1), x.roll((-1, 3), (0, 1)), x.roll(7), x.t().roll(1, 0) + 1),
        *(x.repeat(2, 1, 3), x.repeat(1, 1), x[0].repeat(2, 2), x[0, 0].repeat(3)),
        *(x.repeat_interleave(2, 0), x.repeat_interleave(3), x.tril(-1), x.triu(1)),
        *(
            x.rot90(),
            x.flip(0, 1),
            x[:, :0].flip(0),
            x.tile(2),
            x.bool().roll(1, 0),
            x.half().roll(1, 1),
        ),
    )


def _surrounded(x: torch.Tensor, whole: torch.Tensor) -> Results:
    return (
        *(pad(x, (1, 2)), pad(x, (1, -1, 0, 2), value=1.5), pad(x, (-1, -2))),
        *(pad(x > 0, (1, 1), value=True), pad(whole, (0, 3), value=-7)),
        *(pad(x.half(), (2, 0, 1, 1), value=-0.0), pad(x, (0, 0, 3, 0)).exp()),
        *(pad(x[:, None], (2, 1), "reflect"), pad(x[:, None], (2, 1), "replicate")),
        *(pad(x[None], (2, 1, 1, 3), "reflect"), pad(x[None], (2, 1, 1, 5), "replicate")),
        *(pad(x[None], (2, 1), "circular"), pad(x[None], (-1, 2, 1, -1), "replicate")),
        pad(x[None, None, None], (1, 1, 2, 2, 0, 0), "reflect"),
        pad(x[None, None, None], (1, 1, 2, 2, 3, 1), "replicate"),
    )


@pytest.mark.parametrize("dynamic", [False, True])
def test_elements_are_where_eager_puts_them(dynamic: bool) -> None:
    x, y, n = torch.randn(4, 5), torch.randn(3, 5), torch.randint(0, 9, (2, 5))
    check(_moved, x, dynamic=dynamic)
    if not dynamic:
        check(_joined, x, y, n)
    check(_surrounded, x, n, dynamic=dynamic)


def test_channels_last_stays() -> None:
    def joined(x: torch.Tensor) -> Results:
        return torch.cat([x, x], 1), torch.cat([x, x], 1) * 2, pad(x, (1, 1, 1, 1))

    x = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    check(joined, x)


def test_gradients_add_up_what_padding_repeats() -> None:
    def gradients(
        a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, x: torch.Tensor, y: torch.Tensor
    ) -> Results:
        return (
            aten.reflection_pad1d_backward(a, x[0], (2, 3)),
            aten.replication_pad2d_backward(b, x, (2, 3, 1, 2)),
            aten.replication_pad3d_backward(c, y, (1, 1, 2, 1, 1, 0)),
            aten.reflection_pad2d_backward(b.bfloat16(), x.bfloat16(), (2, 3, 1, 2)),
        )

    x, y = torch.randn(2, 4, 5), torch.randn(1, 3, 4, 5)
    a, b, c = pad(x[0], (2, 3)), pad(x, (2, 3, 1, 2)), pad(y, (1, 1, 2, 1, 1, 0))
    a, b, c = (torch.randn(each.shape) for each in (a, b, c))
    check(gradients, a, b, c, x, y, rtol=1e-2, atol=2e-2)


def _replaced(x: torch.Tensor, y: torch.Tensor) -> Results:
    return (
        torch.slice_scatter(x, y[:, :2], 1, 1, 3),
        torch.slice_scatter(x, y[:2], 0, 0, 4, 2),
        torch.slice_scatter(x, y[:1], -2, -1),
        torch.slice_scatter(x, y, 0, 0, 99),
        torch.slice_scatter(x, y[:0], 0, 9),
        torch.slice_scatter(x.t(), y.t()[3:], 0, -2) * 2,
        torch.select_scatter(x, y[0], 0, 2),
        torch.select_scatter(x.half(), y[:, 1].half(), -1, -2),
        torch.diagonal_scatter(x, y.diagonal()),
        torch.diagonal_scatter(x, y.diagonal(1), 1),
        torch.diagonal_scatter(x, y.diagonal(-2, 1, 0), -2, 1, 0),
        torch.diag_embed(x[0], 1),
    )


@pytest.mark.parametrize("dynamic", [False, True])
def test_views_are_replaced(dynamic: bool) -> None:
    x, y = torch.randn(4, 5), torch.randn(4, 5)
    check(_replaced, x, y, dynamic=dynamic)


def test_nothing_is_written_under_a_slice() -> None:
    def between(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        zeros = torch.zeros(6, 5)
        return (
            torch.slice_scatter(zeros, x, 0, 1, 4),
            torch.slice_scatter(torch.ones(3, 8), x, 1, 3),
            torch.slice_scatter(torch.ones(3, 9), x, -1, 0, 5),
        )

    (stages,) = check(between, torch.randn(3, 5))
    schedule = stages.schedule
    found = [item_traffic(each, schedule.buffers, {}) for each in schedule.items]
    assert sum(each.written for each in found) == 4 * (6 * 5 + 3 * 8 + 3 * 9)


def _assigned(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x + 1
    z[1:3] = y
    z[0] = y[0]
    z[:, ::2] *= 2
    z.diagonal().zero_()
    return z


def test_assignments_to_slices() -> None:
    check(_assigned, torch.randn(5, 5), torch.randn(2, 5))


def test_one_hot_calls_only_its_assertions() -> None:
    calls = 0 if BEFORE_2_13 else 2  # 2.11 checks no class
    check(one_hot, torch.randint(0, 9, (2, 5)), 9, calls=calls)
