"""A training step on a GPU takes no more memory than with Inductor."""

from typing import Any

import pytest
import torch
from torch import nn

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

ROUNDED = 2 << 20
"""The allocator gives a large buffer up to 1 MiB more than it asks for, by chance."""


class Model(nn.Module):
    """Some layers, and a loss over more classes than the layers are wide."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512))
            for _ in range(6)
        )
        self.head = nn.Linear(512, 20000, bias=False)

    def forward(self, x: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        loss: torch.Tensor = nn.functional.cross_entropy(self.head(x), targets)
        return loss


def peak_of(backend: str, options: dict[str, Any]) -> int:
    """Return the most bytes that a training step allocates beside what was there."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = Model().cuda()
    inputs = torch.randn(1024, 512, device="cuda"), torch.randint(20000, (1024,)).cuda()
    compiled = torch.compile(model, backend=backend, options=options)
    taken = 0
    for _ in range(4):
        model.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        compiled(*inputs).backward()
        taken = torch.cuda.max_memory_allocated() - before
    return taken


@pytest.mark.parametrize("emitter", ["python", "cpp"])
def test_a_training_step_peaks_no_higher_than_with_inductor(emitter: str) -> None:
    expected = peak_of("inductor", {})
    assert peak_of("wrapperir", {"emitter": emitter}) <= expected + ROUNDED
