"""Errors of sizes that are known only when a compiled function runs, beside Inductor's."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._dynamo import config as dynamo_config

TORCH: Any = torch  # its checks have no types
EMITTERS = ("python", "cpp", "fx")


@pytest.fixture(autouse=True)
def _unbacked_sizes() -> Iterator[None]:
    torch._dynamo.reset()
    changes = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}
    with dynamo_config.patch(changes):
        yield
    torch._dynamo.reset()


def _zeros(x: torch.Tensor) -> torch.Tensor:
    size = x.sum().item()
    TORCH._check(size >= 2)
    TORCH._check(size <= 5)
    return torch.zeros(size) + 1  # type: ignore[arg-type]


def _pairs(x: torch.Tensor) -> torch.Tensor:
    places = x.nonzero()
    return torch.cat([places, places]).reshape(4, -1).sum(0)


def _parts(x: torch.Tensor) -> torch.Tensor:
    first, second = x.tolist()
    TORCH._check(first >= 0)
    TORCH._check(second >= 0)
    a, b = torch.split(torch.arange(5.0), [first, second])
    return torch.cat([a * 2, b + 1])


CASES: dict[str, tuple[Callable[..., Any], torch.Tensor, torch.Tensor]] = {
    "an upper bound": (_zeros, torch.tensor([1, 2]), torch.tensor([5, 5])),
    "a lower bound": (_zeros, torch.tensor([1, 2]), torch.tensor([1, 0])),
    "an assert": (_pairs, torch.ones(2), torch.ones(3)),
    "a negative size": (_parts, torch.tensor([2, 3]), torch.tensor([8, -3])),
}


def _failure(
    function: Callable[..., Any], good: torch.Tensor, bad: torch.Tensor, **kwargs: Any
) -> Exception:
    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, **kwargs)
    torch.testing.assert_close(compiled(good), function(good))
    with pytest.raises(Exception) as caught:  # noqa: PT011
        compiled(bad)
    torch.testing.assert_close(compiled(good), function(good))
    return caught.value


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(n, marks=pytest.mark.sweep) if n == "a lower bound" else n
        for n in CASES
    ],
)
def test_errors_have_the_class_and_the_condition_of_inductors(case: str) -> None:
    wanted = _failure(*CASES[case], backend="inductor")
    for emitter in EMITTERS:
        options = {"emitter": emitter}
        error = _failure(*CASES[case], backend="wrapperir", options=options)
        assert type(error) is type(wanted) is RuntimeError, emitter
        assert str(wanted) in str(error), emitter
