"""Models through ``torch.compile``, on the OpenCL device as far as it has kernels."""

import logging
import types
from typing import Any

import pytest
import torch
from torch.nn import functional

import wrapperir_opencl.plugin
from wrapperir.plugin import plugin_manager

pytestmark = [
    pytest.mark.device,
    pytest.mark.filterwarnings("ignore:`isinstance:FutureWarning"),
]


class Decoder(torch.nn.Module):
    """A layer like GPT-2's, with an embedding and causal attention."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(20, 16)
        self.norm = torch.nn.LayerNorm(16)
        self.qkv = torch.nn.Linear(16, 48)
        self.out = torch.nn.Linear(16, 16)
        self.head = torch.nn.Linear(16, 20)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.words(words)
        heads = self.qkv(self.norm(x)).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        q, k, v = heads
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        found: torch.Tensor = self.head(functional.gelu(x))
        return found


class Images(torch.nn.Module):
    """A small convolution net; batch norm keeps statistics as it trains."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.head = torch.nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.norm(self.first(x)))
        found: torch.Tensor = self.head(functional.max_pool2d(x, 2).mean((2, 3)))
        return found


@pytest.fixture(autouse=True)
def installed() -> None:
    """Have the plugin there where it is not installed."""
    if "opencl" not in plugin_manager().emitters:
        plugin: types.ModuleType = wrapperir_opencl.plugin
        plugin_manager().register(plugin, "opencl")


def compiled(model: torch.nn.Module) -> Any:
    torch._dynamo.reset()
    options: Any = {"emitter": "opencl", "frontend": "lowering"}
    return torch.compile(model, backend="wrapperir", options=options)


def given(model: torch.nn.Module, rows: int) -> torch.Tensor:
    if isinstance(model, Decoder):
        return torch.randint(0, 20, (2, rows))
    return torch.randn(rows, 3, 8, 8)


@pytest.mark.parametrize("make", [Decoder, Images])
def test_inference_with_sizes_in_turn(
    make: type[torch.nn.Module], caplog: pytest.LogCaptureFixture
) -> None:
    torch.manual_seed(0)
    model = make().eval()
    call = compiled(model)
    with torch.no_grad(), caplog.at_level(logging.INFO, "wrapperir.partition"):
        for rows in (6, 9, 13):
            x = given(model, rows)
            torch.testing.assert_close(call(x), model(x))
    reports = [each.getMessage() for each in caplog.records]
    assert reports
    name = type(model).__name__
    assert all(f"@{name}: " in report and "on opencl" in report for report in reports)
    assert not any(f"@{name}: 0 of" in report for report in reports)


@pytest.mark.parametrize("make", [Decoder, Images])
def test_training_steps(make: type[torch.nn.Module]) -> None:
    def train(is_compiled: bool) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = make()
        call = compiled(model) if is_compiled else model
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(3):
            call(given(model, 6)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        return [*model.parameters(), *model.buffers()]

    for found, wanted in zip(train(True), train(False), strict=True):
        torch.testing.assert_close(found, wanted)


def test_nothing_of_the_device_is_kept() -> None:
    torch.manual_seed(0)
    model = Decoder().eval()
    call = compiled(model)
    emitter = plugin_manager().emitter("opencl")
    with torch.no_grad():
        for _ in range(3):
            call(given(model, 6))
            assert emitter.live_bytes("opencl") == 0
