"""Real modules through torch.export into programs, which must mean the same."""

import copy
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from tests.frontend_export.models import Case, cases
from wrapperir.frontend.export import Lowered, lower_exported
from wrapperir.interp import interpret
from wrapperir.text import format_program, parse_program
from wrapperir.verify import verify

NAMES = tuple(cases())


def export(case: Case, *, core: bool) -> torch.export.ExportedProgram:
    exported = torch.export.export(
        case.module, case.args, case.kwargs, dynamic_shapes=case.dynamic
    )
    return exported.run_decompositions() if core else exported


def cloned(values: Any) -> Any:
    """Copy the tensors of a nested value, with their strides."""
    return pytree.tree_map_only(torch.Tensor, torch.clone, values)


def check_runs(case: Case, lowered: Lowered, run: Any, args: tuple[Any, ...]) -> None:
    """Compare outputs, and inputs and buffers that are written, with eager."""
    module = copy.deepcopy(case.module)
    mine, theirs = cloned((args, case.kwargs)), cloned((args, case.kwargs))
    constants = {key: value.clone() for key, value in lowered.constants.items()}
    leaves = pytree.tree_leaves(mine, is_leaf=lambda value: value is None)
    torch.manual_seed(1)
    outputs = run(lowered, list(leaves), constants)
    torch.manual_seed(1)
    with torch.no_grad():
        expected = module(*theirs[0], **theirs[1])
    wanted = pytree.tree_leaves(expected, is_leaf=lambda value: value is None)
    assert len(outputs) == len(wanted)
    for got, want in zip(outputs, wanted, strict=True):
        if isinstance(want, torch.Tensor):
            torch.testing.assert_close(got, want)
            assert got.stride() == want.stride()
        else:
            assert got == want
    torch.testing.assert_close(mine, theirs)
    state: Mapping[str, torch.Tensor] = dict(module.named_buffers())
    for key, tensor in constants.items():
        if key in state:
            torch.testing.assert_close(tensor, state[key])


def run_interpreter(
    lowered: Lowered, inputs: list[Any], constants: dict[str, torch.Tensor]
) -> tuple[Any, ...]:
    return interpret(lowered.program, inputs, constants)


@pytest.mark.parametrize("core", [False, True], ids=["as_exported", "core_aten"])
@pytest.mark.parametrize("name", NAMES)
def test_module(name: str, core: bool) -> None:
    case = cases()[name]
    lowered = lower_exported(export(case, core=core))
    assert verify(lowered.program) == ()
    assert parse_program(format_program(lowered.program)) == lowered.program
    for args in (case.args, *case.more):
        check_runs(case, lowered, run_interpreter, args)
