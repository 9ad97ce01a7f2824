"""What PyTorch's tests of its FX backend cover: graphs within graphs."""

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx import GraphModule, Node

from tests.frontend_inductor.captured import while_loop
from tests.fx_emitter.features import (
    TRITON,
    Ran,
    argument,
    calls,
    compile_function,
    modules_of,
    outputs_of,
    run,
)
from tests.python_emitter.running import assert_same
from wrapperir import compile_program
from wrapperir.text import parse_program
from wrapperir_fx.graph_module import build_graph_module

ON_AN_ITEM = """\
wrapperir 1

program @main(%n: i64[], %x: f32[4]) {
  symbol u0: int = item(%n)
  %y = conditional u0 > 3 (%x) : f32[4] {
    true (%a: f32[4]) {
      %b = extern_kernel aten.sin.default(%a) : f32[4]
      return %b
    }
    false (%c: f32[4]) {
      %d = extern_kernel aten.cos.default(%c) : f32[4]
      return %d
    }
  }
  return %y
}
"""


def choose(
    choice: Any,
    on_true: Any,
    on_false: Any,
    operands: tuple[torch.Tensor, ...] | list[torch.Tensor],
) -> Any:
    """Be ``torch.cond`` where it is traced; run by itself, that compiles its branches."""
    if torch.compiler.is_compiling():
        return torch.cond(choice, on_true, on_false, operands)
    return (on_true if choice else on_false)(*operands)


def repeat(condition: Any, body: Any, carried: tuple[torch.Tensor, ...]) -> Any:
    """Be ``while_loop`` where it is traced."""
    if torch.compiler.is_compiling():
        return while_loop(condition, body, carried)
    while condition(*carried):
        carried = body(*carried)
    return carried


cond = torch.ops.higher_order.cond
loop = torch.ops.higher_order.while_loop
invoke = torch.ops.higher_order.invoke_subgraph


def nested_graphs(graph: GraphModule, node: Node) -> list[GraphModule]:
    """Return the graphs that a call is given."""
    given = [n for n in node.all_input_nodes if n.op == "get_attr"]
    found = [getattr(graph, str(n.target)) for n in given]
    return [module for module in found if isinstance(module, GraphModule)]


def run_with(function: Callable[..., Any], *choices: tuple[Any, ...]) -> Ran:
    """Run one compiled function on several inputs."""
    ran = Ran()
    compiled = compile_function(function, ran)
    for inputs in choices:
        torch.testing.assert_close(compiled(*inputs), function(*inputs))
    return ran


def test_cond(device: torch.device) -> None:
    def function(choice: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        chosen: torch.Tensor = choose(choice, torch.cos, torch.sin, [x])
        return chosen + 1

    x = torch.randn(2, 3, device=device)
    choices = [(torch.tensor([choice], device=device), x) for choice in (False, True)]
    ran = run_with(function, *choices)
    (chosen,) = calls(ran.graph, cond)
    assert len(calls(ran.graph, TRITON)) == 3
    branches = nested_graphs(ran.graph, chosen)
    assert [len(calls(branch, TRITON)) for branch in branches] == [1, 1]
    (item,) = chosen.users
    assert (item.target, item.args) == (operator.getitem, (chosen, 0))
    assert item.meta["val"].shape == (2, 3)
    assert [type(outputs_of(branch)) for branch in branches] == [tuple, tuple]


def test_cond_without_operands(device: torch.device) -> None:
    def zeros() -> torch.Tensor:
        return torch.zeros(8, device=device)

    def function(choice: torch.Tensor) -> Any:
        return choose(choice, zeros, lambda: zeros() + 5, ())

    choices = [(torch.tensor([choice], device=device),) for choice in (False, True)]
    ran = run_with(function, *choices)
    (chosen,) = calls(ran.graph, cond)
    assert argument(chosen, 3) == ()
    for branch in nested_graphs(ran.graph, chosen):
        assert not branch.graph.find_nodes(op="placeholder")
        assert len(calls(branch, TRITON)) == 1


def test_cond_of_several_values(device: torch.device) -> None:
    def on_true(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.tanh(x), torch.relu(y)

    def on_false(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.tanh(x) / 2, torch.relu(y) / 2

    def function(choice: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> Any:
        return choose(choice, on_true, on_false, (x, y))

    x, y = torch.randn(8, device=device), torch.randn(8, device=device)
    choices = [(torch.tensor(choice, device=device), x, y) for choice in (False, True)]
    ran = run_with(function, *choices)
    (chosen,) = calls(ran.graph, cond)
    assert [item.args for item in chosen.users] == [(chosen, 0), (chosen, 1)]
    assert outputs_of(ran.graph) == tuple(chosen.users)
    assert [operand.op for operand in argument(chosen, 3)] == ["placeholder"] * 2


def test_nested_cond(device: torch.device) -> None:
    def inner(x: torch.Tensor) -> Any:
        return choose(x.sum() > 0, torch.sin, torch.tan, (x,))

    def function(choice: torch.Tensor, x: torch.Tensor) -> Any:
        return choose(choice, inner, torch.cos, (x,))

    x = torch.rand(4, device=device)
    yes, no = (torch.tensor(choice, device=device) for choice in (True, False))
    ran = run_with(function, (yes, x), (yes, -x), (no, x))
    outer, nested = calls(ran.graph, cond)
    (branch,) = [b for b in nested_graphs(ran.graph, outer) if calls(b, cond)]
    assert len(modules_of(branch)) == 3
    assert nested in branch.graph.nodes


@pytest.mark.parametrize("length", [4, 8])
def test_cond_on_sizes(device: torch.device, length: int) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        flat, size = x.reshape(-1), y.shape[0]
        return choose(x.shape[0] > 5, lambda x: x + size, lambda x: (x + size) / 2, (flat,))

    x, y = torch.randn(length, length, device=device), torch.randn(length, device=device)
    ran = run(function, x, y, dynamic=True)
    assert calls(ran.graph, TRITON)


def test_cond_on_a_number_that_only_the_run_knows() -> None:
    program = parse_program(ON_AN_ITEM)
    call = compile_program(program, emitter="fx")
    x = torch.randn(4)
    assert_same(call([torch.tensor(2), x]), (x.cos(),))
    assert_same(call([torch.tensor(5), x]), (x.sin(),))
    graph = build_graph_module(program, {})
    (chosen,) = calls(graph, cond)
    (predicate, *_) = chosen.args
    assert isinstance(predicate, Node)
    assert predicate.target is operator.gt
    assert isinstance(predicate.meta["val"], torch.SymBool)


def test_a_branch_sees_sizes_without_being_given_them(device: torch.device) -> None:
    def function(choice: torch.Tensor, x: torch.Tensor) -> Any:
        n = x.shape[0]
        return choose(choice, lambda x: x * n, lambda x: x - n, (x,))

    yes = torch.tensor(True, device=device)
    ran = run(function, yes, torch.randn(6, 4, device=device), dynamic=True)
    (chosen,) = calls(ran.graph, cond)
    values = [operand.meta["val"] for operand in argument(chosen, 3)]
    assert any(isinstance(value, torch.SymInt) for value in values)


def test_while_loop(device: torch.device) -> None:
    def function(x: torch.Tensor) -> Any:
        start = torch.tensor(0, device=device)
        return repeat(lambda i, x: i < 5, lambda i, x: (i + 1, x @ x), (start, x))

    # A GPU has sums in place of small products of other dtypes.
    ran = run(function, torch.randn(4, 4, device=device, dtype=torch.float64) / 4)
    (looped,) = calls(ran.graph, loop)
    condition, body = nested_graphs(ran.graph, looped)
    (decided,) = condition.graph.find_nodes(op="output")
    assert isinstance(decided.args[0], Node)
    assert len(outputs_of(body)) == 2
    assert len(argument(looped, 2)) == 2
    assert argument(looped, 3) == ()
    assert calls(body, torch.ops.aten.mm.out)


def test_while_loop_sees_what_it_does_not_carry(device: torch.device) -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> Any:
        start = torch.tensor(0, device=device)
        step = lambda i, x: (i + 1, x @ w)  # noqa: E731
        return repeat(lambda i, x: i < 3, step, (start, x))[1]

    x, w = torch.randn(4, 4, device=device), torch.randn(4, 4, device=device)
    ran = run(function, x, w)
    (looped,) = calls(ran.graph, loop)
    (seen,) = argument(looped, 3)
    assert seen in ran.graph.graph.find_nodes(op="placeholder")
    for graph in nested_graphs(ran.graph, looped):
        assert len(graph.graph.find_nodes(op="placeholder")) == 3


def test_subgraphs_that_are_called(device: torch.device) -> None:
    @torch.compiler.nested_compile_region
    def layer(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ w)

    x, w = (torch.randn(4, 4, device=device, dtype=torch.float64) for _ in range(2))
    ran = run(lambda x, w: layer(layer(x, w), w), x, w)
    invoked = calls(ran.graph, invoke)
    assert len(invoked) == 2
    for node in invoked:
        (graph,) = nested_graphs(ran.graph, node)
        assert len(calls(graph, torch.ops.aten.mm.out)) == 1
        assert len(calls(graph, TRITON)) == 1
    kernels = {node.kwargs["kernel_idx"] for node in calls(ran.graph, TRITON)}
    assert len(kernels) == 1
