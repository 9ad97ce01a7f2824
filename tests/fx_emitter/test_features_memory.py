"""What PyTorch's tests of its FX backend cover: views, frees, and other memory."""

import weakref
from typing import Any

import pytest
import torch
from torch.fx import Node

from tests.fx_emitter.features import (
    TRITON,
    calls,
    lines_in,
    outputs_of,
    run,
)
from tests.python_emitter.running import assert_same
from wrapperir import compile_program
from wrapperir.fx import functions
from wrapperir.interp import interpret
from wrapperir.ir import Device, FreeLine, Program, tensor
from wrapperir.ir.builder import ProgramBuilder
from wrapperir_fx.graph_builder import build_graph

aten = torch.ops.aten


def test_free(device: torch.device) -> None:
    def function(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return z.sum() + (x.sum() + y).sum()

    ran = run(function, *(torch.randn(n, device=device) for n in (17, 29, 23)))
    freed = [line.buffer for line in lines_in(ran.graph) if isinstance(line, FreeLine)]
    nodes = calls(ran.graph, functions.free)
    assert [str(node.args[0]) for node in nodes] == freed
    order = list(ran.graph.graph.nodes)
    for node in nodes:
        (value,) = node.all_input_nodes
        assert max(value.users, key=order.index) is node
        assert f"{value.name} = {node.name} = None" in ran.graph.code


def test_freed_memory_is_released(device: torch.device) -> None:
    """What a program frees is gone while the program still runs, inputs included."""
    given = tensor("f32", (64,), device=Device(device.type, device.index))
    b = ProgramBuilder()
    value = b.input(given)
    for _ in range(3):
        after = b.extern("aten.neg.default", value, type=given, device=given.device)
        b.free(value)
        value = after
    program = b.build(value)
    alive: list[weakref.ref[Any]] = []
    most = 0

    mode: Any = torch.utils._python_dispatch.TorchDispatchMode

    class Watching(mode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            nonlocal most
            result = func(*args, **(kwargs or {}))
            alive.append(weakref.ref(result.untyped_storage()))
            most = max(most, sum(one() is not None for one in alive))
            return result

    call = compile_program(program, emitter="fx")
    inputs: list[Any] = [torch.ones(64, device=device)]
    first = weakref.ref(inputs[0].untyped_storage())
    with Watching():
        (result,) = call(inputs)
    assert isinstance(result, torch.Tensor)
    assert torch.equal(result, -torch.ones(64, device=device))
    assert len(alive) == 3
    assert most == 2  # what is read, and what is written
    assert first() is None


def test_cat_inputs(device: torch.device) -> None:
    x, y = torch.randn(8, device=device), torch.randn(8, device=device)
    ran = run(lambda x, y: torch.cat((x, y)) + 1, x, y)
    assert calls(ran.graph, TRITON)
    (output,) = outputs_of(ran.graph)
    assert output.meta["val"].shape == (16,)


def test_cat_to_alloc(device: torch.device) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        halves = [torch.arange(4, device=device) for _ in range(2)]
        return x + torch.cat(halves)

    ran = run(function, torch.randn(8, device=device))
    allocated = calls(ran.graph, torch.empty_strided)
    assert {node.args[0] for node in allocated} == {(8,)}  # none for a half
    assert {view.args[0] for view in calls(ran.graph, torch.as_strided)} <= {*allocated}


def test_cat_views(device: torch.device) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a, b = x - 2, y.sum(0, keepdim=True)
        return a, b, torch.cat((a, b)).clone()

    x, y = torch.randn(8, device=device), torch.randn(8, device=device)
    ran = run(function, x, y)
    views = calls(ran.graph, torch.as_strided)
    assert [view.args[1:] for view in views] == [((8,), (1,), 0), ((1,), (1,), 8)]
    assert len({view.args[0] for view in views}) == 1


def test_reshape_output(device: torch.device) -> None:
    x, y = torch.randn(2, 4, device=device), torch.randn(2, 4, device=device)
    ran = run(lambda x, y: torch.reshape(x + y, (8,)), x, y)
    (view,) = calls(ran.graph, torch.as_strided)
    (allocated,) = calls(ran.graph, torch.empty_strided)
    assert view.args == (allocated, (8,), (1,), 0)
    assert outputs_of(ran.graph) == (view,)


def test_a_strided_output(device: torch.device) -> None:
    ran = run(lambda x: (x + 1).t(), torch.randn(3, 4, device=device))
    (view,) = calls(ran.graph, torch.as_strided)
    assert view.args[1:] == ((4, 3), (1, 4), 0)
    assert ran.result.stride() == (1, 4)


def test_output_slice_view(device: torch.device) -> None:
    x = torch.rand(4, 4, 4, 4, device=device)
    ran = run(lambda x: x[0:2:2].permute(3, 2, 1, 0)[3:].squeeze(0), x)
    (view,) = calls(ran.graph, torch.as_strided)
    (begin,) = calls(ran.graph, aten.sym_storage_offset.default)
    assert outputs_of(ran.graph) == (view,)
    assert begin in _closure(view)
    assert not calls(ran.graph, TRITON)


def test_an_output_views_the_middle_of_its_memory(device: torch.device) -> None:
    ran = run(lambda x: (x + 1)[2:, 1:], torch.randn(4, 3, device=device))
    (view,) = calls(ran.graph, torch.as_strided)
    assert view.args[1:] == ((2, 2), (3, 1), 7)
    assert ran.result.storage_offset() == 7


def test_inputs_that_are_slices(device: torch.device) -> None:
    rows, flat = torch.randn(10, 8, device=device), torch.randn(40, device=device)
    given = rows[2:6, 1:5], flat[24:].view(4, 4)
    ran = run(lambda x, y: (x.sin() + y, y.view(2, 8)), *given)
    assert not calls(ran.graph, aten.sym_storage_offset.default)
    (view,) = calls(ran.graph, torch.as_strided)
    assert view.args[1:] == ((2, 8), (8, 1))  # from where the input begins


def test_mutated_inputs(device: torch.device) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        x[1:].mul_(2)
        return x.sum(0)

    ran = run(function, torch.randn(3, 4, device=device))
    (given,) = ran.graph.graph.find_nodes(op="placeholder")
    assert any(given in launch.all_input_nodes for launch in calls(ran.graph, TRITON))


@pytest.mark.parametrize("dtype", [torch.int32, torch.float16, torch.uint8])
def test_memory_seen_in_another_dtype(device: torch.device, dtype: torch.dtype) -> None:
    ran = run(lambda x: (x + 1).view(dtype), torch.randn(4, 4, device=device))
    (output,) = outputs_of(ran.graph)
    assert output.meta["val"].dtype is dtype


@pytest.mark.parametrize("passes", [(), ("plan_memory",)], ids=["allocated", "planned"])
def test_a_comm_buffer(passes: tuple[str, ...]) -> None:
    program = through_comm_buffer(Device("cpu"))
    x = torch.randn(4, 4)
    call = compile_program(program, emitter="fx", passes=passes)
    (result,) = call([x])
    assert isinstance(result, torch.Tensor)
    assert_same((result,), interpret(program, [x], {}))
    parts = build_graph(program)
    (allocated,) = parts.graph.find_nodes(op="call_function", target=torch.empty_strided)
    assert allocated.args == ((4, 4), (4, 1))


def test_a_comm_buffer_of_a_gpu_is_symmetric_memory() -> None:
    graph = build_graph(through_comm_buffer(Device("cuda", 0))).graph
    (allocated,) = graph.find_nodes(op="call_function", target=functions.empty_symmetric)
    assert allocated.args == ((4, 4), (4, 1))
    assert allocated.kwargs["device"] == torch.device("cuda:0")


def through_comm_buffer(device: Device) -> Program:
    """Write a program that computes into memory that GPUs of a group share."""
    b = ProgramBuilder()
    x = b.input(tensor("f32", (4, 4), device=device))
    shared = b.allocate(tensor("f32", (4, 4), device=device, space="comm"))
    b.extern_out("aten.mm.out", x, x, out=shared, device=device)
    result = b.extern(
        "aten.neg.default", shared, type=tensor("f32", (4, 4), device=device), device=device
    )
    b.free(shared)
    return b.build(result)


def test_indices_of_devices_are_kept() -> None:
    b = ProgramBuilder()
    outputs = []
    for index in (0, 1, None):
        type = tensor("f32", (4,), device=Device("cuda", index))
        x, y = b.input(type), b.allocate(type)
        b.extern_out("aten.neg.out", x, out=y, device=type.device)
        outputs.append(y)
    graph = build_graph(b.build(*outputs)).graph
    devices = [
        node.kwargs["device"]
        for node in graph.find_nodes(op="call_function", target=torch.empty_strided)
    ]
    assert devices == [torch.device(name) for name in ("cuda:0", "cuda:1", "cuda")]
    code = graph.python_code("self").src
    for text in ("device(type='cuda', index=0)", "device(type='cuda', index=1)"):
        assert text in code
    fakes = [node.meta["val"] for node in graph.find_nodes(op="placeholder")]
    assert [fake.device.index for fake in fakes[:2]] == [0, 1]


def _closure(node: Node) -> set[Node]:
    """Return a node and all that it is computed from."""
    found, left = {node}, [node]
    while left:
        left += [n for n in left.pop().all_input_nodes if n not in found]
        found.update(left)
    return found
