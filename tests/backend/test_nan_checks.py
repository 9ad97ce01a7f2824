"""``nan_asserts`` of Inductor's: every kernel call is checked, inputs and outputs."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._inductor import config

from tests.frontend_inductor.captured import capture_one, lines_of
from wrapperir.ir import AllocateLine, AssertNotNanLine, BufferRef, KernelCallLine
from wrapperir.tuning.choice_cache import fresh_choice_cache

WEIGHT = torch.eye(4)

INPUT = r"\bx (holds NaN or infinity|has a NaN or an infinity)"
"""What is said of an input, which is checked before anything runs."""

CONFIGURATIONS = {
    "cpp kernels": ("python", {}),
    "emitted C++": ("cpp", {}),
    "graph": ("fx", {}),
    "Triton": ("python", {"cpu_backend": "triton"}),
}


def hidden(x: torch.Tensor) -> torch.Tensor:
    """Return no NaN, though its first kernel makes one of a negative number."""
    return torch.nan_to_num(torch.log(x) @ WEIGHT)


def compiled(name: str, function: Callable[..., Any], *inputs: torch.Tensor) -> Any:
    """Compile with checks and call."""
    emitter, settings = CONFIGURATIONS[name]
    options: dict[str, Any] = {"emitter": emitter}
    torch._dynamo.reset()
    with torch.no_grad(), config.patch({"nan_asserts": True, **settings}):
        return torch.compile(function, backend="wrapperir", options=options)(*inputs)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_numbers_pass(name: str) -> None:
    x = torch.rand(3, 4) + 0.5
    torch.testing.assert_close(compiled(name, hidden, x), hidden(x))


@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_an_input_is_checked(name: str, value: float) -> None:
    x = torch.rand(3, 4) + 0.5
    x[1, 2] = value
    with pytest.raises(Exception, match=INPUT):
        compiled(name, hidden, x)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_what_a_kernel_makes_is_checked_though_no_result_shows_it(name: str) -> None:
    x = torch.rand(3, 4) - 2
    assert torch.isfinite(hidden(x)).all()
    with pytest.raises(Exception, match=r"output out_ptr0 of @\w+ is not finite"):
        compiled(name, hidden, x)


@pytest.mark.parametrize("backend", ["cpp", "triton"])
def test_each_tensor_of_a_call_is_checked_around_it(backend: str) -> None:
    with config.patch({"nan_asserts": True}):
        program = capture_one(hidden, torch.rand(3, 4), cpu_backend=backend)
    lines = program.lines
    calls = [i for i, line in enumerate(lines) if isinstance(line, KernelCallLine)]
    assert len(calls) == 2
    for at in calls:
        before, call, after = lines[at - 1 : at + 2]
        assert isinstance(before, AssertNotNanLine)
        assert isinstance(call, KernelCallLine)
        assert isinstance(after, AssertNotNanLine)
        names = [a.name for a in call.arguments if isinstance(a, BufferRef)]
        assert names in ([before.buffer, after.buffer], [before.buffer])


def test_workspaces_are_not_checked() -> None:
    settings = {
        "nan_asserts": True,
        "triton.force_cooperative_reductions": True,
        "triton.multi_kernel": 1,
    }
    with config.patch(settings):
        program = capture_one(
            lambda x: x.sum(1), torch.randn(4, 1000), cpu_backend="triton"
        )
    workspaces = {line.result for line in lines_of(program, AllocateLine) if line.workspace}
    names = {line.buffer for line in lines_of(program, AssertNotNanLine)}
    assert workspaces
    assert names
    assert not names & workspaces


def test_a_multi_kernel_is_checked_as_any_kernel() -> None:
    settings = {"nan_asserts": True, "cpu_backend": "triton", "triton.multi_kernel": 1}
    torch._dynamo.reset()
    x = torch.randn(3, 16)
    with torch.no_grad(), config.patch(settings), fresh_choice_cache():
        call = torch.compile(lambda x: x.sum(1), backend="wrapperir")
        torch.testing.assert_close(call(x), x.sum(1))
        x[2, 5] = math.nan
        with pytest.raises(Exception, match=INPUT):
            call(x)


def test_without_the_setting_nothing_is_checked() -> None:
    program = capture_one(hidden, torch.rand(3, 4))
    assert lines_of(program, AssertNotNanLine) == []


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="kernels run on a GPU")
@pytest.mark.parametrize("emitter", ["python", "cpp"])
@pytest.mark.parametrize("setting", [0, 3])
def test_kernels_on_a_gpu_are_checked(emitter: str, setting: int) -> None:
    def positive(x: torch.Tensor) -> torch.Tensor:
        return torch.nan_to_num(torch.log(x).sum(1) @ torch.eye(64, device="cuda"))

    x = torch.rand(64, 128, device="cuda") + 0.5
    options: dict[str, Any] = {"emitter": emitter}
    torch._dynamo.reset()
    settings = {"nan_asserts": True, "triton.multi_kernel": setting}
    with torch.no_grad(), config.patch(settings):
        call = torch.compile(positive, backend="wrapperir", options=options)
        torch.testing.assert_close(call(x), positive(x), rtol=1e-3, atol=1e-3)
        # A message of torch 2.11's C functions goes to stderr; the line's is then cut.
        with pytest.raises(Exception, match=r"assert_not_nan|is not finite"):
            call(x - 2)
