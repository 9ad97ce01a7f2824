"""Graphs of ATen operators, made by any tool; and what no program can express."""

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx import Graph, GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from tests.frontend_fx.checked import check_run, lowered
from wrapperir.diagnostics import DiagnosticError
from wrapperir.frontend.fx import lower_graph_module
from wrapperir.interp import interpret
from wrapperir.ir import AllocateLine, FreeLine, ReinterpretLine

_aten = torch.ops.aten
x = torch.randn(4, 6)

FUNCTIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "layer norm": lambda x: torch.nn.functional.layer_norm(x.t(), (4,)).softmax(-1),
    "written in place": lambda x: x.add_(1).t().relu_(),
    "one of several views": lambda x: torch.split(x, 2, 1)[1] + 1,
    "a view of a view": lambda x: (x + 1)[1:].t()[2:],
    "sizes": lambda x: (x.shape[0] * 2 + 1, x.new_zeros(x.shape[0] // 2 + 1)),
    "a constant": lambda x: x + torch.tensor([1.0, 2, 3, 4, 5, 6]),
    "its input": lambda x: (x, x.t(), None),
}


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_traced_functions_are_read(name: str, mode: Any) -> None:
    function = FUNCTIONS[name]
    module = make_fx(function, tracing_mode=mode)(x.clone())
    check_run(module, [x.clone()], function(x.clone()))


def test_examples_may_be_made_later() -> None:
    module = make_fx(lambda x: x.relu().t())(x)
    for node in module.graph.nodes:
        node.meta.clear()
    with pytest.raises(DiagnosticError, match="FakeTensorProp"):
        lower_graph_module(module)
    FakeTensorProp(module).propagate(x)
    check_run(module, [x], x.relu().t())


def test_memory_is_freed_after_its_last_use() -> None:
    program = lowered(make_fx(lambda x: x.relu().neg(), tracing_mode="fake")(x)).program
    freed = [line.buffer for line in program.lines if isinstance(line, FreeLine)]
    assert freed == ["x_1", "relu"]


class Nodes:
    """A graph over one tensor, node by node."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.x = self.graph.placeholder("x")
        self.x.meta["val"] = x

    def module(self, result: Any) -> GraphModule:
        """Return the module of the graph with a result."""
        self.graph.output(result)
        return GraphModule({}, self.graph)


def test_offsets_of_views_count_from_the_storage() -> None:
    nodes = Nodes()
    first = nodes.graph.call_function(torch.as_strided, (nodes.x, (2, 6), (6, 1), 6))
    second = nodes.graph.call_function(torch.as_strided, (first, (3,), (1,), 7))
    module = nodes.module(second)
    program = check_run(module, [x], module(x))
    views = [line for line in program.lines if isinstance(line, ReinterpretLine)]
    assert [view.type.offset for view in views] == [6, 7]


def test_elements_of_another_size_are_a_view() -> None:
    nodes = Nodes()
    first = nodes.graph.call_function(torch.as_strided, (nodes.x, (3, 6), (6, 1), 6))
    first.meta["val"] = x[1:]
    look = nodes.graph.call_function(_aten.view.dtype, (first, torch.float64))
    look.meta["val"] = expected = x[1:].view(torch.float64)
    program = check_run(nodes.module(look), [x.clone()], expected)
    views = [line.type for line in program.lines if isinstance(line, ReinterpretLine)]
    assert (views[-1].size, views[-1].stride, views[-1].offset) == ((3, 3), (3, 1), 3)


def test_bytes_that_an_operator_reads_are_no_pool() -> None:
    nodes = Nodes()
    call = nodes.graph.call_function
    memory = call(torch.empty_strided, ((8,), (1,)), {"dtype": torch.uint8})
    memory.meta["val"] = torch.zeros(8, dtype=torch.uint8)
    call(_aten.fill_.Scalar, (memory, 1))
    view = call(_aten.view.dtype, (memory, torch.int32))
    program = check_run(nodes.module(view), [x], torch.full((2,), 0x01010101).int())
    assert any(isinstance(line, AllocateLine) for line in program.lines)


def test_views_that_overlap_are_of_one_memory() -> None:
    nodes = Nodes()
    call = nodes.graph.call_function
    memory = call(torch.empty_strided, ((8,), (1,)), {"dtype": torch.uint8})
    whole = call(torch.as_strided, (memory, (8,), (1,), 0))
    half = call(torch.as_strided, (memory, (4,), (1,), 4))
    for node in (memory, whole, half):
        node.meta["val"] = torch.zeros(8, dtype=torch.uint8)
    call(_aten.fill_.Scalar, (whole, 1))
    call(_aten.fill_.Scalar, (half, 2))
    check_run(
        nodes.module((whole, half)),
        [x],
        (torch.tensor([1, 1, 1, 1, 2, 2, 2, 2]).byte(), torch.full((4,), 2).byte()),
    )


REFUSED: dict[str, tuple[str, str]] = {
    "a method": ("WIR602", "has no call_method nodes"),
    "a function of torch": ("WIR602", "torch.ops has them"),
    "a view without a layout": ("WIR603", "not what it takes"),
    "a number that is a tensor": ("WIR603", "is not a number"),
    "an allocation with more": ("WIR603", "an allocation has just"),
    "no such kernel": ("WIR607", "no kernel 'add:0'"),
    "a dimension that is not there": ("WIR603", "is not a dimension"),
}


def refused(name: str) -> GraphModule:
    """Return a graph that cannot be read."""
    nodes = Nodes()
    call, given = nodes.graph.call_function, nodes.x
    match name:
        case "a method":
            result = nodes.graph.call_method("relu", (given,))
        case "a function of torch":
            result = call(torch.relu, (given,))
        case "a view without a layout":
            result = call(torch.as_strided, (given, (2,)))
        case "a number that is a tensor":
            result = call(torch.as_strided, (given, (given,), (1,), 0))
        case "an allocation with more":
            result = call(torch.empty_strided, ((2,), (1,)), {"requires_grad": True})
        case "no such kernel":
            key: Any = ("add:0", [given], [], [])
            result = call(torch.ops.wrapperir.call_kernel.default, key)
        case _:
            result = call(_aten.sym_size.int, (given, 2))
    result.meta["val"] = x
    return nodes.module(given)


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_form_in_a_program_is_refused(name: str) -> None:
    code, text = REFUSED[name]
    with pytest.raises(DiagnosticError) as caught:
        lower_graph_module(refused(name))
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code.value == code
    assert text in str(caught.value)
    assert "node " in diagnostic.message


def test_a_function_that_is_unknown_is_refused_without_an_example_too() -> None:
    nodes = Nodes()
    result = nodes.graph.call_function(refused, (nodes.x,))
    with pytest.raises(DiagnosticError, match="WIR602: node refused"):
        lower_graph_module(nodes.module(result))


def test_guards_of_an_exported_module_are_refused_with_advice() -> None:
    exported = torch.export.export(torch.nn.ReLU(), (torch.ones(3),))
    with pytest.raises(DiagnosticError, match=r"module\(check_guards=False\)"):
        lower_graph_module(exported.module())
    lower_graph_module(exported.module(check_guards=False))


def test_each_node_that_cannot_be_read_is_named() -> None:
    nodes = Nodes()
    first = nodes.graph.call_method("relu", (nodes.x,))
    nodes.graph.call_method("neg", (first,))
    nodes.graph.call_method("abs", (nodes.x,))
    with pytest.raises(DiagnosticError) as caught:
        lower_graph_module(nodes.module(nodes.x))
    # What depends on one of them is not reported again.
    assert [d.message.split()[1] for d in caught.value.diagnostics] == ["relu", "abs_1"]


def test_a_graph_without_an_output_is_refused() -> None:
    nodes = Nodes()
    nodes.graph.call_function(_aten.relu_.default, (nodes.x,)).meta["val"] = x
    with pytest.raises(DiagnosticError, match="WIR605"):
        lower_graph_module(GraphModule({}, nodes.graph))


def test_a_graph_that_returns_lists_in_a_list_is_refused() -> None:
    nodes = Nodes()
    with pytest.raises(DiagnosticError, match="WIR605"):
        lower_graph_module(nodes.module((nodes.x, (nodes.x,))))


def test_constants_keep_their_names() -> None:
    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("scale", torch.tensor(2.0))

    nodes = Nodes()
    scale = nodes.graph.get_attr("scale")
    again = nodes.graph.get_attr("scale")
    scale.meta["val"] = again.meta["val"] = torch.tensor(2.0)
    product = nodes.graph.call_function(_aten.mul.Tensor, (nodes.x, scale))
    product.meta["val"] = x
    result = nodes.graph.call_function(_aten.mul.Tensor, (product, again))
    result.meta["val"] = x
    nodes.graph.output(result)
    found = lowered(GraphModule(Scaled(), nodes.graph))
    assert list(found.constants) == ["scale"]
    (value,) = interpret(found.program, [x], found.constants)
    torch.testing.assert_close(value, x * 4)


def with_conditional(
    owner: torch.nn.Module, branch: Callable[[], GraphModule]
) -> GraphModule:
    """Return a graph with a ``cond`` on its input, both of whose blocks are ``branch``."""
    nodes = Nodes()
    owner.add_module("on_true", branch())
    owner.add_module("on_false", branch())
    graphs = [nodes.graph.get_attr(name) for name in ("on_true", "on_false")]
    results = nodes.graph.call_function(
        torch.ops.higher_order.cond, (True, *graphs, (nodes.x,))
    )
    results.meta["val"] = (x,)
    nodes.graph.output(results)
    return GraphModule(owner, nodes.graph)


def test_a_constant_that_a_block_writes_is_mutated() -> None:
    class Counted(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.tensor(0.0))

    def branch() -> GraphModule:
        nodes = Nodes()
        count = nodes.graph.get_attr("count")
        count.meta["val"] = torch.tensor(0.0)
        nodes.graph.call_function(_aten.add_.Scalar, (count, 1))
        result = nodes.graph.call_function(_aten.neg.default, (nodes.x,))
        result.meta["val"] = x
        nodes.graph.output((result,))
        return GraphModule(owner, nodes.graph)

    owner = Counted()
    found = lowered(with_conditional(owner, branch))
    assert [constant.mutated for constant in found.program.constants] == [True]
    interpret(found.program, [x], found.constants)
    assert owner.get_buffer("count") == 1


def test_an_input_that_a_block_writes_is_mutated() -> None:
    def branch() -> GraphModule:
        nodes = Nodes()
        nodes.graph.call_function(_aten.add_.Scalar, (nodes.x, 1))
        result = nodes.graph.call_function(_aten.neg.default, (nodes.x,))
        result.meta["val"] = x
        nodes.graph.output((result,))
        return GraphModule({}, nodes.graph)

    found = lowered(with_conditional(torch.nn.Module(), branch))
    assert [input.mutated for input in found.program.inputs] == [True]


def test_an_input_that_an_inner_block_writes_through_a_view_is_mutated() -> None:
    def inner() -> GraphModule:
        nodes = Nodes()
        view = nodes.graph.call_function(_aten.t.default, (nodes.x,))
        view.meta["val"] = x.t()
        nodes.graph.call_function(_aten.add_.Scalar, (view, 1))
        result = nodes.graph.call_function(_aten.neg.default, (nodes.x,))
        result.meta["val"] = x
        nodes.graph.output((result,))
        return GraphModule({}, nodes.graph)

    def outer() -> GraphModule:
        module = with_conditional(torch.nn.Module(), inner)
        output = module.graph.output_node()
        (results,) = output.all_input_nodes
        with module.graph.inserting_before(output):
            result = module.graph.call_function(operator.getitem, (results, 0))
        result.meta["val"] = x
        output.args = ((result,),)
        return module

    found = lowered(with_conditional(torch.nn.Module(), outer))
    assert [input.mutated for input in found.program.inputs] == [True]
    given = x.clone()
    interpret(found.program, [given], {})
    assert torch.equal(given, x + 1)
