"""Reductions of long rows in two kernels."""

import pytest
import torch

from wrapperir.ir import Device, DType, Expr, Symbol, tensor
from wrapperir.lowering.assembly import assemble
from wrapperir.lowering.dtypes import identity
from wrapperir.lowering.flat_nest import flatten
from wrapperir.lowering.kernel import KernelLaunch, SizeSymbol
from wrapperir.lowering.loops import (
    Apply,
    Axis,
    BufferView,
    InnerLoop,
    Literal,
    Load,
    LoopGraph,
    Nest,
    Reduce,
    Step,
    Store,
)
from wrapperir.lowering.scalar_op import ReduceOp, ScalarOp
from wrapperir.lowering.schedule import SchedulingOptions, plan_kernels
from wrapperir.lowering.schedule_interpreter import run_schedule
from wrapperir.lowering.split_reductions import SplitRule, split_reduction

_I, _R, _Q = Symbol("i"), Symbol("r"), Symbol("q")
_F64 = DType.F64


def _graph(op: ReduceOp, parallel: int, rows: Expr, columns: int, device: str) -> LoopGraph:
    """Return the reduction of ``x[r, i, q]`` over ``r`` and ``q``, doubled.

    A second buffer gets the negated input.
    """
    size: tuple[Expr, ...] = (rows, parallel, columns)
    at = (_R, _I, _Q)
    loop = InnerLoop(
        axes=(Axis("r", rows), Axis("q", columns)),
        body=(
            Load(result="x", dtype=_F64, buffer="x", index=at),
            Apply(result="n", dtype=_F64, op=ScalarOp.NEG, operands=("x",)),
            Store(buffer="n", index=at, value="n"),
            Reduce(results=("s",), dtype=_F64, op=op, operands=("n",)),
        ),
    )
    body: tuple[Step, ...] = (
        loop,
        Apply(result="c", dtype=_F64, op=ScalarOp.CAST, operands=("s",)),
        Literal(result="two", dtype=_F64, value=2.0),
        Apply(result="y", dtype=_F64, op=ScalarOp.MUL, operands=("c", "two")),
        Store(buffer="y", index=(_I,), value="y"),
    )
    on = Device(device)
    buffers = {
        "x": tensor(_F64, size, device=on),
        "n": tensor(_F64, size, device=on),
        "y": tensor(_F64, (parallel,), device=on),
    }
    return LoopGraph(
        buffers=buffers,
        inputs=("x",),
        items=(Nest(name="k", axes=(Axis("i", parallel),), body=body),),
        outputs=tuple(
            (name, BufferView(buffer=name, type=buffers[name])) for name in ("n", "y")
        ),
    )


@pytest.mark.parametrize("op", [ReduceOp.SUM, ReduceOp.MAX])
@pytest.mark.parametrize(
    ("parallel", "rows", "columns"),
    [(1, 4096, 4), (2, 8192, 1), (3, 12, 1024), (1, 2, 8192), (1, 8209, 1)],
)
def test_split_kernels_compute_the_same(
    op: ReduceOp, parallel: int, rows: int, columns: int
) -> None:
    graph = _graph(op, parallel, rows, columns, "cuda")
    schedule = plan_kernels(graph)
    assert len(schedule.items) == 2
    (workspace,) = {*schedule.buffers} - {"x", "n", "y"}
    assert schedule.buffers[workspace].device == Device("cuda")
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(-9, 9, (rows, parallel, columns), generator=generator).double()
    got = run_schedule(schedule, {"x": x.flatten()})
    assert torch.equal(got["n"], -x.flatten())
    reduced = (-x).sum((0, 2)) if op is ReduceOp.SUM else (-x).amax((0, 2))
    assert torch.equal(got["y"], reduced * 2)


def test_many_points_short_rows_and_positions_are_not_split() -> None:
    for graph in (
        _graph(ReduceOp.SUM, 512, 4096, 4, "cuda"),
        _graph(ReduceOp.SUM, 1, 16, 16, "cuda"),
        _graph(ReduceOp.ARGMAX, 1, 4096, 16, "cuda"),
        _graph(ReduceOp.SUM, 16, 4096, 16, "cpu"),
    ):
        assert len(plan_kernels(graph).items) == 1


@pytest.mark.parametrize(
    ("rows", "columns", "parts"),
    [
        (1024, 3072, 8),
        (512, 768, 1),
        (8192, 768, 32),
        (65536, 16, 512),
        (8192, 1 << 15, 1),
    ],
)
def test_sums_of_columns_are_split_where_that_saves_time(
    rows: int, columns: int, parts: int
) -> None:
    first, *second = plan_kernels(_graph(ReduceOp.SUM, columns, rows, 1, "cuda")).items
    assert isinstance(first, KernelLaunch)
    assert [axis.extent for axis in first.kernel.nest.axes] == [parts, columns][
        parts == 1 :
    ]
    assert len(second) == (parts > 1)


def test_variances_are_combined_from_triples() -> None:
    size: tuple[Expr, ...] = (8192,)
    loop = InnerLoop(
        axes=(Axis("r", 8192),),
        body=(
            Load(result="x", dtype=_F64, buffer="x", index=(_R,)),
            Reduce(
                results=("m", "s", "n"), dtype=_F64, op=ReduceOp.WELFORD, operands=("x",)
            ),
        ),
    )
    nest = Nest(name="k", axes=(), body=(loop, Store(buffer="y", index=(), value="s")))
    flat = flatten(nest, "", {})
    assert flat is not None
    buffers = {"x": tensor(_F64, size), "y": tensor(_F64, ())}
    rule = SplitRule(points=4, worth=1, target=8, least=8, width=1)
    split = split_reduction(flat, "w", buffers, {}, rule)
    assert split is not None
    assert {*split.workspaces} == {"w_partial0", "w_partial1", "w_partial2"}
    (inner, store) = assemble(split.second, "k").body
    assert isinstance(store, Store)
    assert isinstance(inner, InnerLoop)
    reduce = inner.body[-1]
    assert isinstance(reduce, Reduce)
    assert len(reduce.operands) == 3


def test_a_split_kernel_has_its_own_outputs() -> None:
    schedule = plan_kernels(_graph(ReduceOp.SUM, 1, 4096, 4, "cuda"))
    first, second = schedule.items
    assert isinstance(first, KernelLaunch)
    assert isinstance(second, KernelLaunch)
    assert first.buffers == ("x", "n", "k_partial0")
    assert second.buffers == ("k_partial0", "y")


def test_a_row_of_unknown_length_is_split() -> None:
    size = Symbol("s0")
    graph = _graph(ReduceOp.MAX, 1, size, 512, "cuda")
    symbols = {"s0": SizeSymbol(low=1, hint=64)}
    schedule = plan_kernels(graph, SchedulingOptions(symbols=symbols))
    assert len(schedule.items) == 2
    for rows in (1, 5, 64, 67):
        x = torch.randn(rows, 1, 512, dtype=torch.float64)
        got = run_schedule(schedule, {"x": x.flatten()}, {"s0": rows})
        assert torch.equal(got["n"], -x.flatten())
        assert torch.equal(got["y"], (-x).amax((0, 2)) * 2)


@pytest.mark.parametrize("op", [ReduceOp.MIN, ReduceOp.MAX])
def test_identities_of_extremes(op: ReduceOp) -> None:
    assert identity(op, DType.F32) == float("inf" if op is ReduceOp.MIN else "-inf")
    assert identity(op, DType.BOOL) is (op is ReduceOp.MIN)
    assert identity(op, DType.I8) == (127 if op is ReduceOp.MIN else -128)
    assert identity(op, DType.U8) == (255 if op is ReduceOp.MIN else 0)
    assert identity(ReduceOp.WELFORD, DType.F32) is None
