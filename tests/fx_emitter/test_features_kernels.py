"""What PyTorch's tests of its FX backend cover: Triton kernels and their workspaces."""

from collections.abc import Callable, Generator
from typing import Any

import pytest
import torch
from attrs import evolve
from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table
from torch._inductor import config
from torch.utils import _triton

from tests.frontend_inductor.captured import capture_one
from tests.fx_emitter import user_kernels
from tests.fx_emitter.features import TRITON, Ran, argument, calls, compile_function, run
from tests.python_emitter.running import assert_same
from wrapperir import compile_program
from wrapperir.interp import interpret
from wrapperir.ir import (
    ForcedChoice,
    MultiKernelLine,
    Program,
    TensorType,
    ZeroMode,
    tensor,
)
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.passes import split_configs
from wrapperir_fx.graph_builder import build_graph
from wrapperir_fx.graph_module import build_graph_module

aten = torch.ops.aten


@pytest.fixture
def traced_kernels(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Have Dynamo trace launches of Triton kernels without a GPU too."""
    for question in ("has_triton", "has_triton_tensor_descriptor_host_tma"):
        monkeypatch.setattr(_triton, question, lambda: True)
    yield
    torch._dynamo.reset()


REDUCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor | tuple[Any, ...]]] = {
    "sum": lambda x: x.sum(),
    "softmax": lambda x: x.softmax(-1),
    "variance": lambda x: x.var(1),
    "argmax": lambda x: x.argmax(1),
    "cumulative": lambda x: x.cumsum(1),
    "sorted": lambda x: x.sort(1).values,
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(device: torch.device, name: str) -> None:
    ran = run(REDUCTIONS[name], torch.randn(4, 33, device=device))
    (launch,) = calls(ran.graph, TRITON)
    arguments = argument(launch, "kwargs")
    assert {"xnumel", "r0_numel"} & arguments.keys()
    assert arguments["num_warps"] >= 1


SETTINGS: dict[str, dict[str, object]] = {
    "looped": {"triton.persistent_reductions": False},
    "unsplit": {"split_reductions": False},
    "combined": {"combo_kernels": True},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_configured_reductions(device: torch.device, name: str) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.sum(), x.softmax(-1)

    with config.patch(SETTINGS[name]):
        ran = run(function, torch.randn(4, 600, device=device))
    kernels = {definition.name for definition in ran.program.definitions}
    launches = calls(ran.graph, TRITON)
    assert len({node.kwargs["kernel_idx"] for node in launches}) == len(kernels)
    loops = ["R0_BLOCK" in argument(node, "kwargs") for node in launches]
    assert all(loops) == (name == "looped")


def test_a_split_reduction_goes_through_memory(device: torch.device) -> None:
    ran = run(lambda x: x.sum(), torch.randn(1 << 14, device=device))
    first, second = calls(ran.graph, TRITON)
    partial, result = calls(ran.graph, torch.empty_strided)
    assert partial in first.all_input_nodes
    assert partial in second.all_input_nodes
    assert result.args == ((), ())


def test_a_cooperative_reduction_has_workspace_and_semaphores() -> None:
    """Its programs wait for one another, so that only a GPU can run it."""
    with config.patch({"triton.force_cooperative_reductions": True}):
        program = capture_one(
            lambda x: x.sum(), torch.randn(100, 1000), cpu_backend="triton"
        )
    graph = build_graph_module(program, {})
    (launch,) = calls(graph, TRITON)
    arguments = argument(launch, "kwargs")
    semaphores = getattr(graph, arguments["sem_ptr"].target)
    assert isinstance(semaphores, torch.Tensor)
    assert not any(semaphores.tolist())
    assert arguments["ws_ptr"].target is torch.empty_strided
    assert arguments["RSPLIT"] == argument(launch, "grid")[0][0]


def counting(mode: ZeroMode) -> Program:
    """Write a program that adds one to a workspace and returns what is in it then."""
    b = ProgramBuilder()
    x = b.input(tensor("f32", (4,)))
    counts = b.allocate(tensor("f32", (4,)), workspace=mode)
    b.extern_out("aten.add.Scalar_out", counts, 1, out=counts)
    result = b.extern("aten.add.Tensor", x, counts, type=tensor("f32", (4,)))
    if mode is not ZeroMode.ZERO_PER_PROGRAM:
        b.free(counts)
    return b.build(result)


@pytest.mark.parametrize(
    ("mode", "counts"),
    [(ZeroMode.ZERO_ON_CALL, [1, 1, 1]), (ZeroMode.ZERO_PER_PROGRAM, [1, 2, 3])],
    ids=["on call", "per program"],
)
def test_zeroed_workspaces(mode: ZeroMode, counts: list[int]) -> None:
    program = counting(mode)
    call = compile_program(program, emitter="fx")
    for count in counts:
        assert_same(call([torch.zeros(4)]), (torch.full((4,), float(count)),))
    graph = build_graph_module(program, {})
    zeroed = graph.graph.find_nodes(op="call_function", target=aten.zero_.default)
    kept = graph.graph.find_nodes(op="get_attr")
    assert (len(zeroed), len(kept)) == ((1, 0) if counts[1] == 1 else (0, 1))


def assert_launches_of(function: Any, device: torch.device, **dynamic: bool) -> Ran:
    """Run what adds two tensors with a kernel of the user's."""
    ran = Ran()
    compiled = compile_function(function, ran, **dynamic)
    x, y = torch.randn(40, device=device), torch.randn(40, device=device)
    torch.testing.assert_close(compiled(x, y), x + y)
    return ran


@pytest.mark.usefixtures("traced_kernels")
def test_custom_triton(device: torch.device) -> None:
    ran = assert_launches_of(user_kernels.add, device)
    (launch,) = calls(ran.graph, TRITON)
    assert launch.kwargs["grid"] == [(3, 1, 1)]
    arguments = argument(launch, "kwargs")
    assert [arguments[name] for name in ("n", "BLOCK")] == [40, 16]
    assert arguments["out_ptr"].target is torch.empty_strided


@pytest.mark.usefixtures("traced_kernels")
def test_custom_triton_autotuned(device: torch.device) -> None:
    ran = assert_launches_of(user_kernels.add_tuned, device)
    (launch,) = calls(ran.graph, TRITON)
    arguments = argument(launch, "kwargs")
    assert (arguments["BLOCK"], launch.kwargs["grid"]) in [
        (16, [(3, 1, 1)]),
        (8, [(5, 1, 1)]),
    ]
    assert arguments["num_warps"] == {16: 2, 8: 4}[arguments["BLOCK"]]


@pytest.mark.usefixtures("traced_kernels")
@pytest.mark.parametrize("dynamic", [False, True])
def test_each_config_of_a_custom_kernel_has_its_grid(dynamic: bool) -> None:
    ran = Ran()
    compiled = compile_function(user_kernels.add_tuned, ran, dynamic=dynamic)
    x, y = torch.randn(40), torch.randn(40)
    compiled(x, y)
    program = split_configs(ran.program)
    *definitions, configs = program.definitions
    assert isinstance(configs, MultiKernelLine)
    for index in range(2):
        forced = evolve(configs, selection=ForcedChoice(index))
        chosen = evolve(program, definitions=(*definitions, forced))
        tensors = iter((x, y))
        inputs = [
            next(tensors) if isinstance(item.type, TensorType) else 40
            for item in program.inputs
        ]
        (total,) = interpret(chosen, inputs, {})
        torch.testing.assert_close(total, x + y, rtol=0, atol=0)


@pytest.mark.usefixtures("traced_kernels")
@pytest.mark.parametrize("name", ["add", "add_tuned"])
def test_custom_triton_of_any_size(device: torch.device, name: str) -> None:
    ran = Ran()
    compiled = compile_function(getattr(user_kernels, name), ran, dynamic=True)
    for size in (40, 9, 100):
        x, y = torch.randn(size, device=device), torch.randn(size, device=device)
        torch.testing.assert_close(compiled(x, y), x + y)
    (launch,) = calls(ran.graph, TRITON)
    ((across, *rest),) = argument(launch, "grid")
    n, block = (argument(launch, "kwargs")[key] for key in ("n", "BLOCK"))
    assert across.meta["val"] == (n.meta["val"] + block - 1) // block
    assert rest == [1, 1]


@pytest.mark.usefixtures("traced_kernels")
def test_custom_triton_with_two_grids(device: torch.device) -> None:
    ran = Ran()
    x, y = torch.ones(16, device=device), torch.ones(32, device=device)
    counted = compile_function(user_kernels.count_twice, ran)(x, y)
    for actual, size in zip(counted, (16, 32), strict=True):
        torch.testing.assert_close(actual, torch.arange(size, device=device).float())
    grids = [launch.kwargs["grid"] for launch in calls(ran.graph, TRITON)]
    assert grids == [[(2, 1, 1)], [(4, 1, 1)]]


@pytest.mark.usefixtures("traced_kernels")
def test_a_grid_of_a_size_that_the_kernel_is_not_given(device: torch.device) -> None:
    ran = Ran()
    compiled = compile_function(user_kernels.count, ran, dynamic=True)
    for size in (40, 16):
        counted = compiled(torch.ones(size, device=device))
        torch.testing.assert_close(counted, torch.arange(size, device=device).float())


def test_custom_triton_in_an_operator(device: torch.device) -> None:
    ran = assert_launches_of(
        lambda x, y: user_kernels.add_operator(x, y / 2) + y / 2, device
    )
    targets = {node.target for node in ran.graph.graph.nodes}
    assert torch.ops.wrapperir_tests.add.default not in targets
    launches = calls(ran.graph, TRITON)
    assert len(launches) == 3
    assert [(3, 1, 1)] in [launch.kwargs["grid"] for launch in launches]


@pytest.mark.usefixtures("traced_kernels")
def test_custom_triton_with_tensor_descriptors(device: torch.device) -> None:
    ran = Ran()
    x = torch.randn(20, 16, device=device)
    actual = compile_function(user_kernels.double, ran)(x)
    torch.testing.assert_close(actual, x * 2 + 1)
    launch, *_ = calls(ran.graph, TRITON)
    behind = ("stable", ([4, 16],))
    assert launch.kwargs["tma_descriptor_metadata"] == {"x": behind, "y": behind}
    arguments = argument(launch, "kwargs")
    assert arguments["x"].op == "placeholder"
    assert arguments["y"].target is torch.empty_strided


def test_a_pure_graph_leaves_pytorchs_table_of_kernels_alone() -> None:
    program = capture_one(torch.add, torch.ones(4), torch.ones(4), cpu_backend="triton")
    before = len(kernel_side_table.id_to_kernel)
    graph = build_graph(program).graph
    assert len(kernel_side_table.id_to_kernel) == before
    (launch,) = graph.find_nodes(op="call_function", target=TRITON)
    assert launch.kwargs["kernel_idx"] == 0
    bound = build_graph_module(program, {})
    (launch,) = calls(bound, TRITON)
    index = launch.kwargs["kernel_idx"]
    assert index in kernel_side_table.id_to_kernel
    x = torch.randn(4)
    assert_same(bound(x, x), interpret(program, [x, x], {}))
