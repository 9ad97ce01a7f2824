"""Nests as lists of instructions over one space, the form that scheduling works on.

A nest whose inner loops run over the same axes is a list of instructions over its parallel
axes and those inner axes.  Which loop an instruction runs in follows from what it uses::

    nest i0 < 64:                        parallel i0 < 64, inner r0 < 256
        for r0 < 256:
            v0 = load x[i0, r0]              v0 = load x[i0, r0]
            v1 = reduce sum v0               v1 = reduce sum v0
        for r0 < 256:
            v2 = load x[i0, r0]              v2 = load x[i0, r0]
            v3 = div v2 v1                   v3 = div v2 v1
            store y[i0, r0] = v3             store y[i0, r0] = v3      (deep)

Two such lists over one space are fused by putting one after the other.
"""

from collections.abc import Iterable, Mapping

from attrs import evolve, field, frozen

from wrapperir.ir import Expr, NodeOrigin, Symbol
from wrapperir.lowering.indexing import IndexRanges
from wrapperir.lowering.kernel import SizeSymbols, symbol_intervals
from wrapperir.lowering.loops import (
    Axis,
    InnerLoop,
    Instruction,
    Nest,
    Reduce,
    Scan,
    Store,
    StoreMode,
)
from wrapperir.lowering.scalar_op import ReduceOp
from wrapperir.lowering.substitution import (
    Substitution,
    instructions,
    results,
)

_ORDERED = frozenset({ReduceOp.ARGMIN, ReduceOp.ARGMAX})


@frozen(kw_only=True)
class FlatNest:
    """Instructions over parallel and inner axes.

    ``deep`` has an entry for each instruction: whether it runs once for each point of the
    inner axes.  It counts for stores and checks; where a value is computed follows from
    what it depends on.  Names of values and axes are unique in the whole graph.
    ``stored`` has the origins of what is stored to each buffer.
    """

    parallel: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    code: tuple[Instruction, ...]
    deep: tuple[bool, ...]
    origins: tuple[NodeOrigin, ...] = ()
    stored: Mapping[str, tuple[NodeOrigin, ...]] = field(
        factory=dict[str, tuple[NodeOrigin, ...]], eq=False
    )

    @property
    def axes(self) -> tuple[Axis, ...]:
        """All axes, parallel ones first."""
        return self.parallel + self.inner

    @property
    def keeps_order(self) -> bool:
        """Whether the order of the inner axes matters: scans, positions of extremes."""
        return any(
            isinstance(each, Scan) or (isinstance(each, Reduce) and each.op in _ORDERED)
            for each in self.code
        )

    @property
    def scans(self) -> bool:
        """Whether values are scanned along the last inner axis."""
        return any(isinstance(each, Scan) for each in self.code)

    def at(self, places: Iterable[int]) -> "FlatNest":
        """Return the instructions at some places alone."""
        kept = list(places)
        return evolve(
            self,
            code=tuple(self.code[place] for place in kept),
            deep=tuple(self.deep[place] for place in kept),
        )

    def ranges(self, symbols: SizeSymbols) -> IndexRanges:
        """Return the ranges of the axes."""
        return IndexRanges.of_axes(self.axes, symbol_intervals(symbols))


def flatten(nest: Nest, prefix: str, symbols: SizeSymbols) -> FlatNest | None:
    """Return a nest as a list of instructions, its indices simplified.

    Names of values and axes begin with ``prefix``.  Axes of extent 1 are dropped, but for
    the last inner axis if values are scanned along it or there is no other.  ``None`` if
    inner loops run over different axes.
    """
    loops = [step for step in nest.body if isinstance(step, InnerLoop)]
    inner = loops[0].axes if loops else ()
    extents = [axis.extent for axis in inner]
    if any([axis.extent for axis in loop.axes] != extents for loop in loops):
        return None
    indices: dict[str, Expr] = {}
    sizes = IndexRanges({}, symbol_intervals(symbols))
    code = list(instructions(nest.body))
    long = _long(inner)
    if not long or any(isinstance(each, Scan) for each in code):
        long = (*_long(inner[:-1]), *inner[-1:])
    parallel = _kept(nest.axes, _long(nest.axes), prefix, indices, sizes)
    kept = _kept(inner, long, prefix, indices, sizes)
    for loop in loops:
        for axis, first in zip(loop.axes, inner, strict=True):
            indices[axis.name] = indices[first.name]
    values = {name: prefix + name for each in code for name in results(each)}
    ranges = IndexRanges.of_axes((*parallel, *kept), symbol_intervals(symbols))
    rename = Substitution(values, indices, simplify=ranges.simplify)
    deep: list[bool] = []
    for step in nest.body:
        deep += [True] * len(step.body) if isinstance(step, InnerLoop) else [False]
    return FlatNest(
        parallel=parallel,
        inner=kept,
        code=tuple(map(rename.instruction, code)),
        deep=tuple(deep),
        origins=nest.origins,
        stored={
            each.buffer: nest.stored.get(each.buffer, nest.origins)
            for each in code
            if isinstance(each, Store)
        },
    )


def _long(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    return tuple(axis for axis in axes if axis.extent != 1)


def _kept(
    axes: tuple[Axis, ...],
    long: tuple[Axis, ...],
    prefix: str,
    indices: dict[str, Expr],
    sizes: IndexRanges,
) -> tuple[Axis, ...]:
    """Return the axes that stay, renamed, their extents simplified.

    Sets what replaces each axis in ``indices``.
    """
    found: list[Axis] = []
    for axis in axes:
        if axis in long:
            found.append(Axis(prefix + axis.name, sizes.simplify(axis.extent)))
            indices[axis.name] = Symbol(prefix + axis.name)
        else:
            indices[axis.name] = 0
    return tuple(found)


def rewrite_axes(
    flat: FlatNest,
    parallel: tuple[Axis, ...],
    inner: tuple[Axis, ...],
    indices: Mapping[str, Expr],
    ranges: IndexRanges,
) -> FlatNest:
    """Return instructions over other axes; ``indices`` replaces the old ones."""
    code = flat.code
    if indices:
        rename = Substitution(indices=indices, simplify=ranges.simplify)
        code = tuple(map(rename.instruction, code))
    return evolve(flat, parallel=parallel, inner=inner, code=code)


def is_atomic(instruction: Instruction) -> bool:
    """Say whether an instruction combines with memory."""
    return isinstance(instruction, Store) and instruction.mode is not StoreMode.OVERWRITE
