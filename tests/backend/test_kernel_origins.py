"""Each kernel names every graph node that it computes, and none that it does not."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from attrs import evolve

from bench.demo.models import DEMO
from bench.demo.recording import Recorded
from bench.model_run import ModelTask, run_step
from bench.sweep.model_zoo import ZOO
from tests.backend.computed_nodes import (
    GraphRecorder,
    KernelNodes,
    TracedGraph,
    kernel_nodes,
)
from tests.backend.recorded_calls import FRONTENDS, recorded_calls
from wrapperir.ir import KernelCallLine

EXACT = 5
"""Kernels of a model whose nodes are compared one by one, at least."""


def traced_programs(
    model: Callable[..., Any], frontend: str, call: Callable[[Callable[..., Any]], object]
) -> list[tuple[Recorded, TracedGraph]]:
    with recorded_calls(model, frontend) as (compiled, recorder), GraphRecorder() as graphs:
        call(compiled)
    return list(zip(recorder.recorded, graphs.graphs, strict=True))


def kernels_of(
    function: Callable[..., Any], frontend: str, *inputs: torch.Tensor
) -> list[KernelNodes]:
    found: list[KernelNodes] = []
    for recorded, graph in traced_programs(function, frontend, lambda call: call(*inputs)):
        found += kernel_nodes(recorded, graph)
    for kernel in found:
        assert (kernel.missing, kernel.wrong) == ([], []), kernel.kernel
    return found


def normalized(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    y: torch.Tensor = torch.nn.functional.layer_norm((x + 1).sin(), (16,))
    return torch.nn.functional.gelu(y @ w + b).mean(0)


def joined(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = x @ w
    return torch.cat((-y[:, 8:], y[:, :8]), 1) @ w


def laid_out(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.conv2d(x.sin().transpose(2, 3), w)


def attending(x: torch.Tensor) -> torch.Tensor:
    y = (x + 1).transpose(1, 2)
    return torch.nn.functional.scaled_dot_product_attention(y, y.sin(), y)


def distances(table: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    places = torch.arange(8)
    apart = (places[:, None] - places).abs()
    far = torch.nn.functional.embedding(apart, table).permute(2, 0, 1).unsqueeze(0)
    return far.contiguous(), apart


def copied_views(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = (x @ w).view(4, 2, 8).transpose(0, 1)
    return y.contiguous()


INPUTS = {
    normalized: ((8, 16), (16, 16), (16,)),
    joined: ((8, 16), (16, 16)),
    laid_out: ((2, 4, 16, 8), (4, 4, 3, 3)),
    attending: ((2, 12, 4, 16),),
    distances: ((8, 4),),
    copied_views: ((4, 16), (16, 16)),
}


@pytest.mark.slow
@pytest.mark.parametrize("frontend", FRONTENDS)
@pytest.mark.parametrize("function", INPUTS, ids=lambda function: function.__name__)
def test_kernels_name_what_they_compute(
    function: Callable[..., Any], frontend: str
) -> None:
    torch.manual_seed(0)
    assert kernels_of(function, frontend, *map(torch.randn, INPUTS[function]))


def test_statistics_are_named_by_the_node_that_makes_them() -> None:
    model = torch.nn.Sequential(
        torch.nn.Conv2d(4, 8, 3, bias=False),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
    ).train()
    for kernel in kernels_of(model, "triton", torch.randn(2, 4, 8, 8)):
        assert not any(name.startswith("getitem") for name in kernel.said)


def test_missing_and_wrong_nodes_are_found() -> None:
    torch.manual_seed(0)
    inputs = tuple(map(torch.randn, INPUTS[normalized]))
    ((recorded, graph),) = traced_programs(
        normalized, "lowering", lambda call: call(*inputs)
    )
    lines = recorded.program.lines
    calls = [i for i, line in enumerate(lines) if isinstance(line, KernelCallLine)]
    first, second = calls[:2]
    wrong = list(lines)
    wrong[first] = evolve(lines[first], provenance=lines[second].provenance)
    recorded.program = evolve(recorded.program, lines=tuple(wrong))
    found, right, *_ = kernel_nodes(recorded, graph)
    assert found.missing == sorted(found.required)
    assert found.wrong == sorted(found.said)
    assert (right.missing, right.wrong) == ([], [])


def kernels_of_model(task: ModelTask, frontend: str) -> Iterator[KernelNodes]:
    torch.manual_seed(0)
    model = task.model().train(task.training)
    with torch.no_grad():
        for parameter in model.parameters():  # else ones and zeros are alike
            parameter.add_(torch.randn_like(parameter) * 0.05)
    inputs = task.inputs()

    def run(call: Callable[..., Any]) -> None:
        run_step(model, call, inputs, training=task.training)

    for recorded, graph in traced_programs(model, frontend, run):
        yield from kernel_nodes(recorded, graph)


@pytest.mark.sweep
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("frontend", FRONTENDS)
@pytest.mark.parametrize("task", [*DEMO, *ZOO.values()], ids=lambda task: task.name)
def test_kernels_of_models_name_what_they_compute(task: ModelTask, frontend: str) -> None:
    found = list(kernels_of_model(task, frontend))
    assert sum(kernel.exact for kernel in found) >= EXACT
    for kernel in found:
        assert (kernel.missing, kernel.wrong) == ([], []), kernel.kernel
