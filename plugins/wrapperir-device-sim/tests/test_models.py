"""Models on the device through ``torch.compile``, beside eager on the CPU."""

from typing import Any

import pytest
import torch
from torch.nn import functional

OPTIONS: Any = {"frontend": "lowering", "emitter": "sim"}


class Perceptron(torch.nn.Sequential):
    def __init__(self) -> None:
        super().__init__(
            torch.nn.Linear(12, 32),
            torch.nn.LayerNorm(32),
            torch.nn.GELU(),
            torch.nn.Linear(32, 5),
        )

    def example(self, rows: int) -> torch.Tensor:
        return torch.randn(rows, 12)


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

    def example(self, rows: int) -> torch.Tensor:
        return torch.randn(rows, 3, 8, 8)


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

    def example(self, rows: int) -> torch.Tensor:
        return torch.randint(0, 20, (2, rows))


MODELS = (Perceptron, Images, Decoder)
Model = type[Perceptron | Images | Decoder]


def compiled(model: torch.nn.Module) -> Any:
    torch._dynamo.reset()
    return torch.compile(model.to("sim"), backend="wrapperir", options=OPTIONS)


@pytest.mark.parametrize("make", [Images, Decoder])
def test_inference_with_sizes_in_turn(make: Model) -> None:
    torch.manual_seed(0)
    model = make().eval()
    inputs = [model.example(rows) for rows in (6, 9, 13)]
    with torch.no_grad():
        wanted = [model(x) for x in inputs]
        call = compiled(model)
        for x, want in zip(inputs, wanted, strict=True):
            found = call(x.to("sim"))
            assert found.device.type == "sim"
            torch.testing.assert_close(found.cpu(), want)


@pytest.mark.parametrize("make", MODELS)
def test_training_steps(make: Model) -> None:
    def train(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = make()
        inputs = [model.example(6) for _ in range(3)]
        call = compiled(model) if device == "sim" else model
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for x in inputs:
            call(x.to(device)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        return [x.detach().cpu() for x in (*model.parameters(), *model.buffers())]

    for found, wanted in zip(train("sim"), train("cpu"), strict=True):
        torch.testing.assert_close(found, wanted)
