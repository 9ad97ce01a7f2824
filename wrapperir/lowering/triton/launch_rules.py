"""Block sizes and warps of kernels, by rule: the config to launch, then others to time.

The rules are those that Inductor's heuristics have come to: enough bytes in flight for
each thread, whole rows in a warp where they are short, and enough programs for all
multiprocessors.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from math import prod

from attrs import frozen

from wrapperir.ir import Expr, KernelConfig
from wrapperir.lowering.indexing import IndexRanges, distance
from wrapperir.lowering.loops import InnerLoop, Instruction, Load, Reduce, Scan, Store
from wrapperir.lowering.renderer import LoopKernel
from wrapperir.lowering.scalar_op import ReduceOp
from wrapperir.lowering.triton.tile import BlockDimension, Tile, held_block

_UNKNOWN_SIZE = 4096
"""The size that a symbol is taken to have."""
_MOST_ELEMENTS = 4096
"""The most elements of a tile that an inner loop is held in, beside a single row."""

_BUSY = 264
"""Programs that keep a device busy."""
_FILLING = 96
"""Tiles of a product of matrices from which on smaller ones would not take less time."""
_LEAST_FACTOR = 16
"""The least block of a product of matrices along each dimension."""
_VECTOR = 16
"""The most bytes that a thread loads at once, and elements, if they have one byte."""
_LONGEST_WHOLE = 16384
"""The longest row that one block of a loop covers."""


class Contiguous(StrEnum):
    """The dimension along which the accesses of inner loops are contiguous."""

    INNER = "inner"
    OUTER = "outer"
    MIXED = "mixed"


@frozen
class LaunchRule:
    """Block sizes by constexpr, warps, and blocks of a loop that are loaded ahead."""

    blocks: tuple[tuple[str, int], ...]
    warps: int
    stages: int = 1

    def config(self, options: Sequence[tuple[str, bool]]) -> KernelConfig:
        """Return it as a config of a kernel."""
        sizes = (("num_warps", self.warps), ("num_stages", self.stages))
        return KernelConfig((*self.blocks, *sizes, *options))


def plan_launches(kernel: LoopKernel, tile: Tile, ranges: IndexRanges) -> list[LaunchRule]:
    """Return ways to launch a kernel, the preferred one first."""
    if tile.right is not None:
        found = _product(tile)
    elif not tile.inner:
        found = _pointwise(kernel, tile)
    else:
        rules = {
            Contiguous.INNER: _inner_reduction,
            Contiguous.OUTER: _outer_reduction,
            Contiguous.MIXED: _mixed_reduction,
        }
        found = rules[_contiguous(kernel, ranges)](kernel, tile)
    return list(dict.fromkeys(found))


def is_masked(dimension: BlockDimension, launches: Sequence[LaunchRule]) -> bool:
    """Say whether any launch has a block that reaches beyond a dimension's extent."""
    extent = dimension.extent
    if not isinstance(extent, int) or extent == 0:
        return True
    return any(extent % dict(launch.blocks)[dimension.block] for launch in launches)


def size_of(extent: Expr) -> int:
    """Return an extent; for a symbolic one, a guess."""
    if isinstance(extent, int):
        return max(extent, 1)
    return _UNKNOWN_SIZE


def _power(number: float) -> int:
    """Return the least power of two that is not below a number."""
    return 1 << max(-int(-number // 1) - 1, 0).bit_length()


def _clamp(number: int, low: int, high: int) -> int:
    return max(low, min(number, high))


def _pointwise(kernel: LoopKernel, tile: Tile) -> list[LaunchRule]:
    dims = tile.parallel
    sizes = [_power(size_of(dim.extent)) for dim in dims]
    shapes: list[tuple[int, ...]]
    match len(dims):
        case 0:
            return [LaunchRule((), 1)]
        case 1:
            extent = dims[0].extent
            points = extent if isinstance(extent, int) else 1 << 20
            most = _clamp(_power(points / 128), 256, 1024)
            shapes = [(most,), (most // 2,)]
            sizes = [_power(max(points, 1))]
        case 2:
            shapes = [(64, 64), (32, 32), (16, 64), (64, 16), (16, 256), (256, 16)]
            if prod(sizes) < _BUSY * prod(shapes[0]):
                shapes[:2] = shapes[1::-1]
        case _:
            ones = [1] * len(dims[3:])
            shapes = [(*ones, 8, 16, 16), (*ones, 4, 32, 32)]
    launches: list[LaunchRule] = []
    for shape in shapes:
        blocks = _fitted(shape, sizes)
        total = prod(blocks)
        least = 4 if total >= 128 else 1
        launches.append(_launch(dims, blocks, _clamp(total // 256, least, 8)))
    return launches


def _fitted(shape: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Return a block that fits the sizes; what one dimension lacks, others get."""
    blocks = [min(block, size) for block, size in zip(shape, sizes, strict=True)]
    missing = prod(shape) // prod(blocks)
    for place in reversed(range(len(blocks))):
        growth = min(missing, sizes[place] // blocks[place])
        blocks[place] *= growth
        missing //= growth
    return blocks


def _launch(
    dims: Sequence[BlockDimension], blocks: Sequence[int], warps: int
) -> LaunchRule:
    pairs = zip((dim.block for dim in dims), blocks, strict=True)
    return LaunchRule(tuple(pairs), max(_power(warps), 1))


def _reducing(
    tile: Tile, rows: int, columns: Mapping[BlockDimension, int], warps: int
) -> LaunchRule:
    """Return a launch whose last parallel dimension has ``rows``, and others one."""
    parallel = [1] * len(tile.parallel)
    if parallel:
        parallel[-1] = rows
    dims = (*tile.parallel, *tile.inner)
    return _launch(dims, (*parallel, *(columns[dim] for dim in tile.inner)), warps)


def _columns(tile: Tile, most: int) -> dict[BlockDimension, int]:
    found: dict[BlockDimension, int] = {}
    for dim in tile.inner:
        held = held_block(dim.extent)
        if dim.is_held:
            assert held is not None
            found[dim] = held
        else:
            found[dim] = min(held or most, most)
    return found


def _rows(tile: Tile) -> int:
    """Return the points of the last parallel dimension."""
    return size_of(tile.parallel[-1].extent) if tile.parallel else 1


def _points(tile: Tile) -> int:
    return prod(size_of(dim.extent) for dim in tile.parallel)


def _most_rows(tile: Tile, rows: int, columns: int) -> int:
    """Return a number of rows, at most those that there are, of a tile that is held."""
    most = max(_MOST_ELEMENTS // columns, 1)
    return _clamp(_power(rows), 1, min(most, _power(_rows(tile))))


def _product(tile: Tile) -> list[LaunchRule]:
    """Return tiles of a product of matrices: small ones where there are few of them.

    Measured on an H100 with the shapes of ResNet-50 and of small transformers.
    """
    *batches, rows, columns = (size_of(dim.extent) for dim in tile.parallel)
    (depth,) = (size_of(dim.extent) for dim in tile.inner)
    count = prod(batches)

    def tiles(height: int, width: int) -> int:
        return count * -(-rows // height) * -(-columns // width)

    if tiles(64, 64) > 2 * _BUSY:
        shapes = [(128, 128, 64, 8, 4), (128, 64, 64, 4, 4), (64, 64, 64, 4, 4)]
    elif tiles(64, 64) >= _FILLING:
        shapes = [(64, 64, 64, 4, 4), (64, 32, 64, 4, 4), (128, 64, 64, 4, 4)]
    elif rows > 32:
        shapes = [(64, 32, 64, 4, 4), (64, 64, 64, 4, 4), (32, 64, 64, 4, 4)]
    else:
        shapes = [(32, 32, 128, 4, 3), (16, 32, 128, 2, 4), (32, 64, 64, 4, 4)]
    launches: list[LaunchRule] = []
    for height, width, step, warps, stages in shapes:
        blocks = (
            _clamp(_power(rows), _LEAST_FACTOR, height),
            _clamp(_power(columns), _LEAST_FACTOR, width),
            _product_step(depth, step),
        )
        pairs = zip((dim.block for dim in tile.blocked), blocks, strict=True)
        launches.append(LaunchRule(tuple(pairs), warps, stages))
    return launches


def _product_step(depth: int, most: int) -> int:
    """Return the points of inner axes that are multiplied at once: a divisor, or masked."""
    divisor = depth & -depth
    if divisor >= _LEAST_FACTOR:
        return min(divisor, most)
    return _clamp(_power(depth), _LEAST_FACTOR, most)


def _inner_reduction(kernel: LoopKernel, tile: Tile) -> list[LaunchRule]:
    points = _points(tile)
    length = max(size_of(dim.extent) for dim in tile.inner)
    launches: list[LaunchRule] = []
    if all(dim.is_held for dim in tile.inner):
        columns = _columns(tile, 1)
        widest = max(columns.values())
        if widest >= 256:
            rows = min(1024 // widest, 8) if widest <= 1024 and points >= 1024 else 1
        else:
            # Short rows: fill the threads, but leave programs for all multiprocessors.
            rows = min(1024 // widest, _power(points / 512))
        rows = max(rows, 1)
        for count in (rows, rows * 2, max(rows // 2, 1)):
            count = _most_rows(tile, count, widest)
            elements = count * widest
            has_short_rows = elements <= 1024 and widest >= 256 and points >= 1024
            warps = 1 if has_short_rows else elements // 256
            launches.append(_reducing(tile, count, columns, _clamp(warps, 1, 16)))
        elements = rows * widest
        launches.append(
            _reducing(
                tile,
                _most_rows(tile, rows, widest),
                columns,
                _clamp(elements // 128, 2, 16),
            )
        )
        return launches
    is_long = _reads_again(kernel)
    most, each = _streamed_block(kernel, tile)
    rows = min(2 if length <= 2048 else 1, _power(_rows(tile)))
    shapes = [(rows, most), (1, most), (1, most // 2), (1, most * 2)]
    if is_long and length <= _LONGEST_WHOLE:
        shapes.append((1, _LONGEST_WHOLE))
    for rows_here, most_here in shapes:
        columns = _columns(tile, most_here)
        widest = max(columns.values())
        most_warps = 16 if widest < 8192 else 32
        warps = _clamp(rows_here * widest // (32 * each), 1, most_warps)
        launches.append(_reducing(tile, rows_here, columns, warps))
    return launches


def _streamed_block(kernel: LoopKernel, tile: Tile) -> tuple[int, int]:
    """Return the points of a block of a loop along rows, and those of a thread.

    Measured on an H200 with rows of 8,192 to 262,144 elements.
    """
    points, steps = _points(tile), _inner_steps(kernel)
    if any(isinstance(step, Scan) for step in steps):
        return (8192, 16) if points < _BUSY else (1024, 4)
    if _work(kernel) >= 10 and points >= 1024:
        return 1024, 4
    is_online = any(
        isinstance(step, Reduce) and step.op is ReduceOp.ONLINE_SOFTMAX for step in steps
    )
    least = min(
        (step.dtype.itemsize for step in steps if isinstance(step, Load)), default=4
    )
    if is_online and all(has_whole_vectors(dim.extent) for dim in tile.inner):
        # Each point takes much work, so that threads with few points keep memory busy.
        return 2048, max(_VECTOR // least, 1)
    if not _reads_again(kernel):
        return 2048, 4
    is_long = any(size_of(dim.extent) >= _LONGEST_WHOLE for dim in tile.inner)
    return (8192, 8) if is_long and least >= 4 else (4096, 4)


def has_whole_vectors(extent: Expr) -> bool:
    """Say whether threads can load rows by several elements at once, without a rest."""
    return isinstance(extent, int) and extent % _VECTOR == 0


def _outer_reduction(kernel: LoopKernel, tile: Tile) -> list[LaunchRule]:
    x, points = _rows(tile), _points(tile)
    length = max(size_of(dim.extent) for dim in tile.inner)
    launches: list[LaunchRule] = []
    if all(dim.is_held for dim in tile.inner):
        columns = _columns(tile, 1)
        widest = max(columns.values())
        # Wide blocks of few columns would leave most multiprocessors idle.
        for rows in (8, 32, 128) if points <= 512 else (128, 32, 8, 64):
            count = _most_rows(tile, rows, widest)
            launches.append(
                _reducing(tile, count, columns, _clamp(count * widest // 256, 1, 8))
            )
        return launches
    if points <= 1024:
        rows, most = _clamp(points // 128, 2, 8), 64
    elif points // 4096 <= 8:
        # Few programs: each has more bytes in flight where there are many to read.
        rows, most = (32, 64) if length >= 1024 else (16, 32)
    else:
        rows = _clamp(_power(points // 4096), 64, 256)
        most = 512 // rows
        if _work(kernel) >= 4 and length > 128:
            rows, most = 32, 64 if length >= 2048 else 32
    for rows_here, most_here in (
        (rows, most),
        (rows * 2, most),
        (rows, most * 2),
        (max(rows // 2, 1), most * 2),
        (32, 128),
        (64, 8),
    ):
        count = min(_power(rows_here), _power(x))
        columns = _columns(tile, most_here)
        elements = count * max(columns.values())
        launches.append(_reducing(tile, count, columns, _clamp(elements // 128, 2, 8)))
    return launches


def _mixed_reduction(kernel: LoopKernel, tile: Tile) -> list[LaunchRule]:
    """Return tiles in which accesses along rows and across them both coalesce."""
    launches: list[LaunchRule] = []
    for rows, most in ((32, 64), (64, 64), (32, 32), (16, 64)):
        columns = _columns(tile, most)
        widest = max(columns.values())
        count = min(rows, max(2 * _MOST_ELEMENTS // widest, 1), _power(_rows(tile)))
        launches.append(
            _reducing(tile, count, columns, _clamp(count * widest // 256, 1, 8))
        )
    return launches


def _work(kernel: LoopKernel) -> int:
    """Return how many loads and reductions a kernel's inner loops have."""
    return sum(isinstance(step, Load | Reduce | Scan) for step in _inner_steps(kernel))


def _inner_steps(kernel: LoopKernel) -> list[Instruction]:
    loops = [step for step in kernel.nest.body if isinstance(step, InnerLoop)]
    return [step for loop in loops for step in loop.body]


def _reads_again(kernel: LoopKernel) -> bool:
    """Say whether a row is read twice, or its blocks wait for each other in a scan."""
    loops = sum(isinstance(step, InnerLoop) for step in kernel.nest.body)
    return loops > 1 or any(isinstance(step, Scan) for step in _inner_steps(kernel))


def _contiguous(kernel: LoopKernel, ranges: IndexRanges) -> Contiguous:
    """Return the dimension along which the accesses of inner loops are contiguous.

    What varies along one of the dimensions only is small, and counts where nothing else
    does.
    """
    strides = {buffer.name: buffer.type.stride for buffer in kernel.buffers}
    if not kernel.nest.axes:
        return Contiguous.INNER
    last = kernel.nest.axes[-1].name
    small = [0, 0]
    large = [0, 0]
    for loop in kernel.nest.body:
        if not isinstance(loop, InnerLoop):
            continue
        inner = {axis.name for axis in loop.axes}
        names = {last, *inner}
        for step in loop.body:
            if not isinstance(step, Load | Store):
                continue
            total = distance(step.index, strides[step.buffer])
            scales = ranges.linear_terms(total, names).coefficients
            counts = large if last in scales and not inner.isdisjoint(scales) else small
            counts[0] += any(scales.get(name) == 1 for name in inner)
            counts[1] += scales.get(last) == 1
    along, across = large if any(large) else small
    if any(large) and along and across:
        return Contiguous.MIXED
    return Contiguous.INNER if along >= across else Contiguous.OUTER
