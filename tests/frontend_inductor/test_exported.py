"""Exported programs through Inductor: whole, with their inputs, outputs and weights."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.frontend import Lowered
from wrapperir.frontend.export import lower_exported as lower_operators
from wrapperir.frontend.inductor.exported import lower_exported
from wrapperir.interp import interpret
from wrapperir.text import format_program, parse_program
from wrapperir.verify import verify

pytestmark = pytest.mark.usefixtures("triton_on_cpu")

DYNAMIC: Any = torch.export.Dim.DYNAMIC


class Function(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any, y: Any = None, z: Any = None) -> Any:
        given = [value for value in (x, y, z) if value is not None]
        return self.function(*given)


def lower(target: Any, *inputs: Any, dynamic: Any = None) -> Lowered:
    module = target if isinstance(target, torch.nn.Module) else Function(target)
    exported = torch.export.export(module, inputs, dynamic_shapes=dynamic)
    lowered = lower_exported(exported)
    assert verify(lowered.program) == ()
    assert parse_program(format_program(lowered.program)) == lowered.program
    assert {c.key for c in lowered.program.constants} == set(lowered.constants)
    operators = lower_operators(exported).program
    assert len(lowered.program.outputs) == len(operators.outputs)
    assert len(lowered.program.inputs) == len(operators.inputs)
    return lowered


def check(lowered: Lowered, inputs: Sequence[Any], expected: Sequence[Any]) -> None:
    results = interpret(lowered.program, list(inputs), constants=lowered.constants)
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected, strict=True):
        if isinstance(wanted, torch.Tensor):
            torch.testing.assert_close(result, wanted)
        else:
            assert result == wanted


def test_a_number_out_of_a_tensor_is_computed_with() -> None:
    x = torch.randn(6, 4)
    check(lower(lambda x: x.max().item() * 2, x), [x], [x.max().item() * 2])


def test_a_size_out_of_a_tensor_is_a_size() -> None:
    x = torch.randn(6, 4)
    check(lower(lambda x: torch.nonzero(x > 0) + 1, x), [x], [torch.nonzero(x > 0) + 1])


def test_all_that_a_function_returns_is_returned() -> None:
    def function(x: torch.Tensor) -> Any:
        return x + 1, x, x.shape[0], None, x[1:], [x * 2], 7

    lowered = lower(function, torch.randn(6, 4), dynamic=({0: DYNAMIC},))
    for rows in (6, 9):
        x = torch.randn(rows, 4)
        results = (x + 1, x, rows, None, x[1:], x * 2, 7)
        check(lowered, [x], results)


def test_inputs_are_those_of_the_function() -> None:
    lowered = lower(lambda x, unused, factor: x * factor, torch.ones(3), torch.ones(2), 4)
    assert [input.name for input in lowered.program.inputs] == ["x", "y", "z"]
    check(lowered, [torch.ones(3), torch.ones(2), 4], [torch.full((3,), 4.0)])


@pytest.mark.parametrize(("traced", "other"), [(4, 5), (2.5, 3.5), (True, False)])
def test_a_number_that_was_traced_as_it_is_stays_it(traced: float, other: float) -> None:
    lowered = lower(lambda x, factor: x * factor, torch.ones(3), traced)
    check(lowered, [torch.ones(3), traced], [torch.ones(3) * traced])
    with pytest.raises(DiagnosticError) as raised:
        check(lowered, [torch.ones(3), other], [torch.ones(3) * other])
    assert raised.value.diagnostics[0].code in (
        Code.RUN_SYMBOL_RANGE,
        Code.RUN_ASSERT_SCALAR,
    )


def test_sizes_that_the_code_was_not_compiled_for_are_refused() -> None:
    def pairs(x: torch.Tensor) -> torch.Tensor:
        return x.view(-1, 2, 4) * 2 if x.shape[0] % 2 == 0 else x

    lowered = lower(pairs, torch.randn(6, 4), dynamic=({0: DYNAMIC},))
    x = torch.randn(8, 4)
    check(lowered, [x], [pairs(x)])
    with pytest.raises(DiagnosticError) as raised:
        check(lowered, [torch.randn(7, 4)], [])
    assert raised.value.diagnostics[0].code == Code.RUN_ASSERT_SCALAR


class Statistics(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.factor = torch.arange(4.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return self.norm(self.linear(x)) * self.factor  # type: ignore[no-any-return]


def test_what_a_module_holds_is_constant_and_mutated_where_it_is_written() -> None:
    torch.manual_seed(0)
    module, same = Statistics(), Statistics()
    same.load_state_dict(module.state_dict())
    lowered = lower(module, torch.randn(6, 4))
    assert set(lowered.constants) == {*module.state_dict(), "factor"}
    written = {c.key for c in lowered.program.constants if c.mutated}
    assert written == {
        "norm.running_mean",
        "norm.running_var",
        "norm.num_batches_tracked",
    }
    given = torch.randn(6, 4)
    expected = given.clone()
    wanted = same(expected)
    check(lowered, [given], [wanted.detach()])
    torch.testing.assert_close(given, expected)
    torch.testing.assert_close(module.state_dict(), same.state_dict())


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(10, 4)
        self.head = torch.nn.Linear(4, 10, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(x)) * 2  # type: ignore[no-any-return]


def test_weights_that_are_one_tensor_are_one_constant() -> None:
    module = Tied()
    lowered = lower(module, torch.arange(5))
    assert len(lowered.constants) == 1
    check(lowered, [torch.arange(3, 8)], [module(torch.arange(3, 8)).detach()])


def test_a_program_after_decomposition_writes_what_it_says_is_mutated() -> None:
    module = Statistics()
    before = module.norm.running_mean
    assert before is not None
    exported = torch.export.export(module, (torch.ones(6, 4),)).run_decompositions()
    lowered = lower_exported(exported)
    assert verify(lowered.program) == ()
    x = torch.zeros(6, 4)
    interpret(lowered.program, [x], constants=lowered.constants)
    assert torch.equal(x, torch.ones(6, 4))
    assert int(lowered.constants["norm.num_batches_tracked"]) == 1


def test_nothing_to_compile() -> None:
    with pytest.raises(DiagnosticError) as raised:
        lower(lambda x: x, torch.ones(3))
    (found,) = raised.value.diagnostics
    assert found.code == Code.NOTHING_TO_COMPILE


def test_names_that_inductor_gives_are_left_to_it() -> None:
    class Buffers(torch.nn.Module):
        def forward(self, buf0: torch.Tensor, view0: torch.Tensor) -> torch.Tensor:
            return (buf0 @ view0.t() + 1).sum(0)

    x, y = torch.randn(4, 3), torch.randn(5, 3)
    check(lower(Buffers(), x, y), [x, y], [(x @ y.t() + 1).sum(0)])
