"""Numbers among the outputs: their values and Python types are as in eager."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo import config as dynamo_config
from torch._inductor import config

from tests.frontend_inductor.captured import capture_all
from wrapperir.interp import interpret


def _whole(x: torch.Tensor) -> tuple[Any, ...]:
    k = x.long().max().item()
    return k > 1, k, k * 2, not (k > 1), k > 1 and k < 2, k == 5, k != 5


def _real(x: torch.Tensor) -> tuple[Any, ...]:
    a = x.max().item()
    return a > 2, a < 0, x / a


def _flag(x: torch.Tensor) -> tuple[Any, ...]:
    flag, other = (x.sum() > 3).item(), (x > 1).all().item()
    return x * flag, flag, other


def _sizes(x: torch.Tensor) -> tuple[Any, ...]:
    rows = x.shape[0]
    return rows * 2, rows / 3, rows > 5, -rows // 2, x + rows


FUNCTIONS: dict[str, Callable[[torch.Tensor], tuple[Any, ...]]] = {
    "whole": _whole,
    "real": _real,
    "flag": _flag,
    "sizes": _sizes,
}


def _assert_same(actual: tuple[Any, ...], expected: tuple[Any, ...]) -> None:
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        assert type(one) is type(other)
        if isinstance(other, torch.Tensor):
            torch.testing.assert_close(one, other)
        else:
            assert one == other


@pytest.fixture(autouse=True)
def _forget() -> None:
    torch._dynamo.reset()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_numbers_are_as_in_eager(name: str) -> None:
    function, x = FUNCTIONS[name], torch.arange(6.0)
    with (
        dynamo_config.patch(capture_scalar_outputs=True),
        config.patch(cpu_backend="triton"),
    ):
        compiled = torch.compile(function, backend="wrapperir", dynamic=True)
        _assert_same(compiled(x), function(x))


def test_inductors_own_wrapper_gives_the_same() -> None:
    x = torch.arange(6.0)
    with dynamo_config.patch(capture_scalar_outputs=True):
        _assert_same(torch.compile(_flag, backend="inductor")(x), _flag(x))


def test_the_interpreter_gives_a_flag_as_bool() -> None:
    x = torch.arange(6.0)
    (lowered,) = capture_all(_flag, (x,), cpu_backend="triton")
    _assert_same(interpret(lowered.program, [x], lowered.constants), _flag(x))
