"""The tile of points that a kernel's program computes, and its dimensions.

A dimension of the tile runs over a flat index of one or more axes.  Parallel dimensions
come first; the axes of an inner loop are the last dimension, each loop's its own.  The
tile of a product of matrices has two: the rows, in place of which the right operand has
the inner axes, and the columns, in place of which the left operand has them.
"""

from collections.abc import Iterable, Iterator, Mapping

from attrs import frozen

from wrapperir.ir import Expr, Operation, product, storage_extent, symbols_in
from wrapperir.lowering.indexing import IndexRanges
from wrapperir.lowering.loops import Axis, IndexValue, InnerLoop, Nest
from wrapperir.lowering.renderer import LoopKernel, ReductionForm
from wrapperir.lowering.substitution import index_of, instructions

_LARGEST = 1 << 20
"""The most elements of a tile that Triton compiles."""
_LIMIT = (1 << 31) - _LARGEST
"""Indices below it stay in 32 bits in a tile that reaches beyond the extent."""

_MOST_HELD = 1 << 16  # 128 elements for each thread of 16 warps


class KernelNames:
    """The names in use in a kernel."""

    def __init__(self, used: Iterable[str]) -> None:
        """Begin with names that are in use."""
        self._used = set(used)
        self._counts: dict[str, int] = {}

    def fresh(self, wanted: str) -> str:
        """Return ``wanted`` or, if it is in use, that with a number; it is then in use."""
        name = wanted
        while name in self._used:
            count = self._counts.get(wanted, 0)
            self._counts[wanted] = count + 1
            name = f"{wanted}_{count}"
        self._used.add(name)
        return name


@frozen
class BlockDimension:
    """A dimension of a tile: its flat index, the mask of that, and the block's size.

    ``place`` is its place in the shape of the tile.  A program has one point of a dimension
    without a ``block``, which has no place.  ``is_held``: the block of an inner loop covers
    all of it.
    """

    index: str
    mask: str
    block: str
    axes: tuple[Axis, ...]
    place: int
    is_parallel: bool
    is_held: bool = False

    @property
    def is_single(self) -> bool:
        """Whether a program has one point of it."""
        return not self.block

    @property
    def extent(self) -> Expr:
        """The number of points."""
        return product(tuple(axis.extent for axis in self.axes))


@frozen
class Tile:
    """The dimensions of a kernel's tile; ``loops`` has one for each inner loop.

    Inner loops of equally many points share a dimension.  In a product of matrices, the
    inner loop has another dimension in the ``right`` operand, with a block of equal size.
    """

    parallel: tuple[BlockDimension, ...]
    loops: Mapping[tuple[Axis, ...], BlockDimension]
    rank: int
    right: BlockDimension | None = None

    @property
    def inner(self) -> tuple[BlockDimension, ...]:
        """The dimensions of inner loops, each once."""
        return tuple(dict.fromkeys(self.loops.values()))

    @property
    def blocked(self) -> tuple[BlockDimension, ...]:
        """The dimensions that have a block of their own."""
        return (*(dim for dim in self.parallel if not dim.is_single), *self.inner)


def held_block(extent: Expr) -> int | None:
    """Return the power of two that holds a constant extent; ``None`` if there is none."""
    if not isinstance(extent, int):
        return None
    block = 1 << max(extent - 1, 0).bit_length()
    return block if block <= _MOST_HELD else None


def is_held(kernel: LoopKernel) -> bool:
    """Say whether the blocks of all inner loops cover them."""
    return kernel.tiling.reduction is ReductionForm.PERSISTENT and all(
        held_block(product(tuple(axis.extent for axis in step.axes))) is not None
        for step in kernel.nest.body
        if isinstance(step, InnerLoop)
    )


def plan_tile(kernel: LoopKernel, names: KernelNames) -> Tile:
    """Return the dimensions of a kernel's tile."""
    if kernel.tiling.multiplies:
        return _plan_product(kernel, names)
    by_name = {axis.name: axis for axis in kernel.nest.axes}
    loops = [step for step in kernel.nest.body if isinstance(step, InnerLoop)]
    blocks = [block for block in kernel.tiling.blocks if block]
    rank = len(blocks) + bool(loops)
    letters = ("x", "y", "z", *(f"w{n}" for n in range(len(blocks))))
    parallel: list[BlockDimension] = []
    for place, axes in enumerate(blocks):
        letter = letters[len(blocks) - 1 - place]
        parallel.append(
            BlockDimension(
                names.fresh(letter),
                names.fresh(f"{letter}mask"),
                names.fresh(f"{letter.upper()}BLOCK"),
                tuple(by_name[name] for name in axes),
                place,
                is_parallel=True,
            )
        )
    inner: dict[tuple[Axis, ...], BlockDimension] = {}
    by_extent: dict[Expr, BlockDimension] = {}
    is_persistent = kernel.tiling.reduction is ReductionForm.PERSISTENT
    for loop in loops:
        extent = product(tuple(axis.extent for axis in loop.axes))
        if extent not in by_extent:
            letter = f"r{len(by_extent)}" if by_extent else "r"
            by_extent[extent] = BlockDimension(
                names.fresh(letter),
                names.fresh(f"{letter}mask"),
                names.fresh(f"{letter.upper()}BLOCK"),
                loop.axes,
                rank - 1,
                is_parallel=False,
                is_held=is_persistent and held_block(extent) is not None,
            )
        inner[loop.axes] = by_extent[extent]
    return Tile(tuple(parallel), inner, rank)


def _plan_product(kernel: LoopKernel, names: KernelNames) -> Tile:
    """Return the dimensions of the tile of a product of matrices."""
    by_name = {axis.name: axis for axis in kernel.nest.axes}
    (loop,) = (step for step in kernel.nest.body if isinstance(step, InnerLoop))

    *batches, rows, columns = kernel.tiling.blocks
    outer = [("z", "", axes, 0) for axes in batches]
    outer.append(("y", names.fresh("YBLOCK"), rows, 0))
    outer.append(("x", names.fresh("XBLOCK"), columns, 1))
    parallel = [
        BlockDimension(
            names.fresh(letter),
            names.fresh(f"{letter}mask"),
            block,
            tuple(by_name[name] for name in axes),
            place,
            is_parallel=True,
        )
        for letter, block, axes, place in outer
    ]
    block = names.fresh("RBLOCK")
    left, right = (
        BlockDimension(
            names.fresh(name),
            names.fresh(f"{name}mask"),
            block,
            loop.axes,
            place,
            is_parallel=False,
        )
        for name, place in (("r_left", 1), ("r_right", 0))
    )
    return Tile(tuple(parallel), {loop.axes: left}, rank=2, right=right)


def needs_long_offsets(kernel: LoopKernel, tile: Tile, ranges: IndexRanges) -> bool:
    """Say whether a kernel's indices take 64 bits.

    They do where a size is known to pass 32 bits, and where a tile's extent has a symbol
    of 64 bits, which may.  A symbol of 32 bits promises that sizes and offsets that are
    made of it fit.
    """
    long = {symbol.name for symbol in kernel.symbols if symbol.dtype.itemsize > 4}
    extents = [dim.extent for dim in (*tile.parallel, *tile.inner)]
    if any(name in long for extent in extents for name in symbols_in(extent)):
        return True
    sizes = [*extents, *(storage_extent(buffer.type) for buffer in kernel.buffers)]
    if any(isinstance(size, int) and size >= _LIMIT for size in sizes):
        return True
    for expr in _index_parts(kernel.nest):
        low, high = ranges.interval(expr)
        is_bounded = low > -float("inf") and high < float("inf")
        if is_bounded and (high >= _LIMIT or low <= -_LIMIT):
            return True
    return False


def _index_parts(nest: Nest) -> Iterator[Expr]:
    """Yield the operations in a nest's indices."""
    pending = [
        expr
        for each in instructions(nest.body)
        if not isinstance(each, IndexValue)
        for expr in index_of(each)
    ]
    while pending:
        expr = pending.pop()
        if isinstance(expr, Operation):
            yield expr
            pending += expr.args
