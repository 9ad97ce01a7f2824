"""Kernels of the user's that take tensors behind tensor descriptors."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from torch._higher_order_ops import triton_kernel_wrap
from torch._inductor import config
from torch.utils import _triton
from triton.tools.tensor_descriptor import TensorDescriptor

from tests.frontend_inductor.captured import capture_one, lines_of
from wrapperir import compile_program
from wrapperir.frontend.inductor import compile_graph
from wrapperir.frontend.inductor.triton_kernel import descriptor_signature
from wrapperir.interp import interpret
from wrapperir.ir import (
    Access,
    BufferRef,
    DescriptorParameter,
    KernelCallLine,
    KernelDefinitionLine,
    Program,
)
from wrapperir.passes import MEMORY_PASSES
from wrapperir.pipelines import run_passes
from wrapperir.verify import verify


@triton.jit  # type: ignore[untyped-decorator]
def _double(x, y, ROWS: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: N803
    row = tl.program_id(0) * ROWS
    y.store([row, 0], x.load([row, 0]) * 2)


STABLE = ("stable", ([4, 16],))
EXPERIMENTAL = ("experimental", ([20, 16], [4, 16], 4))
Prepare = Callable[[torch.fx.Graph, torch.fx.Node], torch.fx.Node]


def compiled(meta: Any, prepare: Prepare, found: list[Program]) -> Callable[..., Any]:
    """Return a function of a graph that has the kernel, as Dynamo makes it for a GPU.

    Where there is none, Dynamo leaves such kernels to eager; a graph may hold one still.
    """
    torch._dynamo.reset()  # this empties the table
    side_table = triton_kernel_wrap.kernel_side_table
    graph = torch.fx.Graph()
    x = prepare(graph, graph.placeholder("x"))
    y = graph.call_function(torch.empty_like, (x,))
    graph.call_function(
        triton_kernel_wrap.triton_kernel_wrapper_mutation,
        kwargs={
            "kernel_idx": side_table.add_kernel(_double),
            "constant_args_idx": side_table.add_constant_args({"ROWS": 4}),
            "grid": [(5, 1, 1)],
            "tma_descriptor_metadata": {"x": meta, "y": meta},
            "kwargs": {"x": x, "y": y},
        },
    )
    graph.output((graph.call_function(torch.mul, (y, 3)),))
    module = torch.fx.GraphModule({}, graph)

    def backend(_: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        def compile(lowered: Any, backward: bool, show: object) -> Any:
            found.append(lowered.program)
            return lambda args: interpret(lowered.program, args, lowered.constants)

        return compile_graph(module, inputs, compile)

    return torch.compile(lambda x: x * 1, backend=backend)


def summed(graph: torch.fx.Graph, x: torch.fx.Node) -> torch.fx.Node:
    return graph.call_function(torch.add, (x, 1))


def sliced(graph: torch.fx.Graph, x: torch.fx.Node) -> torch.fx.Node:
    return graph.call_function(torch.ops.aten.slice.Tensor, (x, 0, 4, 17))


@pytest.mark.parametrize(
    ("prepare", "expected"),
    [(summed, lambda x: (x + 1) * 6), (sliced, lambda x: x[4:17] * 6)],
    ids=["a buffer", "a view"],
)
def test_a_descriptor_is_a_kernels_parameter(
    prepare: Prepare,
    expected: Callable[[torch.Tensor], torch.Tensor],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Inductor asks it of the GPU before it finds what the kernel writes.
    monkeypatch.setattr(_triton, "has_triton_tensor_descriptor_host_tma", lambda: True)
    x, found = torch.randn(20, 16), list[Program]()
    with config.patch(cpu_backend="triton"):
        actual = compiled(STABLE, prepare, found)(x)
    torch.testing.assert_close(actual, expected(x))
    (program,) = found
    assert verify(program) == ()
    (kernel,) = (k for k in program.definitions if k.name.startswith("_double"))
    assert isinstance(kernel, KernelDefinitionLine)
    assert [
        (p.name, p.block, p.access.writes)
        for p in kernel.parameters
        if isinstance(p, DescriptorParameter)
    ] == [("x", (4, 16), False), ("y", (4, 16), True)]
    for passes in ((), MEMORY_PASSES):
        (result,) = compile_program(run_passes(program, passes))([x])
        assert isinstance(result, torch.Tensor)
        torch.testing.assert_close(result, expected(x))


def test_the_api_before_tensor_descriptor_is_refused() -> None:
    call = compiled(EXPERIMENTAL, summed, [])
    with config.patch(cpu_backend="triton"), pytest.raises(Exception, match="WIR651"):
        call(torch.randn(20, 16))


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("tensordesc<fp32[16, 32]>", ("fp32", (16, 32))),
        ("tensordesc<bf16[64]>", ("bf16", (64,))),
        ("tensordesc<fp32[s0, 32]>", None),
        ("tensordesc<fp32[]>", None),
        ("nvTmaDesc", None),
        ("*fp32", None),
    ],
)
def test_types_of_parameters(kind: str, found: tuple[str, tuple[int, ...]] | None) -> None:
    assert descriptor_signature(kind) == found


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="Dynamo needs a GPU for it")
def test_a_descriptor_that_the_users_function_makes() -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        given, out = (TensorDescriptor.from_tensor(t, [4, 16]) for t in (x, y))
        _double[(5,)](given, out, ROWS=4)
        return y + 1

    x = torch.randn(20, 16, device="cuda")
    program = capture_one(double, x)
    (call, *_) = lines_of(program, KernelCallLine)
    assert all(isinstance(argument, BufferRef) for argument in call.arguments)
    (kernel,) = (k for k in program.definitions if k.name == call.kernel)
    assert isinstance(kernel, KernelDefinitionLine)
    accesses = [p.access for p in kernel.parameters if isinstance(p, DescriptorParameter)]
    assert accesses[0] is Access.READ
    assert accesses[1].writes
    torch.testing.assert_close(torch.compile(double, backend="wrapperir")(x), 2 * x + 1)
