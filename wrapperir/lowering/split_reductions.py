"""Split a reduction of long rows into two kernels that keep a device busy.

Before::

    nest:                                    one parallel point
        for r0 < 1048576:
            v0 = load x[r0]
            v1 = reduce sum v0
        store y[] = v1

After::

    nest i0 < 128:                           nest:
        for r0 < 8192:                           for r0 < 128:
            v0 = load x[i0 * 8192 + r0]              v0 = load w[r0]
            v1 = reduce sum v0                       v1 = reduce sum v0
        store w[i0] = v1                         store y[] = v1

This is after fusion, so that what is computed of the row (its stores, too) runs in the
first kernel, and what is computed of the result in the second.
"""

from collections.abc import Mapping, Sequence

from attrs import evolve, frozen

from wrapperir.ir import (
    DType,
    Expr,
    Symbol,
    TensorType,
    ceildiv,
    contiguous_stride,
    mul,
)
from wrapperir.lowering.costs import (
    GPU_COSTS,
    TypicalSizes,
    device_costs,
    operation_cost,
)
from wrapperir.lowering.flat_nest import FlatNest, is_atomic, rewrite_axes
from wrapperir.lowering.kernel import SizeSymbols
from wrapperir.lowering.loops import Axis, Check, Instruction, Load, Reduce, Scan, Store
from wrapperir.lowering.masked_rows import masked_rows
from wrapperir.lowering.matrix_product import Contraction
from wrapperir.lowering.profit import device_kind, is_across, product_of
from wrapperir.lowering.scalar_op import ReduceOp
from wrapperir.lowering.substitution import names_used, needed, results
from wrapperir.lowering.unroll import MOST_POINTS_ON_GPU, unroll

_SPLIT = frozenset(
    {
        *(ReduceOp.SUM, ReduceOp.PROD, ReduceOp.MIN, ReduceOp.MAX),
        *(ReduceOp.ANY, ReduceOp.ALL, ReduceOp.WELFORD),
    }
)


@frozen(kw_only=True)
class SplitRule:
    """When reductions are split on a kind of device.

    ``points`` programs keep the device busy.  A kernel of fewer is split if that saves at
    least ``worth``, in bytes of memory traffic that take as long, into about ``target``
    points, of rows of at least ``least``.  Where memory is contiguous across rows,
    ``width`` neighbouring points run together, half as many if the kernel is whole, and
    fewer if half of the device would have nothing to do.
    """

    points: int
    worth: int
    target: int
    least: int
    width: int


_CPU_RULE = SplitRule(points=4, worth=3 << 19, target=16, least=1 << 13, width=16)
_GPU_RULE = SplitRule(
    points=264, worth=2 * GPU_COSTS.launch, target=528, least=1 << 10, width=64
)
"""For 132 multiprocessors: two blocks for each before, four after.

The second kernel takes as long as two that do nothing: it waits for the first.
"""

_PRODUCT_ROWS, _PRODUCT_COLUMNS, _PRODUCT_STEP = 64, 32, 64
"""The tile of a product of matrices that has few tiles, and its step along inner axes."""
_PRODUCT_PROGRAMS = 132
_LEAST_PART_STEPS = 6
_LEAST_SAVED_STEPS = 9
"""Steps, of 0.15 µs on an H100, that take longer than the second kernel."""


@frozen(kw_only=True)
class SplitReduction:
    """Two nests and the buffers between them."""

    first: FlatNest
    second: FlatNest
    workspaces: Mapping[str, TensorType]


def split_reduction(
    flat: FlatNest,
    name: str,
    buffers: Mapping[str, TensorType],
    symbols: SizeSymbols,
    rule: SplitRule | None = None,
) -> SplitReduction | None:
    """Return a nest as two, if it has few parallel points and long rows.

    Workspaces have names that begin with ``name``.  ``rule`` is that of the device, unless
    one is given.
    """
    if rule is None:
        rule = _CPU_RULE if device_kind(flat, buffers) == "cpu" else _GPU_RULE
    product = product_of(flat, buffers, TypicalSizes(symbols))
    if product is None:
        parts = _parts(flat, buffers, symbols, rule)
    else:
        parts = _split_product(product, flat.inner, TypicalSizes(symbols))
    if parts is None or not _can_split(flat):
        return None
    stage, second_code = _first_stage(flat), _second_stage(flat)
    ranges = flat.ranges(symbols)
    split_axes: list[Axis] = []
    rests: list[Axis] = []
    places: dict[str, Expr] = {}
    for outer, count in zip(flat.inner, parts, strict=False):
        part = Axis(f"{outer.name}p", count)
        rest = Axis(f"{outer.name}r", ranges.simplify(ceildiv(outer.extent, count)))
        place = mul(Symbol(part.name), rest.extent)
        split_axes.append(part)
        if rest.extent != 1:
            place = place + Symbol(rest.name)
            rests.append(rest)
        places[outer.name] = place
        if not ranges.equal(mul(rest.extent, count), outer.extent):
            masked = masked_rows(stage, outer.name, outer.extent)
            if masked is None:
                return None
            stage = masked
    inner = (*rests, *flat.inner[len(parts) :])
    if not inner:
        return None
    shape = evolve(flat, parallel=(*flat.parallel, *split_axes), inner=inner)
    rewritten = rewrite_axes(
        stage,
        shape.parallel,
        shape.inner,
        places,
        shape.ranges(symbols),
    )
    device = next(
        buffers[e.buffer].device for e in flat.code if isinstance(e, Load | Store)
    )
    kept = (*split_axes, *flat.parallel)
    size = tuple(axis.extent for axis in kept)
    point = tuple(Symbol(axis.name) for axis in kept)
    workspaces: dict[str, TensorType] = {}
    stores: list[Store] = []
    loads: list[Instruction] = []
    combined: list[Reduce] = []
    for reduce in [each for each in flat.code if isinstance(each, Reduce)]:
        partial: list[str] = []
        is_bool = reduce.op in (ReduceOp.ANY, ReduceOp.ALL)
        dtype = DType.BOOL if is_bool else reduce.dtype
        for result in reduce.results:
            workspace = f"{name}_partial{len(workspaces)}"
            workspaces[workspace] = TensorType(
                dtype=dtype, size=size, stride=contiguous_stride(size), device=device
            )
            origins = reduce.origins
            stores.append(
                Store(buffer=workspace, index=point, value=result, origins=origins)
            )
            partial.append(f"{result}~")
            loads.append(
                Load(
                    result=f"{result}~",
                    dtype=dtype,
                    buffer=workspace,
                    index=point,
                    origins=origins,
                )
            )
        combined.append(evolve(reduce, dtype=dtype, operands=tuple(partial)))
    first = evolve(
        rewritten,
        code=(*rewritten.code, *stores),
        deep=(*rewritten.deep, *(False,) * len(stores)),
    )
    partials = (*loads, *combined)
    second = FlatNest(
        parallel=flat.parallel,
        inner=tuple(split_axes),
        code=(*partials, *second_code),
        deep=(*(True,) * len(partials), *(False,) * len(second_code)),
        origins=flat.origins,
    )
    if product is not None:
        second = unroll(second, symbols, most=MOST_POINTS_ON_GPU, any_loop=True)
    return SplitReduction(first=first, second=second, workspaces=workspaces)


def _parts(
    flat: FlatNest,
    buffers: Mapping[str, TensorType],
    symbols: SizeSymbols,
    rule: SplitRule,
) -> tuple[int, ...] | None:
    """Return how many parts each of the outermost inner axes is split into."""
    if not flat.inner:
        return None
    sizes = TypicalSizes(symbols)
    points, row = max(sizes.points(flat.parallel), 1), sizes.points(flat.inner)
    programs, together, least = points, 1, rule.least
    if is_across(flat, buffers, sizes):
        programs = max(2 * points // rule.width, min(points, rule.points // 2))
        together, least = rule.width, least // rule.width
    if _traffic(flat, buffers, sizes) * (rule.points / programs - 1) < rule.worth:
        return None
    points = -(-points // together)
    wanted = max(min(-(-rule.target // points), row // least), 2)
    parts: list[int] = []
    for axis in flat.inner:
        if not isinstance(axis.extent, int):
            return (*parts, wanted)
        if wanted < axis.extent:
            return (*parts, _near_divisor(axis.extent, wanted) or wanted)
        parts.append(axis.extent)
        wanted = -(-wanted // axis.extent)
        if wanted == 1:
            break
    return tuple(parts)


def product_parts(tiles: int, depth: int, extent: int) -> int:
    """Return how many parts the sums of a product are split into; 1: they are not.

    The parts are of an inner axis of ``extent`` points, ``depth`` is the number of all
    terms of a sum.  ``tiles`` is how many :func:`product_tiles` the result has.  Each part
    has a program for each tile.
    """
    steps = depth // _PRODUCT_STEP
    wanted = min(_PRODUCT_PROGRAMS // max(tiles, 1), steps // _LEAST_PART_STEPS)
    count = (_near_divisor(extent, wanted) if wanted > 1 else None) or 1
    return count if steps - steps // count >= _LEAST_SAVED_STEPS else 1


def product_tiles(rows: int, columns: int) -> int:
    """Return how many tiles the result of a product has, if they are small."""
    return -(-rows // _PRODUCT_ROWS) * -(-columns // _PRODUCT_COLUMNS)


def _split_product(
    product: Contraction, inner: Sequence[Axis], sizes: TypicalSizes
) -> tuple[int, ...] | None:
    """Return how many parts the first inner axis of a product is split into."""
    rows, columns, batches = (
        sizes.points(axes) for axes in (product.rows, product.columns, product.batches)
    )
    extent = inner[0].extent
    if not isinstance(extent, int):
        return None
    tiles = batches * product_tiles(rows, columns)
    count = product_parts(tiles, sizes.points(inner), extent)
    return (count,) if count > 1 else None


def _traffic(
    flat: FlatNest, buffers: Mapping[str, TensorType], sizes: TypicalSizes
) -> float:
    """Return the bytes that a nest accesses, its operations in the same unit."""
    count = sizes.points(flat.axes)
    accessed = {each.buffer for each in flat.code if isinstance(each, Load | Store)}
    types = [buffers[name] for name in accessed]
    costs = device_costs(device_kind(flat, buffers))
    total = count * operation_cost(flat.code, costs)
    return total + sum(min(sizes.bytes(t), count * t.dtype.itemsize) for t in types)


def _near_divisor(extent: int, wanted: int) -> int | None:
    """Return the divisor nearest to a number, at least half and at most twice it."""
    numbers = range(max(wanted // 2, 2), min(wanted * 2, extent) + 1)
    found = [n for n in numbers if not extent % n]
    return min(found, key=lambda n: abs(n - wanted), default=None)


def _can_split(flat: FlatNest) -> bool:
    """Say whether all reductions may run in parts, none after another."""
    reduced: set[str] = set()
    loaded: set[str] = set()
    stored: set[str] = set()
    for each, deep in zip(flat.code, flat.deep, strict=True):
        if isinstance(each, Scan) or is_atomic(each):
            return False
        late = not reduced.isdisjoint(names_used(each))
        if isinstance(each, Reduce):
            if late or each.op not in _SPLIT:
                return False
            reduced.update(each.results)
            continue
        if late:
            if deep and isinstance(each, Store | Check):
                return False
            reduced.update(results(each))
        if isinstance(each, Load):
            loaded.add(each.buffer)
        if isinstance(each, Store):
            stored.add(each.buffer)
    # A value that needs a reduction may be used in the loop only by what is stored there.
    return bool(reduced) and loaded.isdisjoint(stored)


def _first_stage(flat: FlatNest) -> FlatNest:
    """Return reductions, stores and checks of the inner loop, and what these need."""
    roots = [
        place
        for place, (each, deep) in enumerate(zip(flat.code, flat.deep, strict=True))
        if isinstance(each, Reduce) or (deep and isinstance(each, Store | Check))
    ]
    return flat.at(needed(flat.code, roots))


def _second_stage(flat: FlatNest) -> list[Instruction]:
    """Return stores and checks outside of it, and what these need but reductions."""
    rest = flat.at(p for p, each in enumerate(flat.code) if not isinstance(each, Reduce))
    roots = [
        place
        for place, (each, deep) in enumerate(zip(rest.code, rest.deep, strict=True))
        if isinstance(each, Store | Check) and not deep
    ]
    return [rest.code[place] for place in needed(rest.code, roots)]
