"""What PyTorch's tests of its FX backend cover: sizes and numbers that a call brings."""

import operator

import pytest
import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from tests.frontend_inductor.captured import check
from tests.fx_emitter.features import (
    TRITON,
    Ran,
    argument,
    calls,
    compile_function,
    outputs_of,
    run,
)
from wrapperir import compile_program
from wrapperir.ir import SizeOf, Symbol, ceildiv, mul, tensor
from wrapperir.ir.builder import ProgramBuilder
from wrapperir_fx.graph_builder import build_graph

aten = torch.ops.aten


def symbols_of(ran: Ran) -> dict[str, Node]:
    """Return the nodes that are a program's symbols, by what their values are called."""
    names = {symbol.symbol for symbol in ran.program.symbols}
    found = [node for node in ran.graph.graph.nodes if node.name in names]
    assert len(found) == len(names)
    return {str(node.meta["val"]): node for node in found}


def test_dynamic_shapes(device: torch.device) -> None:
    ran = Ran()
    compiled = compile_function(torch.add, ran, dynamic=True)
    for size in (8, 8, 13, 300):
        x, y = torch.randn(size, device=device), torch.randn(size, device=device)
        torch.testing.assert_close(compiled(x, y), x + y)
    (allocated,) = calls(ran.graph, torch.empty_strided)
    (size,) = allocated.meta["val"].shape
    assert isinstance(size, torch.SymInt)
    assert allocated.args[0] == (symbols_of(ran)[str(size)],)


def test_dynamic_strides(device: torch.device) -> None:
    x, y = torch.randn(8, 16, device=device), torch.randn(8, 16, device=device)
    ran = run(torch.add, x[:, :8], y[:, :8], dynamic=True)
    (allocated,) = calls(ran.graph, torch.empty_strided)
    size, stride = allocated.meta["val"].shape, allocated.meta["val"].stride()
    assert all(isinstance(number, torch.SymInt) for number in (*size, stride[0]))
    assert stride[1] == 1
    assert {str(size[0]), str(stride[0])} <= symbols_of(ran).keys()
    given = ran.graph.graph.find_nodes(op="placeholder")
    strides = [n.meta["val"].stride() for n in given if hasattr(n.meta["val"], "stride")]
    assert all(isinstance(outer, torch.SymInt) for outer, _ in strides)


def test_padded_strides_are_kept() -> None:
    b = ProgramBuilder()
    x = b.input(tensor("f32", (Symbol("rows"), Symbol("columns"))))
    rows, columns = (
        b.symbol(n, SizeOf(x.name, i)) for i, n in enumerate(("rows", "columns"))
    )
    padded = mul(8, ceildiv(columns, 8))
    y = b.allocate(tensor("f32", (rows, columns), stride=(padded, 1)))
    b.extern_out("aten.neg.out", x, out=y)
    program = b.build(y)
    given = torch.randn(5, 30)
    (result,) = compile_program(program, emitter="fx")([given])
    assert isinstance(result, torch.Tensor)
    assert torch.equal(result, -given)
    assert result.stride() == (32, 1)
    graph = build_graph(program).graph
    (allocated,) = graph.find_nodes(op="call_function", target=torch.empty_strided)
    value = allocated.meta["val"]
    assert value.stride()[0] == 8 * -(-value.shape[1] // 8)


def test_precomputed_sizes(device: torch.device) -> None:
    x, y = torch.randn(7, 12, 9, device=device), torch.randn(7, 1, 1, device=device)
    ran = run(torch.add, x, y, dynamic=True)
    (launch,) = calls(ran.graph, TRITON)
    arguments = argument(launch, "kwargs")
    assert arguments["ks0"].target is operator.mul
    assert str(arguments["ks0"].meta["val"]) == "*".join(
        sorted(str(node.meta["val"]) for node in arguments["ks0"].all_input_nodes)
    )


def test_dynamic_launch_grid(device: torch.device) -> None:
    x, y = torch.randn(7, 12, device=device), torch.randn(7, 1, device=device)
    ran = run(torch.add, x, y, dynamic=True)
    (launch,) = calls(ran.graph, TRITON)
    arguments = argument(launch, "kwargs")
    ((across, *rest),) = argument(launch, "grid")
    assert rest == [1, 1]
    assert isinstance(across, Node)
    numel, block = arguments["xnumel"].meta["val"], arguments["XBLOCK"]
    assert across.meta["val"] == -(-numel // block)


def test_sizes_are_computed_before_torch_2_12_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(ShapeEnv, "error_on_new_guards", raising=False)
    b = ProgramBuilder()
    x = b.input(tensor("f32", (Symbol("n"),)))
    n = b.symbol("n", SizeOf(x.name, 0))
    y = b.extern("aten.cat.default", [x, x], type=tensor("f32", (mul(2, n),)))
    (cat,) = build_graph(b.build(y)).graph.find_nodes(
        op="call_function", target=aten.cat.default
    )
    given = cat.all_input_nodes[0].meta["val"].shape[0]
    assert str(cat.meta["val"].shape[0]) == f"2*{given}"


@pytest.mark.parametrize("given", [1.5, 2, False])
def test_item(device: torch.device, given: float) -> None:
    ran = run(lambda x: x[1].item(), torch.tensor([given] * 3, device=device))
    (item,) = calls(ran.graph, aten.item.default)
    kinds = {float: torch.SymFloat, int: torch.SymInt, bool: torch.SymInt | torch.SymBool}
    assert isinstance(item.meta["val"], kinds[type(given)])
    assert type(ran.result) is type(given)


def test_a_size_is_an_item(device: torch.device) -> None:
    def function(n: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        rows = n.item()
        check(rows >= 2)
        check(rows <= 20)
        return torch.full((int(rows), 3), 2.0, device=device) + x.sum()

    ran = run(function, torch.tensor(5, device=device), torch.randn(3, device=device))
    (item,) = calls(ran.graph, aten.item.default)
    checks = calls(ran.graph, aten._assert_scalar.default)
    assert checks
    assert any(item in assertion.all_input_nodes for assertion in _deep(checks))
    (output,) = outputs_of(ran.graph)
    assert isinstance(output.meta["val"].shape[0], torch.SymInt)


def test_nonzero(device: torch.device) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        found = x.nonzero()
        return found * 2, found.shape[0] * 2

    ran = run(function, torch.tensor([0.0, 1, 2, 0], device=device))
    (nonzero,) = calls(ran.graph, aten.nonzero.default)
    (rows,) = calls(ran.graph, aten.sym_size.int)
    assert rows.args == (nonzero, 0)
    tensor, number = outputs_of(ran.graph)
    assert tensor.meta["val"].shape[0] == rows.meta["val"]
    assert number.target is operator.mul
    assert number.meta["val"] == rows.meta["val"] * 2


def test_scalar_inputs(device: torch.device) -> None:
    ran = run(
        lambda x, n: (x * n, n // 3, n * 2 + 1),
        torch.randn(4, device=device),
        7,
        dynamic=True,
    )
    assert calls(ran.graph, operator.floordiv)
    assert any(
        isinstance(node.meta["val"], torch.SymInt)
        for node in ran.graph.graph.find_nodes(op="placeholder")
    )
    assert ran.result[1:] == (2, 15)


def test_a_float_that_the_caller_gives(device: torch.device) -> None:
    ran = Ran()
    compiled = compile_function(lambda x, n: x * n, ran, dynamic=True)
    x = torch.randn(4, device=device)
    for number in (7.5, 7.5, 0.25):
        torch.testing.assert_close(compiled(x, number), x * number)
    launch = calls(ran.graphs[-1], TRITON)[-1]
    assert launch.all_input_nodes


def test_a_size_divided_by_another(device: torch.device) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.reshape(x, (x.shape[0] // 2, x.shape[1] * 2)) + 2

    ran = run(function, torch.randn(12, 14, device=device), dynamic=True)
    (divided, *_) = calls(ran.graph, operator.floordiv)
    assert divided.args[1] == 2
    sizes = [node.meta["val"].shape[0] for node in outputs_of(ran.graph)]
    assert sizes == [divided.meta["val"]]


def test_scalar_outputs(device: torch.device) -> None:
    def function(x: torch.Tensor) -> tuple[int, int, int]:
        n = x.shape[0]
        return n * 3, n % 5, -(-n // 4)

    ran = Ran()
    compiled = compile_function(function, ran, dynamic=True)
    for n in (7, 20):
        assert compiled(torch.randn(n, device=device)) == function(torch.empty(n))
    for node in outputs_of(ran.graphs[-1])[:3]:
        assert isinstance(node.meta["val"], torch.SymInt)


def _deep(nodes: list[Node]) -> list[Node]:
    """Return nodes and those that they are computed from."""
    found = list(nodes)
    for node in found:
        found += [source for source in node.all_input_nodes if source not in found]
    return found
