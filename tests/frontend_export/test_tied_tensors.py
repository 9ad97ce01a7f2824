"""A tensor that a module holds twice is one constant, and an unused one is none."""

import pytest
import torch
from torch.export import ExportedProgram

from tests.frontend_export.test_held_names import FRONTENDS
from wrapperir.emit import compile_program
from wrapperir.frontend.export import lower_exported
from wrapperir.ir import Program
from wrapperir.verify import verify


class Tied(torch.nn.Module):
    """A module whose two layers have one weight, with a third layer that is not used."""

    def __init__(self, *, tied: bool = True) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.second = torch.nn.Linear(4, 4)
        self.unused = torch.nn.Linear(4, 4)
        if tied:
            self.second.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.second(self.first(x).relu())
        return y


def exported_twice() -> ExportedProgram:
    """Return a program that names both weights, which are one tensor only later."""
    exported = torch.export.export(Tied(tied=False).eval(), (torch.randn(2, 4),))
    held = exported.state_dict
    held["second.weight"] = held["first.weight"]
    return exported


def tied_paths(program: Program) -> list[set[str]]:
    """Return the paths of each constant that has several."""
    return [{each.key, *each.tied} for each in program.constants if each.tied]


@pytest.mark.parametrize("frontend", FRONTENDS)
def test_a_tied_weight_is_one_constant(frontend: str) -> None:
    model, x = Tied().eval(), torch.randn(2, 4)
    with torch.no_grad():
        lowered = FRONTENDS[frontend](torch.export.export(model, (x,)))
        expected = model(x)
    assert verify(lowered.program) == ()
    keys = [each.key for each in lowered.program.constants]
    assert len(keys) == 3
    assert {"first.bias", "second.bias"} < {*keys}
    assert tied_paths(lowered.program) == [{"first.weight", "second.weight"}]
    assert lowered.constants.keys() == {*keys}
    call = compile_program(lowered.program, constants=lowered.constants)
    torch.testing.assert_close(call([x])[0], expected)


@pytest.mark.parametrize("frontend", ["export", "lowering"])
def test_two_names_of_one_tensor_are_one_constant(frontend: str) -> None:
    exported, x = exported_twice(), torch.randn(2, 4)
    lowered = FRONTENDS[frontend](exported)
    assert verify(lowered.program) == ()
    keys = [each.key for each in lowered.program.constants]
    assert sorted(keys) == ["first.bias", "first.weight", "second.bias"]
    assert tied_paths(lowered.program) == [{"first.weight", "second.weight"}]
    call = compile_program(lowered.program, constants=lowered.constants)
    torch.testing.assert_close(call([x])[0], exported.module()(x))


class Counting(torch.nn.Module):
    """A module that writes to a tensor by one of its two names, and returns the other."""

    one: torch.Tensor
    two: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("one", torch.zeros(4))
        self.register_buffer("two", torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.one += x
        return self.two * x


def test_what_is_written_by_another_name_is_the_one_constant() -> None:
    exported = torch.export.export(Counting().eval(), (torch.ones(4),))
    exported.state_dict["two"] = exported.state_dict["one"]
    lowered = lower_exported(exported)  # the others decompose it, which torch refuses
    assert verify(lowered.program) == ()
    (constant,) = lowered.program.constants
    assert (constant.key, constant.mutated) == ("one", True)
    call = compile_program(lowered.program, constants=lowered.constants)
    call([torch.ones(4)])
    assert lowered.constants["one"].tolist() == [1.0] * 4
