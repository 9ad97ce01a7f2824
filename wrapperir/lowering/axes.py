"""Arrange the axes of a kernel: their order, those that are one, and tiles.

Before::

    nest i0 < 768, i1 < 4, i2 < 64:              in[i1, i2, i0], out[i1, i2, i0]
        v0 = load in[i1 * 49152 + i2 * 768 + i0]
        store out[i1 * 49152 + i2 * 768 + i0] = v0

After::

    nest i0 < 196608:
        v0 = load in[i0]
        store out[i0] = v0

Parallel axes may run in any order; inner ones too, unless a scan or the position of an
extreme value depends on it.  The order is that of most accesses' strides, counted in bytes
(after PyTorch's ``pick_loop_order``); neighbours merge where all accesses allow it.  Where
accesses are contiguous along different axes, each of these axes ends a dimension of the
kernel's blocks, so that a block reads and writes whole lines of memory.
"""

from collections.abc import Callable, Mapping, Sequence

from attrs import evolve

from wrapperir.ir import Expr, Symbol, TensorType, floordiv, mod, mul
from wrapperir.lowering.accesses import LinearAccess, linear_terms_of, nest_ranges
from wrapperir.lowering.costs import TypicalSizes
from wrapperir.lowering.indexing import IndexRanges
from wrapperir.lowering.kernel import SizeSymbols, symbol_intervals
from wrapperir.lowering.loops import Axis, InnerLoop, Nest, Reduce, Scan, Step
from wrapperir.lowering.matrix_product import Contraction, suiting_product
from wrapperir.lowering.renderer import ReductionForm, Tiling
from wrapperir.lowering.scalar_op import ReduceOp
from wrapperir.lowering.substitution import Substitution, instructions

_MOST_BLOCKS = 3
_SHORTEST_TILE = 8
_LEAST_SHARE = 0.1
_LONGEST_PERSISTENT = 1024
_LONGEST_OUTER_PERSISTENT = 64
_LONGEST_READ_AGAIN = 4096


def arrange_axes(
    nest: Nest, buffers: Mapping[str, TensorType], symbols: SizeSymbols
) -> tuple[Nest, Tiling]:
    """Return a nest, whose accesses are linear, with its axes arranged, and its tiling."""
    sizes = TypicalSizes(symbols)
    nest = _ordered(nest, buffers, symbols, sizes)
    nest = _merged(nest, buffers, symbols, sizes)
    code = list(instructions(nest.body))
    product = suiting_product(code, nest.axes, _inner_axes(nest), buffers, sizes)
    if product is not None and _loops(nest) == 1:
        return _multiplying(nest, product)
    accesses = linear_terms_of(nest, buffers, nest_ranges(nest, symbols), sizes)
    nest, blocks = _tiled(nest, accesses, sizes)
    return nest, Tiling(blocks=blocks, reduction=_reduction_form(nest, accesses))


def _multiplying(nest: Nest, product: Contraction) -> tuple[Nest, Tiling]:
    """Return a nest with the axes of a product's batches, rows and columns, in order.

    The last axis, along which most of the result is contiguous, is one of the columns.
    """
    if nest.axes[-1] in product.rows:
        product = product.transposed
    blocks = [product.batches, product.rows, product.columns]
    names = [tuple(axis.name for axis in block) for block in blocks if block]
    axes = tuple(axis for block in blocks for axis in block)
    return evolve(nest, axes=axes), Tiling(blocks=tuple(names), multiplies=True)


def _inner_axes(nest: Nest) -> tuple[Axis, ...]:
    for step in nest.body:
        if isinstance(step, InnerLoop):
            return step.axes
    return ()


def _loops(nest: Nest) -> int:
    return sum(isinstance(step, InnerLoop) for step in nest.body)


def _with_axes(nest: Nest, parallel: Sequence[Axis], inner: Sequence[Axis]) -> Nest:
    body: list[Step] = [
        evolve(step, axes=tuple(inner)) if isinstance(step, InnerLoop) else step
        for step in nest.body
    ]
    return evolve(nest, axes=tuple(parallel), body=tuple(body))


def _same_inner_axes(nest: Nest) -> bool:
    loops = [step.axes for step in nest.body if isinstance(step, InnerLoop)]
    return all(axes == loops[0] for axes in loops)


def _ordered(
    nest: Nest,
    buffers: Mapping[str, TensorType],
    symbols: SizeSymbols,
    sizes: TypicalSizes,
) -> Nest:
    """Return a nest with its axes in the order of most accesses' strides."""
    inner = _inner_axes(nest)
    if len(nest.axes) < 2 and len(inner) < 2:
        return nest
    accesses = linear_terms_of(nest, buffers, nest_ranges(nest, symbols), sizes)
    parallel = _sorted_by_stride(nest.axes, accesses)
    if len(inner) > 1 and not _keeps_order(nest) and _same_inner_axes(nest):
        return _with_axes(nest, parallel, _sorted_by_stride(inner, accesses))
    return evolve(nest, axes=tuple(parallel))


def _keeps_order(nest: Nest) -> bool:
    ordered = (ReduceOp.ARGMIN, ReduceOp.ARGMAX)
    return any(
        isinstance(each, Scan) or (isinstance(each, Reduce) and each.op in ordered)
        for each in instructions(nest.body)
    )


def _sorted_by_stride(axes: Sequence[Axis], accesses: Sequence[LinearAccess]) -> list[Axis]:
    """Return axes, the greatest strides first; each access votes with its bytes."""
    found: list[Axis] = []
    for axis in axes:
        place = len(found)
        while place and _votes(found[place - 1], axis, accesses) < 0:
            place -= 1
        found.insert(place, axis)
    return found


def _votes(outer: Axis, inner: Axis, accesses: Sequence[LinearAccess]) -> int:
    """Return the bytes for an order of two axes, less those against it."""
    total = 0
    for access in accesses:
        a, b = access.typical.get(outer.name), access.typical.get(inner.name)
        if a and b and a != b:
            total += access.bytes if abs(a) > abs(b) else -access.bytes
    return total


def _merged(
    nest: Nest,
    buffers: Mapping[str, TensorType],
    symbols: SizeSymbols,
    sizes: TypicalSizes,
) -> Nest:
    """Return a nest with neighbouring axes merged where all index expressions allow."""
    inner = _inner_axes(nest)
    if len(nest.axes) < 2 and len(inner) < 2:
        return nest
    ranges = nest_ranges(nest, symbols)
    accesses = linear_terms_of(nest, buffers, ranges, sizes)
    merging = _Merging(accesses, ranges, symbols)
    parallel = merging.merge(nest.axes)
    result = evolve(nest, axes=parallel)
    if len(inner) > 1 and not _scans(nest) and _same_inner_axes(nest):
        result = _with_axes(nest, parallel, merging.merge(inner))
    if not merging.replaced:
        return nest
    simplify = nest_ranges(result, symbols).simplify
    rename = Substitution(indices=merging.replaced, simplify=simplify)
    return evolve(result, body=rename.steps(result.body))


def _scans(nest: Nest) -> bool:
    return any(isinstance(each, Scan) for each in instructions(nest.body))


def _seeks(nest: Nest) -> bool:
    """Say whether a nest seeks the position of an extreme value."""
    return any(
        isinstance(each, Reduce) and each.op in (ReduceOp.ARGMIN, ReduceOp.ARGMAX)
        for each in instructions(nest.body)
    )


class _Merging:
    """Merges axes; ``replaced`` has the index of each axis that is no more."""

    def __init__(
        self,
        accesses: Sequence[LinearAccess],
        ranges: IndexRanges,
        symbols: SizeSymbols,
    ) -> None:
        self._accesses = accesses
        self._ranges = ranges
        self._symbols = symbols
        self.replaced: dict[str, Expr] = {}

    def merge(self, axes: Sequence[Axis]) -> tuple[Axis, ...]:
        """Return the axes that are left; each has the name of its innermost part."""
        found: list[Axis] = []
        for axis in reversed(axes):
            if found and self._can_merge(axis, found[-1]):
                low = found.pop()
                self.replaced[axis.name] = 0
                extent = self._ranges.simplify(mul(axis.extent, low.extent))
                found.append(Axis(low.name, extent))
            else:
                found.append(axis)
        return tuple(reversed(found))

    def _can_merge(self, high: Axis, low: Axis) -> bool:
        for access in self._accesses:
            if high.name in access.mixed or low.name in access.mixed:
                if not self._is_function_of_merged(access.expr, high, low):
                    return False
                continue
            a, b = access.strides.get(high.name, 0), access.strides.get(low.name, 0)
            if not self._ranges.equal(a, mul(b, low.extent)):
                return False
        return True

    def _is_function_of_merged(self, expr: Expr, high: Axis, low: Axis) -> bool:
        """Say whether an expression uses two axes only as ``high * extent + low``."""
        extents = {**self._ranges.extents, low.name: mul(high.extent, low.extent)}
        del extents[high.name]
        ranges = IndexRanges(extents, symbol_intervals(self._symbols))
        value = Symbol(low.name)
        split: dict[str, Expr] = {
            **self.replaced,
            high.name: floordiv(value, low.extent),
            low.name: mod(value, low.extent),
        }
        joined: dict[str, Expr] = {**self.replaced, high.name: 0}
        return ranges.equal(
            Substitution(indices=split).index(expr),
            Substitution(indices=joined).index(expr),
        )


def _tiled(
    nest: Nest, accesses: Sequence[LinearAccess], sizes: TypicalSizes
) -> tuple[Nest, tuple[tuple[str, ...], ...]]:
    """Return a nest whose axes end in those that accesses are contiguous along, and blocks.

    Kernels with inner loops have one block dimension.
    """
    contiguous: dict[str, int] = {}
    for access in accesses:
        for name, stride in access.strides.items():
            if stride == 1:
                contiguous[name] = contiguous.get(name, 0) + access.bytes
    ranked = sorted(
        (axis for axis in nest.axes if axis.name in contiguous),
        key=lambda axis: contiguous[axis.name],
        reverse=True,
    )
    total = sum(contiguous.values())
    long = [
        axis
        for axis in ranked
        if sizes.value(axis.extent) >= _SHORTEST_TILE
        and contiguous[axis.name] >= _LEAST_SHARE * total
    ]
    tiles = long[:_MOST_BLOCKS] if not _inner_axes(nest) else long[:1]
    last = list(reversed(tiles))
    others = [axis for axis in nest.axes if axis not in last]
    if not last:
        return nest, (tuple(axis.name for axis in nest.axes),)
    arranged = (*others, *last)
    first = tuple(axis.name for axis in (*others, last[0]))
    return evolve(nest, axes=arranged), (first, *((axis.name,) for axis in last[1:]))


def _reduction_form(nest: Nest, accesses: Sequence[LinearAccess]) -> ReductionForm:
    """Return whether a row is short enough to be held at once.

    The limits are Inductor's: 1,024 elements along which memory is contiguous, else 64.
    Rows that several loops run over are held up to 4,096 elements, which saves reading them
    again; so are those of scans, which then need no carry, and those in which positions are
    sought, which then need no pairs.
    """
    inner = _inner_axes(nest)
    count: Expr = 1
    for axis in inner:
        count = mul(count, axis.extent)
    if not inner or not isinstance(count, int):
        return ReductionForm.LOOPED
    names = {axis.name for axis in inner}
    along = sum(a.bytes for a in accesses if _is_contiguous(a, names.__contains__))
    across = sum(
        a.bytes for a in accesses if _is_contiguous(a, lambda name: name not in names)
    )
    is_read_again = _loops(nest) > 1 or _scans(nest) or _seeks(nest)
    most = _LONGEST_READ_AGAIN if is_read_again else _LONGEST_PERSISTENT
    if along < across:
        most = _LONGEST_OUTER_PERSISTENT
    return ReductionForm.PERSISTENT if count <= most else ReductionForm.LOOPED


def _is_contiguous(access: LinearAccess, along: Callable[[str], bool]) -> bool:
    return any(stride == 1 and along(name) for name, stride in access.strides.items())
