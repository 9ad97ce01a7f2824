"""Axes of kernels: merged, ordered, tiled."""

from wrapperir.ir import DType, Expr, Symbol, TensorType, mul
from wrapperir.lowering.axes import arrange_axes
from wrapperir.lowering.kernel import SizeSymbol
from wrapperir.lowering.loops import (
    Axis,
    IndexValue,
    InnerLoop,
    Load,
    Nest,
    Reduce,
    Step,
    Store,
)
from wrapperir.lowering.renderer import ReductionForm, Tiling
from wrapperir.lowering.scalar_op import ReduceOp

_SYMBOLS = {"s0": SizeSymbol(hint=100)}
_FLAT = TensorType(dtype=DType.F32, size=(1 << 20,), stride=(1,))
_BUFFERS = dict[str, TensorType](x=_FLAT, y=_FLAT, z=_FLAT)
i, j, k, r = map(Symbol, "ijkr")


def _copy(read: Expr, write: Expr, **extents: Expr) -> tuple[Nest, Tiling]:
    body: list[Step] = [
        Load(result="v", dtype=DType.F32, buffer="x", index=(read,)),
        Store(buffer="y", index=(write,), value="v"),
    ]
    axes = tuple(Axis(name, extent) for name, extent in extents.items())
    return arrange_axes(Nest(name="copy", axes=axes, body=tuple(body)), _BUFFERS, _SYMBOLS)


def test_axes_that_all_accesses_see_as_one_are_merged() -> None:
    index = i * 64 + j * 8 + k
    nest, tiling = _copy(index, index, i=4, j=8, k=8)
    (axis,) = nest.axes
    assert axis == Axis("k", 256)
    (load, _) = nest.body
    assert isinstance(load, Load)
    assert load.index == (k,)
    assert tiling.blocks == (("k",),)


def test_permuted_memory_is_walked_in_its_order() -> None:
    index = i + j * 512 + k * 64
    nest, tiling = _copy(index, index, i=64, j=4, k=8)
    assert nest.axes == (Axis("i", 2048),)
    assert tiling.blocks == (("i",),)


def test_a_transposed_copy_has_two_block_dimensions() -> None:
    nest, tiling = _copy(i * 6400 + j * 80 + k, i * 6400 + k * 80 + j, i=4, j=80, k=80)
    assert tiling.blocks == (("i", "k"), ("j",))
    assert [axis.name for axis in nest.axes] == ["i", "k", "j"]


def test_a_short_axis_is_not_tiled() -> None:
    _, tiling = _copy(i * 4 + j, j * 4096 + i, i=4096, j=4)
    assert tiling.blocks == (("j", "i"),)


def test_symbolic_extents_merge() -> None:
    size = Symbol("s0")
    nest, _ = _copy(mul(i, size) + j, mul(i, size) + j, i=4, j=size)
    assert nest.axes == (Axis("j", size * 4),)


def test_values_of_indices_hold_axes_apart() -> None:
    body: list[Step] = [
        IndexValue(result="v", dtype=DType.F32, expr=j),
        Store(buffer="y", index=(i * 8 + j,), value="v"),
    ]
    nest = Nest(name="n", axes=(Axis("i", 4), Axis("j", 8)), body=tuple(body))
    arranged, _ = arrange_axes(nest, _BUFFERS, _SYMBOLS)
    assert arranged.axes == nest.axes
    body[0] = IndexValue(result="v", dtype=DType.F32, expr=(i * 8 + j) % 5)
    nest = Nest(name="n", axes=(Axis("i", 4), Axis("j", 8)), body=tuple(body))
    arranged, _ = arrange_axes(nest, _BUFFERS, _SYMBOLS)
    assert arranged.axes == (Axis("j", 32),)


def _sum(read: Expr, op: ReduceOp, **extents: int) -> tuple[Nest, Tiling]:
    loop = InnerLoop(
        axes=tuple(Axis(name, extents[name]) for name in ("j", "k")),
        body=(
            Load(result="v", dtype=DType.F32, buffer="x", index=(read,)),
            Reduce(results=("w",), dtype=DType.F32, op=op, operands=("v",)),
        ),
    )
    store = Store(buffer="y", index=(i,), value="w")
    nest = Nest(name="sum", axes=(Axis("i", extents["i"]),), body=(loop, store))
    return arrange_axes(nest, _BUFFERS, _SYMBOLS)


def test_inner_axes_merge_in_the_order_of_memory() -> None:
    nest, tiling = _sum(i * 256 + j + k * 16, ReduceOp.SUM, i=64, j=16, k=16)
    (loop, _) = nest.body
    assert isinstance(loop, InnerLoop)
    assert loop.axes == (Axis("j", 256),)
    assert tiling.reduction is ReductionForm.PERSISTENT


def test_positions_keep_the_order_of_inner_axes() -> None:
    nest, _ = _sum(i * 256 + j + k * 16, ReduceOp.ARGMAX, i=64, j=16, k=16)
    (loop, _) = nest.body
    assert isinstance(loop, InnerLoop)
    assert loop.axes == (Axis("j", 16), Axis("k", 16))


def test_long_rows_across_memory_are_looped() -> None:
    _, tiling = _sum(i + j * 4096 + k * 64, ReduceOp.SUM, i=64, j=16, k=64)
    assert tiling.reduction is ReductionForm.LOOPED


def test_inner_loops_of_other_extents_keep_them_where_parallel_axes_merge() -> None:
    loops = [
        InnerLoop(
            axes=(Axis(name, extent),),
            body=(
                Load(result=f"v{name}", dtype=DType.F32, buffer="x", index=(Symbol(name),)),
                Reduce(
                    results=(f"t{name}",),
                    dtype=DType.F32,
                    op=ReduceOp.SUM,
                    operands=(f"v{name}",),
                ),
            ),
        )
        for name, extent in (("r", 3), ("q", 5))
    ]
    stores = [
        Store(buffer=out, index=(i * 8 + j,), value=value)
        for out, value in (("y", "tr"), ("z", "tq"))
    ]
    axes = (Axis("i", 4), Axis("j", 8))
    nest = Nest(name="n", axes=axes, body=(*loops, *stores))
    arranged, _ = arrange_axes(nest, _BUFFERS, _SYMBOLS)
    assert arranged.axes == (Axis("j", 32),)
    assert [x.axes for x in arranged.body if isinstance(x, InnerLoop)] == [
        (Axis("r", 3),),
        (Axis("q", 5),),
    ]
