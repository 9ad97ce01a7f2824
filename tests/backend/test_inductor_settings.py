"""Settings of Inductor's that a user may have changed."""

from typing import Any

import pytest
import torch
from torch._inductor import config

from wrapperir.frontend.inductor import capture

APPLIED: list[dict[str, Any]] = [
    {"cpp_wrapper": True},
    {"fx_wrapper": True},
    {"graph_partition": True},
    {"triton.cudagraphs": True},
    {"memory_planning": True},
    {"cpp_wrapper": True, "memory_planning": True},
    {"profiler_mark_wrapper_call": True},
    {"annotate_training": True},
    {"cpp.enable_kernel_profile": True},
    {"size_asserts": False},
    {"alignment_asserts": True},
    {"benchmark_kernel": True},
    {"freezing": True},
    {"coordinate_descent_tuning": True},
]


def _head(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return (x @ w).relu().sum(0) + 1, x.t()


def _inputs() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(3, 4), torch.randn(4, 5)


@pytest.mark.parametrize("changed", APPLIED, ids=str)
def test_results_are_as_in_eager(changed: dict[str, Any]) -> None:
    torch._dynamo.reset()
    with torch.no_grad(), config.patch({"cpu_backend": "triton", **changed}):
        actual = torch.compile(_head, backend="wrapperir")(*_inputs())
        for name, value in changed.items():
            assert config.get_config_copy()[name] == value
    torch.testing.assert_close(actual, _head(*_inputs()))


@pytest.mark.parametrize(
    "changed", [{"max_autotune": True}, {"nan_asserts": True}], ids=str
)
def test_results_are_as_in_eager_with_cpp_kernels(changed: dict[str, Any]) -> None:
    torch._dynamo.reset()
    with torch.no_grad(), config.patch(changed):
        actual = torch.compile(_head, backend="wrapperir")(*_inputs())
    torch.testing.assert_close(actual, _head(*_inputs()))


def test_text_that_a_setting_adds_is_refused() -> None:
    torch._dynamo.reset()
    with (
        config.patch({"cpu_backend": "triton", "triton.debug_sync_kernel": True}),
        pytest.raises(Exception, match=r"WIR650"),
    ):
        torch.compile(_head, backend="wrapperir")(*_inputs())


def test_a_backward_is_compiled_under_them_too() -> None:
    x, w = (tensor.requires_grad_() for tensor in _inputs())
    expected = torch.autograd.grad(_head(x, w)[0].sum(), [x, w])
    torch._dynamo.reset()
    with config.patch({"cpu_backend": "triton", "cpp_wrapper": True}):
        loss = torch.compile(_head, backend="wrapperir")(x, w)[0].sum()
        torch.testing.assert_close(torch.autograd.grad(loss, [x, w]), expected)


def test_capture_works_under_them_too() -> None:
    torch._dynamo.reset()
    with config.patch(cpp_wrapper=True):
        assert len(capture(_head, _inputs(), cpu_backend="triton")) == 1
