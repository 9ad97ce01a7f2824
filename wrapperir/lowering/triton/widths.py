"""The width of offsets: 32 bits, unless sizes can pass that."""

from collections.abc import Iterator

from wrapperir.ir import Expr, Operation, storage_extent, symbols_in
from wrapperir.lowering.indexing import IndexRanges
from wrapperir.lowering.loops import InnerLoop, Load, Nest, Store
from wrapperir.lowering.renderer import LoopKernel
from wrapperir.lowering.triton.tile import LARGEST, Tile

_LIMIT = (1 << 31) - LARGEST
"""Indices below it stay in 32 bits in a tile that reaches beyond the extent."""


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
    pending: list[Expr] = []
    for step in nest.body:
        for part in step.body if isinstance(step, InnerLoop) else (step,):
            if isinstance(part, Load | Store):
                pending += part.index
    while pending:
        expr = pending.pop()
        if isinstance(expr, Operation):
            yield expr
            pending += expr.args
