"""Tensors with a negation or conjugation pending, such as parts of conjugated ones."""

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
    function: Function, compile: Callable[[Function], Function]
) -> None:
    x = conjugated()
    torch.testing.assert_close(compile(function)(x), function(x))


def test_a_conjugated_input_is_read_returned_and_written(
    compile: Callable[[Function], Function], request: pytest.FixtureRequest
) -> None:
    def function(x: torch.Tensor) -> Any:
        return x * 2, torch.view_as_real(x.resolve_conj()).sum(), x

    def written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.copy_(y * 2)
        return y.real + 1

    x = conjugated()
    found, wanted = compile(function)(x), function(x)
    torch.testing.assert_close(found, wanted)
    assert found[-1].is_conj()
    y = torch.randn(3, dtype=torch.complex64)
    ours, theirs = x.clone().conj(), x.clone().conj()
    assert ours.is_conj()
    if request.node.callspec.params["compile"] == ("inductor", "cpp"):
        with pytest.raises(RuntimeError, match="WIR801"):
            compile(written)(ours, y)
        return
    torch.testing.assert_close(compile(written)(ours, y), written(theirs, y))
    torch.testing.assert_close(ours, theirs)


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
