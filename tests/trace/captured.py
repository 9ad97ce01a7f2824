"""Programs that the frontends make of a transformer."""

from functools import cache

import torch
from attrs import frozen
from torch import nn

from wrapperir.emit import Value
from wrapperir.frontend import Lowered
from wrapperir.frontend.export import lower_exported as lower_to_operators
from wrapperir.frontend.lowering.exported import lower_exported as lower_to_kernels
from wrapperir.ir import Program
from wrapperir.passes import MEMORY_PASSES
from wrapperir.pipelines import run_passes


class Layer(nn.Module):
    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.before(x)).split(width, -1)
        q, k, v = (y.view(batch, length, self.heads, -1).transpose(1, 2) for y in parts)
        mixed = torch.softmax(q @ k.transpose(-1, -2) * 0.35, -1) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        made: torch.Tensor = self.down(nn.functional.gelu(self.up(self.between(x))))
        return x + made


@frozen(eq=False)
class Captured:
    """A program of the model, its constants and inputs."""

    program: Program
    constants: dict[str, torch.Tensor]
    inputs: list[Value]


@cache
def exported() -> torch.export.ExportedProgram:
    torch.manual_seed(0)
    model = nn.Sequential(Layer(), Layer()).eval()
    return torch.export.export(model, (torch.randn(2, 8, 16),))


@cache
def captured(kind: str) -> Captured:
    """Return the program of operators, of our kernels, of these in pools, or Inductor's."""
    planned = kind == "pools"
    if kind == "operators":
        lowered = lower_to_operators(exported())
    elif kind == "inductor":
        lowered = by_inductor()
    else:
        lowered = lower_to_kernels(exported()).lowered
    program = lowered.program
    if planned:
        program = run_passes(program, MEMORY_PASSES)
    torch.manual_seed(1)
    return Captured(program, dict(lowered.constants), [torch.randn(2, 8, 16)])


def by_inductor() -> Lowered:
    from wrapperir.frontend.inductor.exported import lower_exported

    return lower_exported(exported())
