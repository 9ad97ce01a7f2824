"""Conditionals, loops and subgraph calls."""

from typing import Any

import pytest
import torch

from tests.frontend_inductor.captured import (
    capture_all,
    capture_one,
    lines_of,
    while_loop,
)
from wrapperir.ir import (
    AllocateLine,
    BufferRef,
    ConditionalLine,
    ExternKernelLine,
    FreeLine,
    SubgraphCallLine,
    Symbol,
    TensorType,
    WhileLoopLine,
)


def test_both_branches_are_blocks() -> None:
    def choose(p: torch.Tensor, x: torch.Tensor) -> Any:
        (y,) = torch.cond(p, lambda x: (x.sin() @ x,), lambda x: (x.cos(),), (x,))
        return y

    program = capture_one(choose, torch.tensor(True), torch.randn(4, 4))
    (line,) = lines_of(program, ConditionalLine)
    assert line.predicate == BufferRef("p")
    assert [p.type for p in line.on_true.parameters] == [program.inputs[1].type]
    assert any(isinstance(inner, ExternKernelLine) for inner in line.on_true.lines)
    assert not any(isinstance(inner, ExternKernelLine) for inner in line.on_false.lines)
    names = [result.name for result in line.results]
    assert program.outputs == tuple(BufferRef(name) for name in names)


def test_a_condition_on_sizes_is_an_expression() -> None:
    def choose(x: torch.Tensor) -> Any:
        return torch.cond(x.shape[0] > 4, lambda x: x.sin(), lambda x: x.cos(), (x,))

    x = torch.randn(6, 4)
    torch._dynamo.mark_dynamic(x, 0)
    program = capture_one(choose, x)
    for line in lines_of(program, ConditionalLine):
        assert not isinstance(line.predicate, BufferRef)


def test_a_loop_carries_tensors() -> None:
    def iterate(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        step = lambda i, x: (i + 1, x @ x)  # noqa: E731
        carried: tuple[torch.Tensor, torch.Tensor] = while_loop(
            lambda i, x: i < 5, step, (torch.tensor(0), x)
        )
        return carried

    program = capture_one(iterate, torch.randn(4, 4))
    (line,) = lines_of(program, WhileLoopLine)
    assert len(line.carried) == len(line.results) == len(line.body.results) == 2
    assert len(line.condition.results) == 1
    assert not line.invariant


def test_a_loop_sees_what_it_does_not_carry() -> None:
    weight = torch.randn(4, 4)

    def iterate(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        def body(i: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return i + 1, x @ w

        result: torch.Tensor = while_loop(lambda i, x: i < 3, body, (torch.tensor(0), x))[1]
        return result

    program = capture_one(iterate, torch.randn(4, 4), weight)
    (line,) = lines_of(program, WhileLoopLine)
    assert len(line.invariant) == 1
    assert len(line.body.parameters) == len(line.condition.parameters) == 3


def test_a_block_does_not_return_what_it_was_given() -> None:
    def choose(p: torch.Tensor, x: torch.Tensor) -> Any:
        def transposed(x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        return torch.cond(p, transposed, lambda x: x * 2, (x,))

    program = capture_one(choose, torch.tensor(True), torch.randn(4, 4))
    (line,) = lines_of(program, ConditionalLine)
    for block in (line.on_true, line.on_false):
        parameters = {BufferRef(parameter.name) for parameter in block.parameters}
        assert parameters.isdisjoint(block.results)


def test_each_use_of_a_subgraph_has_names_of_its_own() -> None:
    @torch.compiler.nested_compile_region
    def layer(x: torch.Tensor, w: torch.Tensor) -> Any:
        return torch.relu(x @ w)

    def model(x: torch.Tensor, w: torch.Tensor) -> Any:
        return layer(layer(x, w), w)

    program = capture_one(model, torch.randn(4, 4), torch.randn(4, 4))
    first, second = lines_of(program, SubgraphCallLine)
    allocated = [line.result for line in lines_of(program, AllocateLine)]
    assert len(set(allocated)) == len(allocated)
    assert len(first.body.lines) == len(second.body.lines)
    assert len(program.definitions) == 1


def test_nested_blocks() -> None:
    def choose(p: torch.Tensor, x: torch.Tensor) -> Any:
        def inner(x: torch.Tensor) -> Any:
            result: torch.Tensor = torch.cond(
                x.sum() > 0, lambda x: x.sin(), lambda x: x.tan(), (x,)
            )
            return result

        return torch.cond(p, inner, lambda x: x.cos(), (x,))

    program = capture_one(choose, torch.tensor(True), torch.randn(4))
    outer, nested = lines_of(program, ConditionalLine)
    assert nested in outer.on_true.lines or outer in nested.on_true.lines


@pytest.mark.parametrize("symbolic", [False, True])
def test_a_subgraph_sees_sizes_without_being_given_them(symbolic: bool) -> None:
    def choose(p: torch.Tensor, x: torch.Tensor) -> Any:
        n = x.shape[0]
        return torch.cond(p, lambda x: x * n, lambda x: x - n, (x,))

    x = torch.randn(6, 4)
    if symbolic:
        torch._dynamo.mark_dynamic(x, 0)
    (line,) = lines_of(capture_one(choose, torch.tensor(True), x), ConditionalLine)
    assert all(isinstance(operand, BufferRef) for operand in line.operands)


def thrice(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    step = lambda i, x: (i + 1, torch.sin(x @ w))  # noqa: E731
    result: torch.Tensor = while_loop(lambda i, x: i < 3, step, (torch.tensor(0), x))[1]
    return result


def test_a_loop_in_training_stacks_what_its_iterations_return() -> None:
    x, w = (torch.randn(4, 4, requires_grad=True) for _ in range(2))
    forward, backward = capture_all(thrice, (x, w), training=True)
    (line,) = lines_of(forward.program, WhileLoopLine)
    *last, _, values = line.results
    assert line.stacked
    assert len(last) == len(line.carried) == len(line.body.results) == 2
    assert isinstance(values.type, TensorType)
    count, *rest = values.type.size
    assert isinstance(count, Symbol)
    assert rest == [4, 4]
    freed = {freed.buffer for freed in lines_of(forward.program, FreeLine)}
    assert {result.name for result in last} <= freed
    (line,) = lines_of(backward.program, WhileLoopLine)
    assert not line.stacked


def test_blocks_of_a_backward_do_not_write_to_its_inputs() -> None:
    """Inductor takes the positions of donated inputs for those of parameters too."""

    def iterate(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        step = lambda i, x: (i + 1, torch.sin(x) * w)  # noqa: E731
        _, y = while_loop(lambda i, x: i < 3, step, (torch.tensor(0), x.exp()))
        result: torch.Tensor = (y * v).exp()
        return result

    inputs = [torch.rand(4, 4, requires_grad=True) for _ in range(3)]
    _, backward = capture_all(iterate, inputs, training=True)
    assert any(given.donated for given in backward.program.inputs)
    assert not any(given.mutated for given in backward.program.inputs)
    assert lines_of(backward.program, WhileLoopLine)
