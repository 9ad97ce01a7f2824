"""Graph regions of programs that Inductor makes: training, state, dynamic sizes."""

import math

import pytest
import torch

from tests.frontend_inductor.captured import capture_all
from wrapperir.ir import GraphRegionLine, Program
from wrapperir.ir.mentions import buffers_in
from wrapperir.passes import Captured, capture_regions, memory_passes
from wrapperir.passes.replay_cost import count_calls
from wrapperir.pipelines import run_passes
from wrapperir.testing import Case, Outcome, check_case
from wrapperir.verify import verify
from wrapperir_python.emitter import PythonEmitter


class Attention(torch.nn.Module):
    """A block of a small GPT with dropout, whose attention has no ``out`` form."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(32)
        self.qkv = torch.nn.Linear(32, 96)
        self.out = torch.nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        heads = self.qkv(self.norm(x)).view(batch, tokens, 3, 4, width // 4)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        found = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        found = self.out(found.transpose(1, 2).reshape(batch, tokens, width))
        return x + torch.dropout(found, 0.1, self.training)


class Steps(torch.nn.Module):
    """A cache that is written, and running statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(16)
        self.linear = torch.nn.Linear(16, 16)
        self.register_buffer("cache", torch.zeros(8, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert isinstance(self.cache, torch.Tensor)
        self.cache[: x.shape[0]] += self.linear(x)
        result: torch.Tensor = self.norm(x + self.cache.sum(0)).tanh()
        return result


def captured(program: Program) -> Captured:
    """Capture on any device, with the memory passes before it; the result is valid."""
    names = memory_passes(PythonEmitter.support.lines, graphs=True)
    at = names.index("capture_graphs")
    found = capture_regions(run_passes(program, names[:at]), None, -math.inf)
    assert verify(found.program) == ()
    assert verify(run_passes(found.program, names[at + 1 :])) == ()
    return found


def regions(program: Program) -> list[GraphRegionLine]:
    return [line for line in program.lines if isinstance(line, GraphRegionLine)]


def test_training_has_one_region_forward_and_one_backward() -> None:
    inputs = (torch.randn(2, 8, 32, requires_grad=True),)
    forward, backward = (
        captured(lowered.program)
        for lowered in capture_all(
            Attention().train(), inputs, training=True, cpu_backend="triton"
        )
    )
    for found in (forward, backward):
        (region,) = regions(found.program)
        assert count_calls(region) >= 5
        assert all(i in found.report.moved for i in found.report.outside)
    # The seeds of dropout are drawn before the region; attention is a copied result.
    assert [why.reason.value for why in forward.report.outside.values()] == ["operator"]
    assert regions(forward.program)[0].results
    assert not regions(backward.program)[0].results


@pytest.mark.parametrize("training", [False, True])
def test_state_is_written_in_a_region(training: bool) -> None:
    module = Steps().train(training)
    for lowered in capture_all(
        module, (torch.randn(4, 16),), training=training, cpu_backend="triton"
    ):
        found = captured(lowered.program)
        (region,) = regions(found.program)
        written = {each.name for each in lowered.program.inputs if each.mutated}
        assert written <= {name for item in region.operands for name in buffers_in(item)}


def test_dynamic_sizes_are_symbols_of_the_region() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x @ x.t(), -1) * x.shape[0]

    x = torch.randn(6, 8)
    torch._dynamo.mark_dynamic(x, 0)
    (lowered,) = capture_all(function, (x,), cpu_backend="triton")
    assert lowered.program.symbols
    found = captured(lowered.program)
    (region,) = regions(found.program)
    assert not found.report.outside
    case = Case("dynamic", found.program, seeds=(1, 2))
    assert check_case(PythonEmitter(), case) is Outcome.PASSED
    assert region.device.kind == "cpu"


def test_data_dependent_sizes_end_a_region() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.nonzero(torch.relu(x @ x)).float().sum(1) * 2

    (lowered,) = capture_all(function, (torch.ones(4, 4),), cpu_backend="triton")
    found = captured(lowered.program)
    reasons = [why.reason.value for why in found.report.outside.values()]
    assert "operator" in reasons
    assert "number from data" in reasons
