"""Tensors whose layout is not as traced: an error, with kernels of our own too."""

from typing import Any

import pytest
import torch

from tests.torch_release import BEFORE_2_13

OPERATOR = "wrapperir_layouts::transposed"


@torch.library.custom_op(OPERATOR, mutates_args=())
def transposed(x: torch.Tensor) -> torch.Tensor:
    return x.t().contiguous().t()


@transposed.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)  # which has other strides


def compiled(function: Any, frontend: str) -> Any:
    torch._dynamo.reset()
    options: Any = {"frontend": frontend}
    return torch.compile(function, backend="wrapperir", options=options)


@pytest.mark.usefixtures("triton_on_cpu")
@pytest.mark.parametrize("frontend", ["inductor", "lowering"])
@pytest.mark.parametrize(
    "function",
    [lambda x: transposed(x.sin()) + 1, transposed, lambda x: transposed(x).view(-1)],
    ids=["read by a kernel", "returned", "viewed"],
)
def test_an_operator_whose_fake_has_other_strides(function: Any, frontend: str) -> None:
    message = r"torch\.ops\.wrapperir_layouts\.transposed.*opcheck.* has size \[3, 4\] and"
    with pytest.raises(AssertionError, match=message):
        compiled(function, frontend)(torch.randn(3, 4))


@pytest.mark.usefixtures("triton_on_cpu")
@pytest.mark.parametrize("frontend", ["inductor", "lowering"])
def test_inputs_that_shared_memory_when_traced(frontend: str) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        y.mul_(2)
        return x + y

    base = torch.randn(6)
    other = base.clone()
    called = compiled(function, frontend)
    torch.testing.assert_close(called(base[:4], base[2:]), function(other[:4], other[2:]))
    torch.testing.assert_close(base, other)
    # PyTorch does not guard that they do, and the program has one input for both.
    said = "synthetic_base_info" if BEFORE_2_13 else r"input.* has size \[4\] and stride"
    with pytest.raises(AssertionError, match=said):
        called(torch.randn(4), torch.randn(4))
