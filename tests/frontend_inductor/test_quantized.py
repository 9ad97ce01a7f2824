"""Quantized tensors are objects: they are made, dequantized and returned."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed
from torch._subclasses import FakeTensorMode
from torch.utils import _pytree as pytree

from tests.frontend_inductor.captured import capture_one
from tests.torch_release import BEFORE_2_13
from wrapperir.diagnostics import DiagnosticError
from wrapperir.frontend.export import lower_exported
from wrapperir.frontend.inductor import capture
from wrapperir.interp import interpret
from wrapperir_cpp.emitter import CppEmitter

pytestmark = [
    pytest.mark.usefixtures("triton_on_cpu"),
    pytest.mark.skipif(BEFORE_2_13, reason="Dynamo of 2.11 traces no quantize_per_tensor"),
]

X = torch.linspace(-2, 2, 16).reshape(4, 4)


def quantized(x: torch.Tensor, dtype: torch.dtype = torch.quint8) -> torch.Tensor:
    return torch.quantize_per_tensor(x, 0.1, 10, dtype)


def with_tensors(x: torch.Tensor) -> torch.Tensor:
    scale, zero = torch.tensor(0.1), torch.tensor(3)
    return torch.quantize_per_tensor(x, scale, zero, torch.quint8).dequantize()


PASSING: dict[str, Callable[..., Any]] = {
    "dequantized": lambda x: quantized(x + 1).dequantize() + 1,
    "returned": lambda x: (quantized(x + 1), x * 2),
    "returned twice": lambda x: (quantized(x),) * 2,
    "qint8": lambda x: quantized(x, torch.qint8).dequantize() * 2,
    "qint32": lambda x: quantized(x, torch.qint32).dequantize() * 2,
    "scale in a tensor": with_tensors,
    "in a branch": lambda x: torch.cond(
        x.sum() > 9, torch.cos, lambda x: quantized(x).dequantize(), (x,)
    ),
}


def assert_same(actual: object, expected: object) -> None:
    """Check that two results have the same dtypes and values."""
    for one, other in zip(*map(pytree.tree_leaves, (actual, expected)), strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one.dequantize(), other.dequantize())


@pytest.mark.parametrize("emitter", ["python", "fx"])
@pytest.mark.parametrize("name", PASSING)
def test_results_are_eagers(name: str, emitter: str) -> None:
    torch._dynamo.reset()
    options: dict[str, Any] = {"emitter": emitter}
    compiled: Any = torch.compile(
        PASSING[name], backend="wrapperir", options=options, fullgraph=True
    )
    assert_same(compiled(X), PASSING[name](X))


def test_programs_run_in_the_interpreter() -> None:
    program = capture_one(PASSING["dequantized"], X)
    assert_same(interpret(program, [X], {})[0], PASSING["dequantized"](X))


def test_cpp_refuses_quantized_dtypes() -> None:
    program = capture_one(PASSING["dequantized"], X)
    with pytest.raises(DiagnosticError, match="WIR705: C\\+\\+ has no tensors of the"):
        CppEmitter().emit(program)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.relu(quantized(x)).dequantize(),
        lambda x: torch.cat([quantized(x), quantized(x)]).dequantize(),
        lambda x: quantized(x).view(16).dequantize(),
        lambda x: quantized(x)[1:],
        lambda x: quantized(x)[torch.tensor([1, 0])].dequantize(),
    ],
)
def test_other_uses_are_refused(function: Callable[..., Any]) -> None:
    torch._dynamo.reset()
    with pytest.raises(DiagnosticError, match=r"WIR653: %buf\d+ is used as a tensor"):
        capture(function, (X,))


class Module(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return quantized(x).dequantize()


def test_other_frontends_refuse_quantized_dtypes() -> None:
    """They give results the types of fake tensors, which do not know of quantization."""
    with pytest.raises(DiagnosticError, match=r"the dtype torch\.quint8 has no form"):
        lower_exported(torch.export.export(Module(), (X,)))
    torch._dynamo.reset()
    options: dict[str, Any] = {"frontend": "lowering"}
    compiled: Any = torch.compile(Module(), backend="wrapperir", options=options)
    with pytest.raises(BackendCompilerFailed, match=r"the dtype torch\.quint8 has no form"):
        compiled(X)


def test_pytorch_traces_quantized_tensors_as_tensors_of_floats() -> None:
    """So Inductor's kernels read four bytes an element of one: past the end, or wrong."""
    with FakeTensorMode():
        assert quantized(torch.ones(4)).dtype == torch.float32


@pytest.mark.xfail(strict=True, reason="PyTorch traces a.dequantize() of fake a as a")
def test_a_tensor_that_was_dequantized_is_returned() -> None:
    torch._dynamo.reset()

    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a = quantized(x)
        return a.dequantize() + 1, a

    compiled: Any = torch.compile(function, backend="wrapperir")
    assert_same(compiled(X), function(X))
