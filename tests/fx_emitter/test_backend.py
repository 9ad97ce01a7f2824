"""``torch.compile(..., backend="wrapperir", options={"emitter": "fx"})``.

Inductor writes Triton for the CPU, since a C++ build takes seconds.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._inductor import config
from torch.fx import GraphModule

from tests.frontend_inductor.captured import while_loop
from wrapperir.text import parse_program

MM = torch.ops.aten.mm.out


@pytest.fixture(autouse=True)
def _triton_on_cpu() -> Iterator[None]:
    torch._dynamo.reset()
    with config.patch(cpu_backend="triton"):
        yield


class Collected:
    """A ``compile_graph`` that keeps the graphs, and counts the calls of what it makes."""

    def __init__(self) -> None:
        self.graphs: list[GraphModule] = []
        self.calls = 0

    def __call__(self, module: GraphModule) -> Callable[..., tuple[object, ...]]:
        module.graph.lint()
        self.graphs.append(module)

        def call(*inputs: object) -> tuple[object, ...]:
            self.calls += 1
            outputs: tuple[object, ...] = module(*inputs)
            return outputs

        return call


def compiled(function: Callable[..., Any], **more: Any) -> tuple[Any, Collected]:
    collected = Collected()
    options = {"emitter": "fx", "compile_graph": collected, **more.pop("options", {})}
    call = torch.compile(function, backend="wrapperir", options=options, **more)
    return call, collected


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.Linear(16, 3)
    )


def assert_trains(call: Callable[..., torch.Tensor], module: torch.nn.Module) -> None:
    x = torch.randn(4, 8)
    expected = module(x)
    expected.square().sum().backward()
    gradients = [p.grad.clone() for p in module.parameters() if p.grad is not None]
    module.zero_grad(set_to_none=True)
    actual = call(x)
    actual.square().sum().backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close([p.grad for p in module.parameters()], gradients)


def test_a_model_trains() -> None:
    module = model()
    assert_trains(
        torch.compile(module, backend="wrapperir", options={"emitter": "fx"}), module
    )


def test_forward_and_backward_are_graphs_that_are_given() -> None:
    module = model()
    call, collected = compiled(module)
    assert_trains(call, module)
    assert len(collected.graphs) == collected.calls == 2
    forward, backward = collected.graphs
    assert forward.code != backward.code


def test_inference_gives_one_graph() -> None:
    module = model()
    call, collected = compiled(module)
    x = torch.randn(4, 8)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(call(x), module(x))
    assert (len(collected.graphs), collected.calls) == (1, 3)


def test_a_dynamic_size_needs_one_graph() -> None:
    call, collected = compiled(
        lambda x: torch.softmax(x @ x.t(), -1) + x.shape[0], dynamic=True
    )
    for rows in (4, 7, 11):
        x = torch.randn(rows, 9)
        torch.testing.assert_close(call(x), torch.softmax(x @ x.t(), -1) + rows)
    (graph,) = collected.graphs
    assert collected.calls == 3
    (product,) = graph.graph.find_nodes(op="call_function", target=MM)
    fake = product.kwargs["out"].meta["val"]
    assert all(isinstance(extent, torch.SymInt) for extent in fake.shape)


def test_what_is_mutated_is_seen_by_the_caller() -> None:
    def change(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x[1:].add_(y)
        return x.sum()

    x, y = torch.randn(4, 3), torch.randn(3, 3)
    expected = x.clone()
    total = change(expected, y)
    call, collected = compiled(change)
    torch.testing.assert_close(call(x, y), total)
    torch.testing.assert_close(x, expected)
    assert collected.calls == 1


@pytest.mark.parametrize("flag", [True, False])
def test_control_flow_is_nested_graphs(flag: bool) -> None:
    def branch(p: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        x = torch.cond(p, lambda x: x.sin(), lambda x: x * 2, (x,))
        result: torch.Tensor = while_loop(
            lambda i, x: i < 3, lambda i, x: (i + 1, x + 1), (torch.tensor(0), x)
        )[1]
        return result

    x = torch.randn(5)
    call, collected = compiled(branch)
    expected = (x.sin() if flag else x * 2) + 3
    torch.testing.assert_close(call(torch.tensor(flag), x), expected)
    (graph,) = collected.graphs
    nested = [m for m in graph.modules() if isinstance(m, GraphModule)]
    assert len(nested) == 5  # itself, two branches, a condition and a body


def test_without_passes_there_is_no_pool() -> None:
    def chain(x: torch.Tensor) -> torch.Tensor:
        return ((x @ x) @ x) @ x

    x = torch.randn(4, 4)
    sizes: list[list[object]] = []
    for passes in (None, ()):
        torch._dynamo.reset()
        call, collected = compiled(chain, options={"passes": passes})
        torch.testing.assert_close(call(x), chain(x))
        (graph,) = collected.graphs
        found = graph.graph.find_nodes(op="call_function", target=torch.empty_strided)
        sizes.append([node.args[0] for node in found])
    assert sizes[1] == [(4, 4)] * 3
    assert sizes[0] != sizes[1]


def test_the_dump_has_the_program_and_the_graph(tmp_path: Path) -> None:
    call, _ = compiled(lambda x: x @ x + 1, options={"dump_dir": tmp_path})
    x = torch.randn(3, 3)
    torch.testing.assert_close(call(x), x @ x + 1)
    folder = tmp_path / "forward-0"
    text = (folder / "program.wir").read_text()
    assert (folder / "fx" / "program.wir").read_text() == text
    assert "aten.mm.out(" in (folder / "fx" / "graph.py").read_text()
    assert parse_program(text).lines


def test_an_error_of_the_function_reaches_the_user() -> None:
    def fails(module: GraphModule) -> Callable[..., tuple[object, ...]]:
        raise ValueError("no such instruction")

    call = torch.compile(
        lambda x: x @ x,
        backend="wrapperir",
        options={"emitter": "fx", "compile_graph": fails},
    )
    place = r"at .*test_backend\.py:.*no such"
    with pytest.raises(
        Exception, match=rf"(?s)WIR713: .*\.fails raised ValueError {place}"
    ):
        call(torch.randn(3, 3))


def test_the_function_needs_an_emitter_of_graphs() -> None:
    call = torch.compile(
        lambda x: x @ x, backend="wrapperir", options={"compile_graph": Collected()}
    )
    with pytest.raises(Exception, match="WIR705: the python emitter makes no graphs"):
        call(torch.randn(3, 3))
