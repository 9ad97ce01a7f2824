"""Exported programs through the lowering."""

import pytest
import torch

from wrapperir.emit import compile_program
from wrapperir.frontend.lowering.decompositions import table
from wrapperir.frontend.lowering.exported import lay_out_convolutions, lower_exported
from wrapperir.lowering.kernel import KernelLaunch


def _model() -> tuple[torch.nn.Module, torch.Tensor]:
    x = torch.randn(2, 8, 6, 6).to(memory_format=torch.channels_last)
    model = _Block().eval()
    for weight in model.parameters():
        if weight.dim() == 4:
            weight.data = weight.data.to(memory_format=torch.channels_last)
    return model, x


class _Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(8, 8, 3, padding=1)
        self.second = torch.nn.Conv2d(8, 4, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.first(x).relu()
        return self.second(y) + 1, y.sum((2, 3))


def _flatten(program: torch.export.ExportedProgram) -> torch.fx.GraphModule:
    """Return the graph of a program, with convolutions and what follows contiguous."""
    module: torch.fx.GraphModule = program.graph_module
    for node in module.graph.nodes:
        value = node.meta.get("val")
        if node.op == "call_function" and isinstance(value, torch.Tensor):
            node.meta["val"] = value.contiguous()
    return module


def test_convolutions_have_the_layouts_of_libraries() -> None:
    model, x = _model()
    program = torch.export.export(model, (x,)).run_decompositions(dict(table()))
    wanted = [
        node.meta["val"].stride()
        for node in program.graph.nodes
        if isinstance(node.meta.get("val"), torch.Tensor)
    ]
    module = _flatten(program)
    lay_out_convolutions(module.graph)
    found = [
        node.meta["val"].stride()
        for node in module.graph.nodes
        if isinstance(node.meta.get("val"), torch.Tensor)
    ]
    assert found == wanted


def test_an_export_that_takes_results_for_contiguous_is_not_trusted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Torch 2.11 exports such programs for GPUs."""
    model, x = _model()
    program = torch.export.export(model, (x,))
    run = torch.export.ExportedProgram.run_decompositions

    def flat(self: torch.export.ExportedProgram, *args: object) -> object:
        result = run(self, *args)
        _flatten(result)
        return result

    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", flat)
    lowered = lower_exported(program).lowered
    found = compile_program(lowered.program, constants=lowered.constants)([x])
    for ours, theirs in zip(found, model(x), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_value_whose_dtype_is_asserted_is_not_stored() -> None:
    class Mask(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x > 0).float() * 2

    exported = torch.export.export(Mask(), (torch.ones(4, 8),))
    assert any("_assert_tensor_metadata" in str(n.target) for n in exported.graph.nodes)
    stages = lower_exported(exported)
    (launch,) = stages.schedule.items
    assert isinstance(launch, KernelLaunch)
    assert len(launch.buffers) == 2
