"""Tensors with a negation pending, such as the imaginary part of a conjugated tensor."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._inductor import config

Function = Callable[..., Any]


@pytest.fixture(
    params=[
        *(("inductor", "python"), ("inductor", "fx"), ("inductor", "cpp")),
        *(("lowering", "python"), ("lowering", "cpp"), ("lowering", "fx")),
    ],
    ids="-".join,
)
def compile(
    request: pytest.FixtureRequest,
) -> Iterator[Callable[[Function], Function]]:
    torch._dynamo.reset()
    options: Any = dict(zip(("frontend", "emitter"), request.param, strict=True))
    backend = "cpp" if request.param[1] == "cpp" else "triton"
    with config.patch(cpu_backend=backend):
        yield lambda function: torch.compile(function, backend="wrapperir", options=options)


def negated(*size: int) -> torch.Tensor:
    made = torch.view_as_complex(torch.randn(*size, 2)).conj().imag
    assert made.is_neg()
    return made


def conjugated() -> torch.Tensor:
    made = torch.randn(3, dtype=torch.complex64).conj()
    assert made.is_conj()
    return made


PARTS: list[Function] = [
    lambda x: x.imag * 2,
    lambda x: x.conj().imag.sin(),
    lambda x: x.real + 1,
]


@pytest.mark.parametrize("function", PARTS)
def test_parts_of_complex_tensors(
    function: Function, compile: Callable[[Function], Function]
) -> None:
    x = conjugated().resolve_conj()
    torch.testing.assert_close(compile(function)(x), function(x))


@pytest.mark.parametrize("function", PARTS)
def test_parts_of_conjugated_tensors(
    function: Function,
    compile: Callable[[Function], Function],
    request: pytest.FixtureRequest,
) -> None:
    called = request.node.callspec.params["compile"]
    if called == ("lowering", "cpp") and function is not PARTS[2]:
        reason = "emitted C++ is given a copy of a conjugated input, which it conjugates"
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
    x = conjugated()
    torch.testing.assert_close(compile(function)(x), function(x))


def test_a_negated_input(compile: Callable[[Function], Function]) -> None:
    def function(x: torch.Tensor) -> Any:
        return x * 2, x.sin().sum(), x @ x.t(), x

    x = negated(3, 3)
    found, wanted = compile(function)(x), function(x)
    torch.testing.assert_close(found, wanted)
    assert found[-1].is_neg()


def test_a_negated_input_in_training(compile: Callable[[Function], Function]) -> None:
    def gradients(function: Function) -> Any:
        leaf = weights.clone().requires_grad_()
        return torch.autograd.grad(function(x, leaf).sum(), leaf)

    x, weights = negated(3, 3), torch.randn(3, 3)

    def function(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return (x @ weights).sin() * x

    torch.testing.assert_close(gradients(compile(function)), gradients(function))


def test_a_negated_input_is_written(compile: Callable[[Function], Function]) -> None:
    def function(x: torch.Tensor) -> Any:
        x.mul_(3)
        return x + 1

    x = negated(4)
    other = x.clone()
    torch.testing.assert_close(compile(function)(x), function(other))
    torch.testing.assert_close(x, other)
