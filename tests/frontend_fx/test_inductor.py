"""Graphs of Inductor's own FX backend: what is imported computes what they compute."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.frontend_fx.checked import check_run, lowered
from tests.frontend_fx.inductor_graphs import graphs_of
from wrapperir.interp import interpret
from wrapperir.ir import (
    Access,
    BufferParameter,
    ConditionalLine,
    ExternKernelLine,
    ItemOf,
    KernelCallLine,
    KernelDefinitionLine,
    MultiOutputLine,
    Program,
    ReinterpretLine,
    SymbolDefinitionLine,
    TensorType,
)

Function = Callable[..., Any]

x = torch.randn(8, 8)
yes, no = torch.tensor(True), torch.tensor(False)

EXTERN: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "one operator": (lambda x: x @ x, (x,)),
    "several with out": (lambda x: (x @ x) @ (x @ x), (x,)),
    "views": (lambda x: (x @ x.t())[2:, 1:], (x,)),
    "strided output": (lambda x: torch.mm(x, x).t(), (x,)),
    "input returned as a view": (lambda x: (x @ x, x.t()), (x,)),
    "view of another dtype": (lambda x: (x @ x).view(torch.int32), (x,)),
    "multi-output": (lambda x: torch.sort(x @ x, stable=True), (x,)),
    "several graph inputs": (lambda x, y: torch.addmm(x, y, y), (x, x + 1)),
}


def imported(function: Function, inputs: tuple[Any, ...], **how: Any) -> list[Program]:
    """Import each graph that Inductor makes of a function, and run each."""
    graphs = graphs_of(function, inputs, **how)
    assert graphs.modules
    return [
        check_run(module, given, returned)
        for module, given, returned in zip(
            graphs.modules, graphs.given, graphs.returned, strict=True
        )
    ]


def lines_of(program: Program, kind: type[Any]) -> list[Any]:
    """Return the lines of a kind, but for those of blocks."""
    return [line for line in program.lines if isinstance(line, kind)]


@pytest.mark.parametrize("name", EXTERN)
def test_operators_are_imported(name: str) -> None:
    function, inputs = EXTERN[name]
    (program,) = imported(function, inputs)
    assert lines_of(program, ExternKernelLine)


def test_views_are_reinterprets() -> None:
    (program,) = imported(*EXTERN["views"])
    offsets = [line.type.offset for line in lines_of(program, ReinterpretLine)]
    assert offsets == [0, 17]


def test_results_of_one_operator_are_named() -> None:
    (program,) = imported(*EXTERN["multi-output"])
    assert [line.indices for line in lines_of(program, MultiOutputLine)] == [(0,), (1,)]


def test_an_input_that_begins_within_its_storage_is_read_where_it_begins() -> None:
    inputs = (torch.randn(100)[4:68].view(8, 8),)
    (module,) = graphs_of(lambda x: x.t() @ x, inputs).modules
    found = lowered(module)
    (result,) = interpret(found.program, list(inputs), found.constants)
    torch.testing.assert_close(result, inputs[0].t() @ inputs[0])


def test_dynamic_sizes_are_symbols() -> None:
    inputs = (torch.randn(7, 5),)
    (module,) = graphs_of(lambda x: (x @ x.t())[1:], inputs, dynamic=True).modules
    program = check_run(module, [7, 5, *inputs], (inputs[0] @ inputs[0].t())[1:])
    other = torch.randn(4, 3)
    assert check_run(module, [4, 3, other], (other @ other.t())[1:]) == program
    assert [line.symbol for line in program.symbols] == [i.name for i in program.inputs[:2]]


def test_a_size_that_only_the_operator_knows_is_a_symbol() -> None:
    (program,) = imported(lambda x: x.nonzero(), (torch.randint(0, 2, (4, 4)),))
    (symbol,) = lines_of(program, SymbolDefinitionLine)
    (line,) = lines_of(program, ExternKernelLine)
    assert isinstance(line.type, TensorType)
    assert [str(symbol.symbol)] == [getattr(line.type.size[0], "name", None)]


def test_an_item_is_a_symbol() -> None:
    def counted(n: torch.Tensor) -> torch.Tensor:
        return torch.ones(int(n.item())) * 2

    (module,) = graphs_of(counted, (torch.tensor(3),), triton=True).modules
    program = check_run(module, [torch.tensor(5)], torch.full((5,), 2.0))
    sources = [line.source for line in lines_of(program, SymbolDefinitionLine)]
    assert any(isinstance(source, ItemOf) for source in sources)


@pytest.mark.parametrize("predicate", [yes, no])
def test_cond_is_a_conditional(predicate: torch.Tensor) -> None:
    (program,) = imported(
        lambda p, x: torch.cond(p, lambda x: (x @ x) @ x, lambda x: x.t() @ x, (x,)),
        (predicate, x),
    )
    (line,) = lines_of(program, ConditionalLine)
    assert len(line.results) == 1


def test_cond_with_several_outputs() -> None:
    (program,) = imported(
        lambda p, x: torch.cond(
            p, lambda x: (x @ x, x.t() @ x), lambda x: (x.t() @ x, x @ x), (x @ x,)
        ),
        (yes, x),
    )
    (line,) = lines_of(program, ConditionalLine)
    assert len(line.results) == 2


def test_forward_and_backward() -> None:
    inputs = (torch.randn(4, 4, requires_grad=True),)
    forward, backward = imported(lambda x: x @ x, inputs, training=True)
    assert len(forward.outputs) == 2
    assert [input.name for input in backward.inputs] == ["permute", "tangents_1"]


TRITON: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "pointwise": (lambda x: torch.relu(x) * 2 + 1, (x,)),
    "reduction": (lambda x: torch.softmax(x.relu() + 1, -1), (x,)),
    "with an operator": (lambda x: (x + 1) @ x, (x,)),
    "with a constant": (lambda x: x * torch.tensor([1.0, 2.0] * 4), (x,)),
    "of two outputs": (lambda x: (x.sin(), x.cos()), (x,)),
    "transposition": (lambda x: x.t().contiguous() + 1, (x,)),
}


@pytest.mark.parametrize("name", TRITON)
def test_triton_kernels_are_imported(name: str) -> None:
    function, inputs = TRITON[name]
    (module,) = graphs_of(function, inputs, triton=True).modules
    program = check_run(module, inputs, function(*inputs))
    assert lines_of(program, KernelCallLine)


def test_a_triton_kernel_of_dynamic_size_counts_with_its_arguments() -> None:
    (module,) = graphs_of(
        lambda x: x.sin() + 1, (torch.randn(300, 5),), triton=True, dynamic=True
    ).modules
    other = torch.randn(40, 7)
    program = check_run(module, [40, 7, other], other.sin() + 1)
    (definition,) = program.definitions
    assert isinstance(definition, KernelDefinitionLine)
    assert not isinstance(definition.grid[0], int)


def test_an_operator_that_writes_what_it_is_given() -> None:
    def put(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return (x + x).index_put((i,), x[0], accumulate=True)

    inputs = (torch.ones(4, 4, dtype=torch.int64), torch.tensor([1, 1]))
    (module,) = graphs_of(put, inputs, triton=True).modules
    program = check_run(module, inputs, put(*inputs))
    (line,) = lines_of(program, ExternKernelLine)
    assert line.operator == "aten.index_put_.default"
    assert line.writes


def test_access_modes_are_what_the_code_does() -> None:
    (module,) = graphs_of(lambda x: x.sin(), (x,), triton=True).modules
    (definition,) = lowered(module).program.definitions
    modes = [p.access for p in definition.parameters if isinstance(p, BufferParameter)]
    assert modes == [Access.READ, Access.WRITE]


def test_an_input_that_is_written_is_mutated() -> None:
    def add_one(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x @ x

    given = x.clone()
    (module,) = graphs_of(add_one, (given,), triton=True).modules
    program = check_run(module, [x.clone()], (x + 1) @ (x + 1))
    assert [input.mutated for input in program.inputs] == [True]
