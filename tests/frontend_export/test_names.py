"""Programs of exported modules and functions have the user's names, with each frontend."""

import sys
from pathlib import Path

import pytest
import torch
from torch.fx import symbolic_trace

from wrapperir.cli.lowering import lower_target
from wrapperir.frontend.fx import lower_graph_module
from wrapperir.ir import Program

TARGETS = """
import torch


def scale(x, y, *rest, factors):
    return (x + y - rest[0]) * factors["left"]


def arguments():
    return (torch.ones(2, 3), torch.ones(3), torch.ones(3))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)

    def forward(self, x1, buf0, z, *, factors):
        return self.fc(x1) + buf0 * z + factors["left"]


def example_inputs():
    return arguments(), {"factors": {"left": torch.full((3,), 2.0)}}
"""
FRONTENDS = pytest.mark.parametrize("frontend", ["export", "inductor", "lowering"])


def names_of(program: Program) -> tuple[str, list[str]]:
    return program.name, [each.name for each in program.inputs]


@FRONTENDS
def test_functions_and_modules(
    frontend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    file = tmp_path / "targets.py"
    file.write_text(TARGETS)
    found = names_of(lower_target(f"{file}:scale", frontend).program)
    assert found == ("scale", ["x", "y", "rest_0", "factors_left"])
    # One of Inductor's buffers is buf0 too.
    other = "buf0_" if frontend == "inductor" else "buf0"
    program = lower_target(f"{file}:Net", frontend).program
    assert names_of(program) == ("Net", ["x1", other, "z", "factors_left"])
    assert {each.name for each in program.constants} == {"fc_weight", "fc_bias"}


@FRONTENDS
def test_a_saved_module(frontend: str, tmp_path: Path) -> None:
    file = str(tmp_path / "saved.pt2")
    exported = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(3, 2),))
    torch.export.save(exported, file)
    assert names_of(lower_target(file, frontend).program) == ("Linear", ["input"])


def test_a_traced_graph() -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        added: torch.Tensor = torch.ops.aten.add.Tensor(x, x)
        return added

    graph = symbolic_trace(double)
    for node in graph.graph.nodes:
        node.meta["val"] = torch.ones(2)
    assert names_of(lower_graph_module(graph).program) == ("double", ["x"])
    unnamed = torch.fx.GraphModule({}, graph.graph)
    assert names_of(lower_graph_module(unnamed).program) == ("main", ["x"])
