"""Real modules through torch.export into programs, which must mean the same."""

import copy
import io
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from tests.frontend_export.models import Case, cases
from tests.torch_release import BEFORE_2_12
from wrapperir import compile_program
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.frontend import Lowered
from wrapperir.frontend.export import lower_exported
from wrapperir.interp import interpret
from wrapperir.ir import (
    AssertSizeStrideLine,
    BodyLine,
    ExternKernelLine,
    FreeLine,
    OriginTable,
    ReinterpretLine,
)
from wrapperir.text import format_json, format_program, parse_json, parse_program
from wrapperir.verify import verify

CASES = cases()
_WRONG_TYPES = pytest.mark.xfail(
    BEFORE_2_12,
    reason="torch 2.11 declares other types than its LSTM and unique return",
    strict=True,
)


def _named(*names: str) -> list[Any]:
    wrong = ("recurrent", "data_dependent")
    return [
        pytest.param(name, marks=_WRONG_TYPES if name in wrong else ()) for name in names
    ]


@cache
def export(name: str, *, core: bool) -> torch.export.ExportedProgram:
    if core:
        core_aten: torch.export.ExportedProgram = export(
            name, core=False
        ).run_decompositions()
        return core_aten
    case = CASES[name]
    made: torch.export.ExportedProgram = torch.export.export(
        case.module, case.args, case.kwargs, dynamic_shapes=case.dynamic
    )
    return made


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


def run_emitted(
    lowered: Lowered, inputs: list[Any], constants: dict[str, torch.Tensor]
) -> tuple[Any, ...]:
    loaded = compile_program(lowered.program, emitter="python", constants=constants)
    return loaded(inputs)


def run_interpreter(
    lowered: Lowered, inputs: list[Any], constants: dict[str, torch.Tensor]
) -> tuple[Any, ...]:
    return interpret(lowered.program, inputs, constants)


@pytest.mark.parametrize("core", [False, True], ids=["as_exported", "core_aten"])
@pytest.mark.parametrize("name", _named(*CASES))
def test_module(name: str, core: bool) -> None:
    case = CASES[name]
    lowered = lower_exported(export(name, core=core))
    program = lowered.program
    assert verify(program) == ()
    assert parse_program(format_program(program)) == program
    assert parse_json(format_json(program)) == program
    for args in (case.args, *case.more):
        check_runs(case, lowered, run_interpreter, args)
        check_runs(case, lowered, run_emitted, args)


@pytest.mark.parametrize("name", _named("mlp", "mutating", "data_dependent", "conditional"))
def test_a_saved_program_means_the_same(name: str) -> None:
    exported = export(name, core=False)
    file = io.BytesIO()
    torch.export.save(exported, file)
    file.seek(0)
    loaded = lower_exported(torch.export.load(file))
    check_runs(CASES[name], loaded, run_interpreter, CASES[name].args)
    assert verify(loaded.program) == ()


def lines_of(module: torch.nn.Module, *args: torch.Tensor) -> tuple[BodyLine, ...]:
    return lower_exported(torch.export.export(module, args)).program.lines


class Plain(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def test_views_and_identities_are_no_calls() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.nn.functional.dropout(x.detach().contiguous(), training=False)
        return y.view(8).t()[1:], y.reshape(2, 4).chunk(2, 1)[1]

    lines = lines_of(Plain(function), torch.ones(4, 2))
    assert {type(line) for line in lines} == {
        AssertSizeStrideLine,
        ReinterpretLine,
        FreeLine,
    }


def test_an_input_of_another_layout_is_no_wrong_result() -> None:
    exported = torch.export.export(Plain(lambda x: x.t() + 1), (torch.ones(3, 3),))
    program = lower_exported(exported).program
    for run in (run_emitted, run_interpreter):
        x = torch.arange(9.0).view(3, 3).t()
        with pytest.raises((DiagnosticError, AssertionError, RuntimeError)):
            run(Lowered(program, {}), [x], {})


def test_a_copying_reshape_is_a_call() -> None:
    lines = lines_of(Plain(lambda x: x.t().reshape(8)), torch.ones(4, 2))
    (call,) = [line for line in lines if isinstance(line, ExternKernelLine)]
    assert call.operator == "aten.reshape.default"
    assert call.aliases == ()


def test_provenance_names_node_module_operator_and_place() -> None:
    program = lower_exported(export("no_grad", core=False)).program
    table, (line, *_) = OriginTable(program), program.lines
    assert isinstance(line, ExternKernelLine)
    (origin,) = table.of(line.provenance)
    assert origin.name == "linear"
    assert origin.module == "linear"
    assert origin.operator == "aten.linear.default"
    place = table.place(origin)
    assert place is not None
    assert place.file.endswith("models.py")
    assert place.function == "forward"
    program = lower_exported(export("mlp", core=True)).program
    view = next(line for line in program.lines if isinstance(line, ReinterpretLine))
    (origin,) = OriginTable(program).of(view.provenance)
    assert origin.module == "layers.0"
    assert origin.operator == "aten.t.default"


def test_constants_keep_the_names_of_the_state_and_its_memory() -> None:
    module = CASES["embedding"].module
    lowered = lower_exported(export("embedding", core=False))
    state = module.state_dict()
    assert set(state) < set(lowered.constants)
    assert lowered.constants["table.weight"].data_ptr() == state["table.weight"].data_ptr()
    keys = {constant.key for constant in lowered.program.constants}
    assert keys == set(lowered.constants)


def test_a_number_that_the_graph_was_made_for_is_checked() -> None:
    lowered = lower_exported(export("many_outputs", core=False))
    with pytest.raises(DiagnosticError) as raised:
        interpret(lowered.program, [torch.randn(4, 6), 5, False], {})
    assert raised.value.diagnostics[0].code is Code.RUN_SYMBOL_RANGE


def codes_of(module: torch.nn.Module, *args: Any) -> list[tuple[Code, str]]:
    exported = torch.export.export(module, args)
    with pytest.raises(DiagnosticError) as raised:
        lower_exported(exported)
    return [(d.code, d.message) for d in raised.value.diagnostics]


def test_all_that_cannot_be_lowered_is_named_at_once() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with torch.autocast("cpu"):
            y = x @ x
        z = x.clone()
        z.t_()
        return y + 1, z + 1, x.to_sparse_csr(), x + 1

    found = codes_of(Plain(function), torch.ones(3, 3))
    assert [code for code, _ in found] == [
        Code.UNSUPPORTED_OPERATOR,
        Code.UNSUPPORTED_OPERATOR,
        Code.UNSUPPORTED_VALUE,
    ]
    assert "wrap_with_autocast" in found[0][1]
    assert "aten.t_.default" in found[1][1]
    assert "to_sparse_csr" in found[2][1]
    assert "torch.sparse_csr" in found[2][1]


def test_a_string_cannot_be_returned() -> None:
    ((code, message),) = codes_of(Plain(lambda x: (x + 1, "done")), torch.ones(3))
    assert code is Code.UNSUPPORTED_SIGNATURE
    assert "string" in message


def test_operators_with_pythons_own_names() -> None:
    x = torch.tensor([-1.0, 0.5, 2.0])
    module = Plain(lambda x: torch.ops.aten.__and__.Tensor(x > 0, x < 1))
    case = Case(module, (x,))
    lowered = lower_exported(torch.export.export(module, (x,)))
    check_runs(case, lowered, run_interpreter, (x,))
    check_runs(case, lowered, run_emitted, (x,))
