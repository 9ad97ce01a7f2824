"""Settings of Inductor's that a user may have changed."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._inductor import config, list_mode_options
from torch._inductor.compile_fx import compile_fx_inner

from wrapperir.frontend import Lowered
from wrapperir.frontend.inductor import capture, compile_graph

Options = dict[str, str | int | bool | Callable[..., Any]]

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


@pytest.mark.slow
@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
@pytest.mark.parametrize("bits", [0, 256, 512])
def test_vectors_are_as_wide_as_a_setting_says(bits: int, emitter: str) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x * 2, -1).sin()

    torch._dynamo.reset()
    x = torch.rand(3, 37)
    options: Options = {"emitter": emitter, "cpp.simdlen": bits}
    actual = torch.compile(function, backend="wrapperir", options=options)(x)
    torch.testing.assert_close(actual, function(x))


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


def _seen_while_compiling(
    monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> list[tuple[bool, dict[str, object]]]:
    """Return a list that each compiled graph is added to: backward or not, and settings."""
    seen: list[tuple[bool, dict[str, object]]] = []
    # The package has a function of the module's name.
    module = sys.modules[capture.__module__]
    stock = compile_fx_inner

    def compile(*args: Any, **kwargs: Any) -> Any:
        settings = config.get_config_copy()
        seen.append(
            (kwargs.get("is_backward", False), {name: settings[name] for name in names})
        )
        return stock(*args, **kwargs)

    monkeypatch.setattr(module, "compile_fx_inner", compile)
    return seen


MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


@pytest.mark.parametrize("mode", MODES)
def test_modes_change_the_settings_that_inductors_do(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch._dynamo.reset()
    wanted = {"max_autotune": False, "coordinate_descent_tuning": False}
    wanted |= {n: v for n, v in list_mode_options(mode).items() if "cudagraphs" not in n}
    seen = _seen_while_compiling(monkeypatch, tuple(wanted))
    before = config.get_config_copy()
    x, w = (tensor.requires_grad_() for tensor in _inputs())
    expected = torch.autograd.grad(_head(x, w)[0].sum(), [x, w])
    loss = torch.compile(_head, backend="wrapperir", mode=mode)(x, w)[0].sum()
    torch.testing.assert_close(torch.autograd.grad(loss, [x, w]), expected)
    assert seen == [(False, wanted), (True, wanted)]
    assert config.get_config_copy() == before


def test_options_of_inductor_hold_for_a_backward_that_compiles_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch._dynamo.reset()
    names = ("epilogue_fusion", "size_asserts", "allow_buffer_reuse")
    seen = _seen_while_compiling(monkeypatch, names)
    options: dict[str, Any] = {
        "epilogue-fusion": False,
        "size_asserts": False,
        "allow_buffer_reuse": True,
    }
    x, w = (tensor.requires_grad_() for tensor in _inputs())
    with config.patch({"cpu_backend": "triton"}):
        compiled = torch.compile(_head, backend="wrapperir", options=options, dynamic=True)
        torch.autograd.backward(compiled(x, w)[0].sum())
    # Buffers are reused by passes of ours, so the last one stays off.
    assert seen == [(backward, dict.fromkeys(names, False)) for backward in (False, True)]


def test_an_option_of_inductor_changes_kernels() -> None:
    def kernels(**options: object) -> int:
        torch._dynamo.reset()
        found: list[int] = []

        def compile(lowered: Lowered, backward: bool, show: object) -> Any:
            found.append(len(lowered.program.definitions))
            return lambda args: tuple(args)

        def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
            return compile_graph(graph, inputs, compile, settings=options)

        with config.patch(cpu_backend="triton"), torch.no_grad():
            torch.compile(lambda x: (x.sin() + 1).sum(0).exp(), backend=backend)(
                torch.ones(64, 64)
            )
        return found[0]

    assert kernels(**{"max_fusion_size": 1}) > kernels()
