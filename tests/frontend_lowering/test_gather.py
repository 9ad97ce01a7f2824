"""Operators that read elements at positions that tensors have."""

from collections.abc import Callable

import pytest
import torch

from tests.frontend_lowering.lowered import check, compiled
from wrapperir.frontend.lowering.lower import LoweringStages
from wrapperir.lowering.kernel import KernelLaunch
from wrapperir.lowering.loops import Check, InnerLoop

Results = tuple[torch.Tensor, ...]


def _along_a_dimension(
    x: torch.Tensor, at: torch.Tensor, scalar: torch.Tensor, zero: torch.Tensor
) -> Results:
    return (
        torch.gather(x, 1, at),
        torch.gather(x.t(), -1, at[:, :2]),
        torch.gather(scalar, 0, zero),
        torch.gather(scalar, 0, zero.expand(1)),
        torch.gather(scalar.reshape(1), 0, zero),
        torch.gather(x, 0, at[:0]),
        torch.index_select(x, 1, at[0]),
        torch.index_select(x.t(), 1, at[0].int()),
        torch.index_select(x, 0, zero),
        torch.index_select(scalar, 0, zero),
        torch.take_along_dim(x.bfloat16(), at[:1], 1),
        torch.nn.functional.embedding(at, x),
        torch.nn.functional.embedding(at.t().int(), x, padding_idx=1),
    )


def _with_indices(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> Results:
    y = x.permute(3, 1, 2, 0)
    return (
        *(x[a], x[:, a], x[a, b], x[a, :, b], x[:, a, b], x[:, a, :, b], x[a, None, b]),
        *(x[..., a], y[a, b], y[:, a], x[a, 1, b, 1:3], x[a[:0]], x[a.int()]),
        *((x > 0)[a], x.to(torch.int8)[..., a, :], x.half()[b, a]),
        *(torch.take(x, a), torch.take(y, b), torch.take(x, a[:0])),
    )


@pytest.mark.parametrize("dynamic", [False, pytest.param(True, marks=pytest.mark.sweep)])
def test_elements_are_those_at_the_positions(dynamic: bool) -> None:
    x = torch.randn(4, 5)
    at = torch.tensor([[0, 3, 3], [1, 2, 0]])
    check(_along_a_dimension, x, at, torch.tensor(3.5), torch.tensor(0), dynamic=dynamic)
    a, b = torch.tensor([0, -1, 2]), torch.tensor([[1], [-2]])
    check(_with_indices, torch.randn(3, 4, 5, 6), a, b, dynamic=dynamic)


def _masked(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return x[mask] + 1


def test_a_mask_as_an_index_is_a_call() -> None:
    check(_masked, torch.randn(5, 3), torch.arange(5) > 2, calls=None)


def _embed(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.embedding(at, x)


def _columns(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return x[:, at] + 1


def _rows(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return x[at]


def _gather(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return torch.gather(x, 0, at[:, None])


def _select(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return torch.index_select(x, 0, at)


def _scatter(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return x.scatter(1, at[:, None], 2.0)


def _put(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return x.index_put((at,), x[0])


@pytest.mark.parametrize(
    ("function", "at", "message"),
    [
        (_gather, 4, "out of bounds for dimension 0 with size 4"),
        (_gather, -1, "out of bounds for dimension 0 with size 4"),
        (_columns, -6, "out of bounds for dimension 1 with size 5"),
        (_rows, 4, "out of bounds for dimension 0 with size 4"),
        (_embed, -1, "index out of range in self"),
        (_select, 4, "index out of range in self"),
        (torch.take, 20, "out of range: tried to access an index"),
        (_scatter, 5, "out of bounds for dimension 1 with size 5"),
        (_put, -5, "out of bounds for dimension 0 with size 4"),
    ],
)
def test_positions_out_of_range_are_errors(
    function: Callable[..., torch.Tensor], at: int, message: str
) -> None:
    run = compiled(function, [])
    with pytest.raises((IndexError, RuntimeError), match=message):
        run(torch.randn(4, 5), torch.tensor([at]))


def _normed(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    rows = x[at]
    return rows - rows.mean(1, keepdim=True)


def test_positions_of_rows_are_checked_before_the_loops_over_a_row() -> None:
    (stages,) = check(
        _normed, torch.randn(4, 48), torch.tensor([3, 1, -4]), rtol=0, atol=1e-6
    )
    outside, inside = _checks(stages)
    assert outside
    assert not inside
    assert "strip" in str(stages.lowered.program.definitions)  # its loops have lanes


def test_rows_that_may_be_empty_are_checked_in_their_loops() -> None:
    kept: list[LoweringStages] = []
    run = compiled(_normed, kept, dynamic=True)
    x, at = torch.randn(4, 48), torch.tensor([3, 1, -4])
    torch.testing.assert_close(run(x, at), _normed(x, at))
    outside, inside = _checks(kept[0])
    assert inside
    assert not outside


def _checks(stages: LoweringStages) -> tuple[list[Check], list[Check]]:
    """Return the checks of kernels outside of inner loops, and in them."""
    kernels = [each for each in stages.schedule.items if isinstance(each, KernelLaunch)]
    steps = [step for each in kernels for step in each.kernel.nest.body]
    loops = [step for step in steps if isinstance(step, InnerLoop)]
    return (
        [step for step in steps if isinstance(step, Check)],
        [step for loop in loops for step in loop.body if isinstance(step, Check)],
    )
