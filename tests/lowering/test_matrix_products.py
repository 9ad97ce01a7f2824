"""Products of matrices in nests: found, arranged, split, and written in Triton."""

from pathlib import Path

import pytest
import torch
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.lowering.triton_kernels import compiled, launch
from tests.lowering.triton_nests import (
    I0,
    I1,
    R0,
    apply,
    inner,
    load,
    nest,
    reduce,
    store,
)
from wrapperir.ir import Device, DType, TensorType, contiguous_stride
from wrapperir.kernels import Target
from wrapperir.lowering import matrix_product
from wrapperir.lowering.interpreter import SymbolValues
from wrapperir.lowering.kernel import KernelLaunch
from wrapperir.lowering.loops import BufferView, Load, LoopGraph, Nest, Store
from wrapperir.lowering.matrix_product import find_product
from wrapperir.lowering.scalar_op import ReduceOp, ScalarOp
from wrapperir.lowering.schedule import Schedule, plan_kernels
from wrapperir.lowering.schedule_interpreter import BufferMemory, run_graph, run_schedule
from wrapperir.lowering.substitution import instructions
from wrapperir.lowering.triton import TritonRenderer

HALVES = DType.F16, DType.BF16
CUDA = Device("cuda", 0)


def _type(dtype: DType, *size: int, flipped: bool = False, on: Device = CUDA) -> TensorType:
    stride = contiguous_stride(size)
    if flipped:
        stride = (1, size[0])
    return TensorType(dtype=dtype, size=size, stride=stride, device=on)


def _product(rows: int, columns: int, depth: int, dtype: DType = DType.F16) -> Nest:
    """Return ``y = x @ w``."""
    return nest(
        "product",
        (rows, columns),
        inner(
            "r0",
            depth,
            load("v0", "x", I0, R0, dtype=dtype),
            load("v2", "w", R0, I1, dtype=dtype),
            apply("v1", ScalarOp.CAST, "v0"),
            apply("v3", ScalarOp.CAST, "v2"),
            apply("v4", ScalarOp.MUL, "v1", "v3"),
            reduce("v5", ReduceOp.SUM, "v4"),
        ),
        apply("v6", ScalarOp.CAST, "v5", dtype=dtype),
        store("y", "v6", I0, I1),
    )


def _graph(*items: Nest, result: str = "y", **buffers: TensorType) -> LoopGraph:
    """Return a graph of nests, of which buffers that none writes are inputs."""
    steps = [each for item in items for each in instructions(item.body)]
    written = {each.buffer for each in steps if isinstance(each, Store)}
    return LoopGraph(
        buffers=buffers,
        inputs=tuple(name for name in buffers if name not in written),
        items=items,
        outputs=((result, BufferView(buffer=result, type=buffers[result])),),
    )


def _plain(
    rows: int, columns: int, depth: int, dtype: DType = DType.F16, on: Device = CUDA
) -> LoopGraph:
    return _graph(
        _product(rows, columns, depth, dtype),
        x=_type(dtype, rows, depth, on=on),
        w=_type(dtype, depth, columns, on=on),
        y=_type(dtype, rows, columns, on=on),
    )


def _launches(schedule: Schedule) -> list[KernelLaunch]:
    return [item for item in schedule.items if isinstance(item, KernelLaunch)]


def _run_in_triton(item: KernelLaunch, memory: BufferMemory, symbols: SymbolValues) -> None:
    definition = TritonRenderer().render_kernel(item.kernel)
    assert ("tl.dot" in definition.source) is item.kernel.tiling.multiplies
    launch(definition, [memory[name] for name in item.buffers])


def _check(graph: LoopGraph) -> list[KernelLaunch]:
    """Compare kernels of a graph with its interpreter; return the launches."""
    schedule = plan_kernels(graph)
    inputs: dict[str, torch.Tensor] = {}
    for seed, name in enumerate(graph.inputs):
        type = graph.buffers[name]
        count = 1
        for extent in type.size:
            assert isinstance(extent, int)
            count *= extent
        generator = torch.Generator().manual_seed(seed)
        numbers = torch.randint(-3, 4, (count,), generator=generator)
        inputs[name] = numbers.to(getattr(torch, type.dtype.torch_name))
    wanted = run_graph(graph, inputs)
    got = run_schedule(schedule, inputs, launch=_run_in_triton)
    for name in wanted:
        assert torch.equal(got[name], wanted[name]), name
    return _launches(schedule)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take small matrices for large ones, which the interpreter takes long for."""
    monkeypatch.setattr(matrix_product, "LEAST_TERMS", 1 << 12)


SIZES = st.integers(16, 70)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SIZES, SIZES, SIZES, st.sampled_from(HALVES), st.tuples(*[st.booleans()] * 3))
def test_drawn_products_compute_the_same(
    rows: int, columns: int, depth: int, dtype: DType, flips: tuple[bool, bool, bool]
) -> None:
    """The numbers are small, so that all sums are exact."""
    x, w, y = flips
    graph = _graph(
        _product(rows, columns, depth, dtype),
        x=_type(dtype, rows, depth, flipped=x),
        w=_type(dtype, depth, columns, flipped=w),
        y=_type(dtype, rows, columns, flipped=y),
    )
    launches = _check(graph)
    assert launches[0].kernel.tiling.multiplies
    columns_of_tile = launches[0].kernel.nest.axes[-1]
    assert columns_of_tile.extent == (rows if y else columns)


@pytest.mark.parametrize(("depth", "parts"), [(512, 1), (1536, 4), (1540, 4), (1537, 1)])
def test_long_sums_of_few_tiles_are_split(depth: int, parts: int) -> None:
    launches = _check(_plain(40, 20, depth))
    assert len(launches) == 1 + (parts > 1)
    first = launches[0].kernel
    assert first.tiling.multiplies
    batches = first.nest.axes[: -2 if parts > 1 else 0]
    assert [axis.extent for axis in batches] == [parts] * (parts > 1)


def test_what_is_computed_of_a_product_is_in_its_kernel() -> None:
    finish = nest(
        "finish",
        (32, 48),
        load("v0", "y", I0, I1, dtype=DType.F16),
        load("v1", "z", I0, I1, dtype=DType.F16),
        apply("v2", ScalarOp.ADD, "v0", "v1", dtype=DType.F16),
        store("out", "v2", I0, I1),
    )
    half = _type(DType.F16, 32, 48)
    graph = _plain(32, 48, 96)
    graph = _graph(*graph.items, finish, result="out", **graph.buffers, z=half, out=half)  # type: ignore[arg-type]
    (only,) = _check(graph)
    assert len(only.kernel.buffers) == 4


def test_what_a_product_reads_is_computed_once() -> None:
    begin = nest(
        "begin",
        (32, 96),
        load("v0", "in", I0, I1),
        apply("v1", ScalarOp.CAST, "v0", dtype=DType.F16),
        store("x", "v1", I0, I1),
    )
    graph = _plain(32, 48, 96)
    source = _type(DType.F32, 32, 96)
    graph = _graph(begin, *graph.items, **graph.buffers, **{"in": source})  # type: ignore[arg-type]
    first, second = _check(graph)
    assert second.kernel.tiling.multiplies
    assert not first.kernel.tiling.multiplies


def test_rows_that_are_moved_are_read_where_they_were() -> None:
    move = nest(
        "move",
        (32, 96),
        load("v0", "in", I0 + 3, I1, dtype=DType.F16),
        store("x", "v0", I0, I1),
    )
    graph = _plain(32, 48, 96)
    source = _type(DType.F16, 36, 96)
    graph = _graph(move, *graph.items, **graph.buffers, **{"in": source})  # type: ignore[arg-type]
    (only,) = _check(graph)
    assert only.kernel.tiling.multiplies


def test_products_of_the_same_matrix_stay_apart() -> None:
    first = _product(32, 48, 96)
    other = nest(
        "other",
        (32, 48),
        inner(
            "r0",
            96,
            load("v0", "x", I0, R0, dtype=DType.F16),
            load("v2", "u", R0, I1, dtype=DType.F16),
            apply("v1", ScalarOp.CAST, "v0"),
            apply("v3", ScalarOp.CAST, "v2"),
            apply("v4", ScalarOp.MUL, "v1", "v3"),
            reduce("v5", ReduceOp.SUM, "v4"),
        ),
        store("z", "v5", I0, I1),
    )
    graph = _plain(32, 48, 96)
    graph = _graph(
        first,
        other,
        **graph.buffers,  # type: ignore[arg-type]
        u=_type(DType.F16, 96, 48),
        z=_type(DType.F32, 32, 48),
    )
    outputs = [(name, BufferView(buffer=name, type=graph.buffers[name])) for name in "yz"]
    launches = _launches(plan_kernels(evolve(graph, outputs=tuple(outputs))))
    assert [each.kernel.tiling.multiplies for each in launches] == [True, True]


@pytest.mark.parametrize(
    "graph",
    [
        _plain(32, 48, 96, on=Device("cpu")),
        _plain(32, 48, 96, DType.F32),
        _plain(8, 1024, 512),
        _plain(16, 16, 15),
    ],
    ids=["on a CPU", "f32", "thin", "small"],
)
def test_other_products_are_plain_sums(graph: LoopGraph) -> None:
    assert not any(each.kernel.tiling.multiplies for each in _launches(plan_kernels(graph)))


def test_a_sum_of_products_that_share_rows_and_columns_multiplies_no_matrices() -> None:
    body = (
        load("v0", "x", I0, R0, dtype=DType.F16),
        load("v2", "w", I0, R0, dtype=DType.F16),
        apply("v1", ScalarOp.CAST, "v0"),
        apply("v3", ScalarOp.CAST, "v2"),
        apply("v4", ScalarOp.MUL, "v1", "v3"),
        reduce("v5", ReduceOp.SUM, "v4"),
    )
    rows = nest("rows", (64,), inner("r0", 512, *body), store("y", "v5", I0))
    found = find_product(list(instructions(rows.body)), rows.axes, rows.body[0].axes)  # type: ignore[union-attr]
    assert found is not None
    assert (found.batches, found.rows, found.columns) == (rows.axes, (), ())
    assert isinstance(found.left_code[0], Load)


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "gfx942"])
@pytest.mark.parametrize("depth", [512, 3072, 500])
def test_products_compile_for_gpus(depth: int, target: str, tmp_path: Path) -> None:
    for item in _launches(plan_kernels(_plain(49, 512, depth))):
        definition = TritonRenderer().render_kernel(item.kernel)
        made = compiled(definition, Target(target), tmp_path)
        assert made.asm[Target(target).suffix][:4] == b"\x7fELF"
        if item.kernel.tiling.multiplies and target == "sm_90" and depth != 500:
            assert "wgmma" in made.asm["ptx"]
