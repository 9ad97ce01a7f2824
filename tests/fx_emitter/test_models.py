"""A model, in inference and training."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.fx_emitter.features import (
    TRITON,
    Ran,
    calls,
    compile_function,
    run,
    triton_for_all,
)


class Block(nn.Module):
    """A block of a transformer."""

    def __init__(self, width: int = 8, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        b, n, width = x.shape
        parts = self.qkv(self.before(x)).view(b, n, 3, self.heads, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q @ k.transpose(-1, -2)) * (width // self.heads) ** -0.5
        mask = torch.ones(n, n, dtype=torch.bool, device=x.device).tril()
        weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(b, n, width))
        y: Tensor = x + self.mlp(self.after(x))
        return y


def block(device: torch.device) -> Block:
    torch.manual_seed(0)
    return Block().to(device)


@pytest.fixture
def x(device: torch.device) -> Tensor:
    """Return an input."""
    return torch.linspace(-1, 1, 2 * 3 * 8, device=device).reshape(2, 3, 8)


def test_inference(device: torch.device, x: Tensor) -> None:
    with torch.no_grad():
        ran = run(block(device).eval(), x)
    parameters = len(list(block(device).parameters()))
    assert len(ran.graph.graph.find_nodes(op="placeholder")) == 1 + parameters
    assert calls(ran.graph, TRITON)


def train(model: nn.Module, call: Any, x: Tensor) -> list[Tensor]:
    """Return the losses of some steps."""
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    losses: list[Tensor] = []
    for _ in range(2):
        loss = (call(x) - x.flip(0)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


@pytest.mark.slow
def test_training(device: torch.device, x: Tensor) -> None:
    eager, model = block(device), block(device)
    wanted = train(eager, eager, x)
    ran = Ran()
    with triton_for_all():  # a backward is compiled when it is first run
        losses = train(model, compile_function(model, ran), x)
    assert wanted[1] < wanted[0]
    torch.testing.assert_close(losses, wanted, rtol=1e-4, atol=1e-4)
    for actual, parameter in zip(model.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(actual, parameter, rtol=1e-4, atol=1e-4)
    assert len(ran.graphs) == 2
    for graph in ran.graphs:
        assert calls(graph, TRITON)
        products = calls(graph, torch.ops.aten.mm.out)
        products += calls(graph, torch.ops.aten.addmm.out)
        # A GPU has sums in place of small products.
        assert products or device.type == "cuda"
