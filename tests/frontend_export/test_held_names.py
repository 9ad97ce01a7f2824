"""Held tensors are named after their keys, whichever frontend lowers a module."""

from collections.abc import Callable

import pytest
import torch
from torch.export import ExportedProgram

from wrapperir.emit import compile_program
from wrapperir.frontend import Lowered
from wrapperir.frontend.export import lower_exported
from wrapperir.frontend.inductor.exported import lower_exported as lower_fused
from wrapperir.frontend.lowering.exported import lower_exported as lower_own
from wrapperir.verify import verify

FRONTENDS: dict[str, Callable[[ExportedProgram], Lowered]] = {
    "export": lower_exported,
    "inductor": lower_fused,
    "lowering": lambda exported: lower_own(exported).lowered,
}


class Net(torch.nn.Module):
    """A module with names that its keys share with each other and with an input."""

    fc_weight: torch.Tensor
    scale: torch.Tensor
    calls: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 4, bias=False)
        self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4, bias=False)])
        self.register_buffer("fc_weight", torch.full((4,), 2.0))
        self.register_buffer("scale", torch.full((4,), 3.0))
        self.register_buffer("calls", torch.zeros(4))

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        y: torch.Tensor = self.layers[0](self.fc(x)) * self.fc_weight * self.scale
        return y * scale + self.calls


@pytest.mark.parametrize("frontend", FRONTENDS)
def test_names_are_those_of_the_module_and_unique(frontend: str) -> None:
    model = Net().eval()
    given = (torch.randn(2, 4), torch.randn(2, 4))
    with torch.no_grad():
        exported = torch.export.export(model, given)
        lowered = FRONTENDS[frontend](exported)
        expected = model(*given)
    program = lowered.program
    assert verify(program) == ()
    assert [each.name for each in program.inputs] == ["x", "scale"]
    names = {each.key: each.name for each in program.constants}
    assert names["layers.0.weight"] == "layers_0_weight"
    assert names["calls"] == "calls"
    assert "fc_weight" in {names["fc.weight"], names["fc_weight"]}
    assert len(set(names.values())) == len(names) == 5
    assert [each.key for each in program.constants if each.mutated] == ["calls"]
    model.calls.zero_()
    (result,) = compile_program(program, constants=lowered.constants)([*given])
    torch.testing.assert_close(result, expected)
