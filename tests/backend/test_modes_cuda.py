"""Modes of ``torch.compile`` and the fallback to Inductor on a GPU."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._inductor import list_mode_options

from wrapperir.diagnostics import Code

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


@pytest.fixture(autouse=True)
def new_compilations() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def layer(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.relu(x @ w).sin() @ w.t()


def layers(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Launch enough kernels that a replay pays."""
    for _ in range(8):
        x = layer(x, w).cos()
    return x


def inputs() -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(256, 256, device="cuda", requires_grad=True) for _ in range(2)]


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
@pytest.mark.parametrize("mode", MODES)
def test_modes_train(mode: str, emitter: str) -> None:
    options: dict[str, Any] = {
        "emitter": emitter,
        **list_mode_options(mode),
    }
    compiled = torch.compile(layer, backend="wrapperir", options=options)
    given, expected = inputs(), inputs()
    torch.autograd.backward(layer(*expected).sum())
    for _ in range(3):  # the later calls replay
        for tensor in given:
            tensor.grad = None
        torch.autograd.backward(compiled(*given).sum())
        for actual, wanted in zip(given, expected, strict=True):
            torch.testing.assert_close(actual.grad, wanted.grad, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("mode", MODES)
def test_modes_replay_as_inductors_do(mode: str) -> None:
    compiled = torch.compile(layers, backend="wrapperir", mode=mode)
    given = [tensor.detach() / 16 for tensor in inputs()]
    for _ in range(3):
        torch.testing.assert_close(compiled(*given), layers(*given), rtol=1e-3, atol=1e-2)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiled:
        compiled(*given)
        torch.cuda.synchronize()
    # A profiler does not see the driver's cuGraphLaunch.
    launched = any("LaunchKernel" in event.name for event in profiled.events())
    assert launched != (mode in ("reduce-overhead", "max-autotune"))


@pytest.mark.parametrize("graphs", [False, True])
@pytest.mark.parametrize("falls_back", ["forward", "backward"])
def test_one_of_two_graphs_falls_back(
    falls_back: str,
    graphs: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    import wrapperir.backend

    stock = wrapperir.backend.compile_lowered

    def compile(lowered: Any, options: Any, role: str, show: Any) -> Any:
        if role == falls_back:
            raise Code.UNSUPPORTED_FEATURE.error("refused")
        return stock(lowered, options, role, show)

    monkeypatch.setattr(wrapperir.backend, "compile_lowered", compile)
    options: dict[str, Any] = {"fallback": "inductor", "graphs": graphs}
    compiled = torch.compile(layer, backend="wrapperir", options=options)
    given, expected = inputs(), inputs()
    torch.autograd.backward(layer(*expected).sum())
    with caplog.at_level(logging.WARNING, "wrapperir.fallback"):
        for _ in range(3):
            for tensor in given:
                tensor.grad = None
            torch.autograd.backward(compiled(*given).sum())
    messages = [r.getMessage() for r in caplog.records if r.name == "wrapperir.fallback"]
    assert [message.split()[3] for message in messages] == [falls_back]
    for actual, wanted in zip(given, expected, strict=True):
        torch.testing.assert_close(actual.grad, wanted.grad, rtol=1e-3, atol=1e-2)
