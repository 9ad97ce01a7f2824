"""What PyTorch's tests of its own FX backend cover: kernels, operators, whole graphs."""

import operator
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._inductor import config
from torch.fx import GraphModule, Node

from tests.fx_emitter.features import (
    TRITON,
    Ran,
    argument,
    calls,
    compile_function,
    options,
    outputs_of,
    run,
    triton_for_all,
)
from wrapperir.frontend.export import lower_exported
from wrapperir.fx import call_kernel
from wrapperir.ir import KernelCallLine
from wrapperir.text import parse_program
from wrapperir_fx.graph_module import build_graph_module

aten = torch.ops.aten


def test_basic(device: torch.device) -> None:
    ran = run(torch.add, torch.randn(8, device=device), torch.randn(8, device=device))
    (launch,) = calls(ran.graph, TRITON)
    (allocated,) = calls(ran.graph, torch.empty_strided)
    assert allocated.args == ((8,), (1,))
    assert outputs_of(ran.graph) == (allocated,)
    inputs = ran.graph.graph.find_nodes(op="placeholder")
    assert list(argument(launch, "kwargs").values())[:3] == [*inputs, allocated]
    assert launch.kwargs["grid"] == [(1, 1, 1)]


def test_multiple_kernels(device: torch.device) -> None:
    x, y = torch.randn(17, device=device), torch.randn(29, device=device)
    ran = run(lambda x, y: x.sum() + y.sum(), x, y)
    first, second = calls(ran.graph, TRITON)
    assert first.kwargs["kernel_idx"] != second.kwargs["kernel_idx"]


def test_extern_with_out(device: torch.device) -> None:
    # A GPU has sums in place of small products of other dtypes.
    x, y = (torch.randn(9, n, device=device, dtype=torch.float64) for n in (9, 3))
    # Inductor pads products on a GPU if that was faster when it tried.
    with config.patch(shape_padding=False):
        ran = run(lambda x, y: torch.relu(x @ y) + 1, x, y)
    (product,) = calls(ran.graph, aten.mm.out)
    (launch,) = calls(ran.graph, TRITON)
    (allocated,) = calls(ran.graph, torch.empty_strided)
    (reused,) = calls(ran.graph, torch.as_strided)
    assert product.kwargs["out"] is allocated
    assert reused.args == (allocated, (9, 3), (3, 1), 0)
    assert reused in launch.all_input_nodes


def test_extern_with_a_result(device: torch.device) -> None:
    x, a, b = (torch.randn(*s, device=device) for s in [(3, 4), (2, 3, 5), (2, 5, 4)])
    ran = run(torch.addbmm, x, a, b)
    (sum,) = calls(ran.graph, aten.addbmm.default)
    assert sum.args[:3] == tuple(ran.graph.graph.find_nodes(op="placeholder"))
    assert not calls(ran.graph, torch.empty_strided)


def test_random_numbers(device: torch.device) -> None:
    with config.patch(fallback_random=True):
        ran = run(lambda x: x + torch.rand(8, device=device), torch.ones(8, device=device))
    (drawn,) = calls(ran.graph, aten.rand.default)
    assert argument(drawn, "device").type == device.type
    assert drawn.meta["val"].shape == (8,)


def test_multi_output(device: torch.device) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        top, index = torch.topk(x, 2)
        return top + 1, index * 2

    ran = run(function, torch.randn(8, device=device))
    (topk,) = calls(ran.graph, aten.topk.default)
    items = calls(ran.graph, operator.getitem)
    assert [item.args for item in items] == [(topk, 0), (topk, 1)]
    assert [item.meta["val"].dtype for item in items] == [torch.float32, torch.int64]
    assert len(outputs_of(ran.graph)) == 2


def test_duplicate_input(device: torch.device) -> None:
    x = torch.randn(4, device=device)
    ran = run(torch.add, x, x)
    assert len(ran.graph.graph.find_nodes(op="placeholder")) == 1


def test_an_input_is_an_output(device: torch.device) -> None:
    ran = run(lambda x: (x, x + 1), torch.randn(4, device=device))
    assert len(ran.result) == 2
    assert len(calls(ran.graph, TRITON)) == 1


def test_a_list_is_one_argument(device: torch.device) -> None:
    x = torch.randn(2, 3, 4, dtype=torch.complex64, device=device)
    ran = run(lambda x: torch.permute(x, (0, 2, 1)), x)
    (permuted,) = calls(ran.graph, aten.permute.default)
    assert permuted.args[1] == [0, 2, 1]
    assert not calls(ran.graph, TRITON)


@pytest.mark.usefixtures("deterministic")
def test_scatter_fallback_of_a_number(device: torch.device) -> None:
    x, index = torch.randn(8, device=device), torch.tensor([1, 5, 1], device=device)
    ran = run(lambda x, index: aten.scatter(x, 0, index, 1.5), x, index)
    (scattered,) = calls(ran.graph, aten.scatter_.value)
    assert scattered.args[1:] == (0, ran.graph.graph.find_nodes(op="placeholder")[1], 1.5)


def test_scatter_reduce_fallback(device: torch.device) -> None:
    def function(x: Any, index: Any, source: Any) -> Any:
        how: Any = {"reduce": "amax", "include_self": False}
        return aten.scatter_reduce_.two(x, 0, index, source, **how) + 1

    x, source = torch.randn(8, device=device), torch.randn(4, device=device)
    ran = run(function, x, torch.tensor([1, 5, 1, 0], device=device), source)
    for scattered in calls(ran.graph, aten.scatter_reduce_.two):
        assert scattered.kwargs["include_self"] is False
    assert calls(ran.graph, TRITON)


@pytest.mark.usefixtures("deterministic")
def test_index_put_fallback(device: torch.device) -> None:
    x, values = torch.randn(8, device=device), torch.randn(3, device=device)
    index = torch.tensor([1, 5, 1], device=device)
    ran = run(lambda i, x, v: torch.index_put(x, (i,), v, True), index, x, values)
    (put,) = calls(ran.graph, aten.index_put_.default)
    (given,) = [n for n in put.all_input_nodes if n.meta["val"].dtype is torch.int64]
    assert given.op == "placeholder"
    assert put.args[1] == [given]
    assert put.args[3] is True


def test_backward(device: torch.device) -> None:
    linear = torch.nn.Linear(5, 3, device=device)
    x, wanted = torch.ones(2, 5, device=device), torch.zeros(2, 3, device=device)

    def loss(x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = torch.nn.functional.mse_loss(linear(x).tanh(), wanted)
        return made

    torch.autograd.backward(loss(x))
    gradients = [p.grad for p in linear.parameters()]
    linear.zero_grad()
    ran = Ran()
    with triton_for_all():
        compile_function(loss, ran)(x).backward()
    forward, backward = ran.graphs
    for actual, expected in zip(linear.parameters(), gradients, strict=True):
        torch.testing.assert_close(actual.grad, expected)
    assert calls(forward, TRITON)
    assert calls(backward, aten.mm.out)
    saved = outputs_of(forward)[1:]
    assert all(isinstance(value, Node) for value in saved)
    assert len(backward.graph.find_nodes(op="placeholder")) == len(saved) + 1


def test_custom_compiler(device: torch.device) -> None:
    def compile_graph(graph: GraphModule) -> Any:
        return lambda *args: tuple(output + 1 for output in graph(*args))

    torch._dynamo.reset()
    chosen = options(compile_graph=compile_graph)
    compiled = torch.compile(torch.add, backend="wrapperir", options=chosen)
    x, y = torch.randn(8, device=device), torch.randn(8, device=device)
    with triton_for_all():
        torch.testing.assert_close(compiled(x, y), x + y + 1)


def test_debug(device: torch.device, tmp_path: Path) -> None:
    torch._dynamo.reset()
    chosen = options(dump_dir=tmp_path, passes=())
    compiled = torch.compile(torch.sub, backend="wrapperir", options=chosen)
    x, y = torch.randn(11, device=device), torch.randn(11, device=device)
    with triton_for_all():
        torch.testing.assert_close(compiled(x, y), x - y)
    (folder,) = tmp_path.iterdir()
    assert folder.name == "forward-0"
    program = parse_program((folder / "program.wir").read_text())
    assert any(isinstance(line, KernelCallLine) for line in program.lines)
    text = (folder / "fx" / "graph.py").read_text()
    assert "torch.ops.higher_order.triton_kernel_wrapper_mutation(" in text
    assert re.search(r"buf\d+ = torch.empty_strided\(\(11,\), \(1,\)", text)


def test_nodes_say_where_they_came_from(device: torch.device) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.sin() * 2

    ran = run(function, torch.randn(8, device=device))
    (launch,) = calls(ran.graph, TRITON)
    (line,) = launch.meta["wrapperir"]
    assert line in ran.program.lines
    assert launch.meta["provenance"] is line.provenance
    assert line.provenance is not None
    assert {"sin", "mul"} <= set(line.provenance.origins)


def test_a_graph_prints_with_places_in_the_model() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sin()  # its place

    x = torch.randn(3)
    lowered = lower_exported(torch.export.export(Model(), (x,)))
    graph = build_graph_module(lowered.program, lowered.constants)
    assert torch.equal(graph(x)[0], x.sin())
    (sin,) = calls(graph, aten.sin.default)
    text = Path(__file__).read_text().splitlines()
    line = 1 + next(n for n, line in enumerate(text) if line.endswith("# its place"))
    assert f'File "{__file__}", line {line}, in forward' in sin.meta["stack_trace"]
    printed = graph.print_readable(print_output=False, include_device=True)
    assert f"# File: {__file__}:{line} in forward" in printed
    assert re.search(r"sin: \"f32\[3\]cpu\" = torch.ops.aten.sin.default", printed)


def test_constants(device: torch.device) -> None:
    weight = torch.randn(3, device=device)

    def function(x: torch.Tensor) -> torch.Tensor:
        return x + weight + torch.tensor([1.0, 2.0, 3.0], device=device)

    ran = run(function, torch.randn(3, device=device))
    constants = ran.graph.graph.find_nodes(op="get_attr")
    assert {node.target for node in constants} <= {n for n, _ in ran.graph.named_buffers()}
    assert len(constants) == len(ran.program.constants)


def test_a_mutated_buffer(device: torch.device) -> None:
    model = torch.nn.BatchNorm1d(4, device=device)
    twin = torch.nn.BatchNorm1d(4, device=device)
    x = torch.randn(6, 4, device=device)
    ran = Ran()
    compiled = compile_function(model, ran)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), twin(x))
    assert model.num_batches_tracked is not None
    assert model.num_batches_tracked.item() == 2
    torch.testing.assert_close(model.state_dict(), twin.state_dict())


def test_a_kernel_in_cpp() -> None:
    graphs: list[GraphModule] = []

    def keep(graph: GraphModule) -> GraphModule:
        graphs.append(graph)
        return graph

    torch._dynamo.reset()
    chosen = options(compile_graph=keep)
    compiled = torch.compile(torch.add, backend="wrapperir", options=chosen)
    x, y = torch.randn(8), torch.randn(8)
    assert torch.equal(compiled(x, y), x + y)
    (launch,) = calls(graphs[0], call_kernel)
    key, written, read, numbers = launch.args
    assert re.fullmatch(r"cpp_fused_add_0:[0-9a-f]{16}", str(key))
    assert written == calls(graphs[0], torch.empty_strided)
    assert read == graphs[0].graph.find_nodes(op="placeholder")
    assert numbers == []
