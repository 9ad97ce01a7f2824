"""Triton kernels: plain source, grids and configs as data, and what they compute."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._higher_order_ops import triton_kernel_wrap
from torch._inductor import config
from torch._inductor.runtime import triton_heuristics

from tests.frontend_inductor.captured import capture_all, capture_one, lines_of
from wrapperir.frontend import Lowered
from wrapperir.frontend.inductor import compile_graph
from wrapperir.frontend.inductor.triton_grid import lower_grid
from wrapperir.interp import interpret
from wrapperir.ir import (
    Access,
    AllocateLine,
    BufferParameter,
    ConstexprParameter,
    KernelCallLine,
    KernelDefinitionLine,
    Language,
    ScalarParameter,
    ZeroMode,
    evaluate_int,
)

CASES: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], tuple[int, ...]]] = {
    "elementwise": (lambda x: torch.relu(x) * 2 + 1, (8, 9)),
    "sum": (lambda x: x.sum(1), (8, 9)),
    "maximum": (lambda x: x.max(), (3, 50)),
    "softmax": (lambda x: torch.softmax(x, -1), (4, 33)),
    "layer norm": (lambda x: torch.nn.functional.layer_norm(x, (16,)), (4, 16)),
    "matmul": (lambda x: torch.nn.functional.gelu(x @ x.t() + 1), (6, 12)),
    "transposition": (lambda x: x.t().contiguous() + 1, (20, 30)),
}


@pytest.mark.parametrize("name", CASES)
def test_captured_triton_computes_what_eager_does(name: str) -> None:
    function, shape = CASES[name]
    x = torch.randn(shape)
    (lowered,) = capture_all(function, (x,), cpu_backend="triton")
    (actual,) = interpret(lowered.program, [x], lowered.constants)
    torch.testing.assert_close(actual, function(x), rtol=1e-4, atol=1e-4)


@settings(max_examples=12)
@given(
    shape=st.tuples(st.integers(1, 40), st.integers(2, 40)),
    steps=st.lists(
        st.sampled_from(["relu", "sin", "add", "row sum", "transpose", "scale"]),
        min_size=1,
        max_size=4,
    ),
)
def test_any_chain_computes_what_eager_does(
    shape: tuple[int, int], steps: list[str]
) -> None:
    table: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "relu": torch.relu,
        "sin": torch.sin,
        "add": lambda x: x + x.flip(0),
        "row sum": lambda x: x - x.sum(1, keepdim=True),
        "transpose": lambda x: x.t().contiguous(),
        "scale": lambda x: x * 0.5,
    }

    def chain(x: torch.Tensor) -> torch.Tensor:
        for step in steps:
            x = table[step](x)
        return x + 0

    x = torch.randn(shape)
    (lowered,) = capture_all(chain, (x,), cpu_backend="triton")
    (actual,) = interpret(lowered.program, [x], lowered.constants)
    torch.testing.assert_close(actual, chain(x), rtol=1e-4, atol=1e-4)


def test_the_source_is_plain() -> None:
    program = capture_one(
        lambda x: torch.softmax(x, -1), torch.randn(4, 16), cpu_backend="triton"
    )
    (kernel,) = program.definitions
    assert isinstance(kernel, KernelDefinitionLine)
    assert kernel.language is Language.TRITON
    assert f"@triton.jit\ndef {kernel.entry}(" in kernel.source
    for absent in ("triton_heuristics", "DeviceProperties", "set_driver", "async_compile"):
        assert absent not in kernel.source
    assert kernel.configs
    assert dict(kernel.metadata) == {"inductor.heuristic": "persistent_reduction"}


def test_parameters_are_in_the_order_of_the_function() -> None:
    program = capture_one(
        lambda x, y: x + y, torch.randn(64), torch.randn(64), cpu_backend="triton"
    )
    (kernel,) = program.definitions
    assert [type(parameter) for parameter in kernel.parameters] == [
        BufferParameter,
        BufferParameter,
        BufferParameter,
        ScalarParameter,
        ConstexprParameter,
    ]
    assert [p.access for p in kernel.parameters if isinstance(p, BufferParameter)] == [
        Access.READ,
        Access.READ,
        Access.WRITE,
    ]


def test_a_dynamic_size_reaches_the_launch() -> None:
    x = torch.randn(6, 4)
    torch._dynamo.mark_dynamic(x, 0)
    (lowered,) = capture_all(lambda x: x.sin() + 1, (x,), cpu_backend="triton")
    (call,) = lines_of(lowered.program, KernelCallLine)
    assert not isinstance(call.arguments[-1], int)
    for rows in (6, 9):
        x = torch.randn(rows, 4)
        given = [rows, x] if len(lowered.program.inputs) == 2 else [x]
        (actual,) = interpret(lowered.program, given, lowered.constants)
        torch.testing.assert_close(actual, x.sin() + 1)


@settings(max_examples=100)
@given(
    kind=st.sampled_from(
        [
            ("Grid1D", "x"),
            ("Grid2D", "xy"),
            ("Grid3D", "xyz"),
            ("Grid2DWithYZOverflow", "xy"),
            ("BatchMatmulGrid3D", "xyz"),
        ]
    ),
    numels=st.tuples(*[st.integers(0, 10_000_000)] * 3),
    blocks=st.tuples(*[st.sampled_from([1, 2, 16, 64, 1024])] * 3),
)
def test_grids_agree_with_inductors(
    kind: tuple[str, str], numels: tuple[int, ...], blocks: tuple[int, ...]
) -> None:
    name, axes = kind
    extents = {f"{axis}numel": n for axis, n in zip(axes, numels, strict=False)}
    sizes = {f"{axis.upper()}BLOCK": b for axis, b in zip(axes, blocks, strict=False)}
    meta = {"grid_type": name}
    inductors = triton_heuristics.GridExpr.from_meta(meta, sizes)
    try:
        expected = inductors.eval_slow({**extents, **sizes})
    except ZeroDivisionError:  # torch 2.11's own, for no rows
        assert (name, extents["ynumel"]) == ("Grid2DWithYZOverflow", 0)
        return
    grid = lower_grid(meta, frozenset(sizes))
    assert tuple(evaluate_int(e, {**extents, **sizes}) for e in grid) == expected


@settings(max_examples=100)
@given(
    kind=st.sampled_from(["SequentialComboKernelGrid", "RoundRobinComboKernelGrid"]),
    kernels=st.lists(
        st.tuples(st.integers(1, 100_000), st.booleans(), st.booleans()),
        min_size=1,
        max_size=4,
    ),
    block=st.sampled_from([1, 32, 1024]),
    least=st.sampled_from([0, 5]),
)
def test_grids_of_combined_kernels_agree_with_inductors(
    kind: str, kernels: list[tuple[int, bool, bool]], block: int, least: int
) -> None:
    meta: dict[str, Any] = {
        "num_kernels": len(kernels),
        "default_config": None,
        "min_blocks": least,
    }
    values = {"XBLOCK": block}
    for number, (extent, known, flat) in enumerate(kernels):
        meta[f"xnumel_{number}"] = extent if known else None
        meta[f"no_x_dim_{number}"] = flat
        values[f"xnumel_{number}"] = extent
    inductor_meta = {"grid_type": kind, "combo_grid_meta": meta}
    expected = triton_heuristics.GridExpr.from_meta(
        inductor_meta, {"XBLOCK": block}
    ).eval_slow(dict(values))
    grid = lower_grid(inductor_meta, frozenset({"XBLOCK"}))
    assert tuple(evaluate_int(e, values) for e in grid) == expected


def test_a_workspace_has_its_zero_mode() -> None:
    with config.patch({"triton.force_cooperative_reductions": True}):
        program = capture_one(
            lambda x: x.sum(), torch.randn(100, 1000), cpu_backend="triton"
        )
    modes = [line.workspace for line in lines_of(program, AllocateLine) if line.workspace]
    assert modes == [ZeroMode.ZERO_PER_PROGRAM, ZeroMode.UNINITIALIZED]
    (kernel,) = program.definitions
    accesses = {
        p.name: p.access for p in kernel.parameters if isinstance(p, BufferParameter)
    }
    assert accesses["sem_ptr"] is Access.READ_WRITE
    assert accesses["ws_ptr"] is Access.WRITE


@triton.jit  # type: ignore[untyped-decorator]
def _double(x_ptr, y_ptr, count, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, 2 * tl.load(x_ptr + at, at < count), at < count)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="Dynamo needs a GPU for it")
def test_a_kernel_of_the_users() -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        _double[(3,)](x, y, x.numel(), BLOCK=16)
        return y

    program = capture_one(double, torch.randn(40, device="cuda"))
    (kernel,) = program.definitions
    assert isinstance(kernel, KernelDefinitionLine)
    accesses = [p.access for p in kernel.parameters if isinstance(p, BufferParameter)]
    assert accesses[0] is Access.READ
    assert accesses[1].writes
    assert kernel.grid == (3, 1, 1)
    assert dict(kernel.constants) == {"BLOCK": 16}


def test_a_kernel_of_the_users_on_cpu_tensors() -> None:
    """Dynamo leaves these to eager where there is no GPU; a graph may hold one still."""

    torch._dynamo.reset()  # this empties the table
    side_table = triton_kernel_wrap.kernel_side_table
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(torch.empty_like, (x,))
    graph.call_function(
        triton_kernel_wrap.triton_kernel_wrapper_mutation,
        kwargs={
            "kernel_idx": side_table.add_kernel(_double),
            "constant_args_idx": side_table.add_constant_args({"count": 20, "BLOCK": 16}),
            "grid": [(2, 1, 1)],
            "tma_descriptor_metadata": {},
            "kwargs": {"x_ptr": x, "y_ptr": y},
        },
    )
    graph.output((graph.call_function(torch.mul, (y, 3)),))
    module = torch.fx.GraphModule({}, graph)
    found: list[Lowered] = []

    def backend(_: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        def compile(lowered: Lowered, backward: bool, show: object) -> Any:
            found.append(lowered)
            return lambda args: interpret(lowered.program, args, lowered.constants)

        return compile_graph(module, inputs, compile)

    with config.patch(cpu_backend="triton"):
        ones = torch.ones(20)
        actual = torch.compile(lambda x: x * 1, backend=backend)(ones)
    torch.testing.assert_close(actual, torch.full((20,), 6.0))
    first, _ = lines_of(found[0].program, KernelCallLine)
    assert first.kernel.startswith("_double")
