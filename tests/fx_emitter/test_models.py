"""Models, in inference and training: FX graphs compute what emitted Python does."""

from collections.abc import Generator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.fx_emitter.features import TRITON, Ran, calls, compile_function, triton_for_all
from tests.python_emitter.running import assert_same


class Block(nn.Module):
    """A block of a transformer."""

    def __init__(self, width: int = 16, heads: int = 2) -> None:
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


def compiled_by(emitter: str, model: nn.Module) -> Any:
    """Return a model compiled by the backend, with Triton kernels."""
    torch._dynamo.reset()
    return torch.compile(model, backend="wrapperir", options={"emitter": emitter})


@pytest.fixture
def x(device: torch.device) -> Tensor:
    """Return an input."""
    return torch.linspace(-1, 1, 2 * 5 * 16, device=device).reshape(2, 5, 16)


def test_inference(device: torch.device, x: Tensor) -> None:
    model = block(device).eval()
    with torch.no_grad():
        wanted = model(x)
        outputs = [compiled_by(emitter, model)(x) for emitter in ("python", "fx")]
    torch.testing.assert_close(outputs[1], wanted, rtol=1e-4, atol=1e-4)
    assert torch.equal(outputs[0], outputs[1])


@pytest.fixture(autouse=True)
def with_triton() -> Generator[None]:
    """Have Inductor write Triton, in backwards too, which are compiled when first run."""
    with triton_for_all():
        yield


def trained(emitter: str | None, device: torch.device, x: Tensor) -> list[Tensor]:
    """Return the losses of some steps, and what the parameters are then."""
    model = block(device)
    compiled = model if emitter is None else compiled_by(emitter, model)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    losses: list[Tensor] = []
    for _ in range(3):
        loss = (compiled(x) - x.flip(0)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [*losses, *(parameter.detach() for parameter in model.parameters())]


def test_training(device: torch.device, x: Tensor) -> None:
    wanted = trained(None, device, x)
    python, fx = (trained(emitter, device, x) for emitter in ("python", "fx"))
    torch.testing.assert_close(fx, wanted, rtol=1e-4, atol=1e-4)
    assert_same(fx, python)
    assert wanted[2] < wanted[0]


def test_both_graphs_of_training_compute_what_the_interpreter_does(
    device: torch.device, x: Tensor
) -> None:
    model = block(device)
    ran = Ran()
    out = compile_function(model, ran)(x)
    torch.testing.assert_close(out, model(x), rtol=1e-4, atol=1e-4)
    out.sum().backward()
    forward, backward = ran.graphs
    for graph in (forward, backward):
        assert calls(graph, TRITON)
        assert calls(graph, torch.ops.aten.addmm.out) or calls(graph, torch.ops.aten.mm.out)
    gradients = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    model(x).sum().backward()
    for actual, parameter in zip(gradients, model.parameters(), strict=True):
        torch.testing.assert_close(actual, parameter.grad, rtol=1e-4, atol=1e-4)
