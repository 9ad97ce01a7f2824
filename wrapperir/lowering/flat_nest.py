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

from collections.abc import Mapping

from attrs import evolve, frozen

from wrapperir.ir import Expr, Provenance, Symbol
from wrapperir.lowering.indexing import IndexRanges
from wrapperir.lowering.kernel import SizeSymbols, symbol_intervals
from wrapperir.lowering.loops import (
    Axis,
    Check,
    InnerLoop,
    Instruction,
    Load,
    Nest,
    Reduce,
    Scan,
    Step,
    Store,
    StoreMode,
)
from wrapperir.lowering.scalar_op import ReduceOp
from wrapperir.lowering.substitution import (
    Substitution,
    instructions,
    names_used,
    results,
)

_ORDERED = frozenset({ReduceOp.ARGMIN, ReduceOp.ARGMAX})


@frozen(kw_only=True)
class FlatNest:
    """Instructions over parallel and inner axes.

    ``deep`` has an entry for each instruction: whether it runs once for each point of the
    inner axes.  It counts for stores and checks; where a value is computed follows from
    what it depends on.  Names of values and axes are unique in the whole graph.
    """

    parallel: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    code: tuple[Instruction, ...]
    deep: tuple[bool, ...]
    provenance: tuple[Provenance, ...] = ()

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

    def ranges(self, symbols: SizeSymbols) -> IndexRanges:
        """Return the ranges of the axes."""
        extents = {axis.name: axis.extent for axis in self.axes}
        return IndexRanges(extents, symbol_intervals(symbols))


def flatten(nest: Nest, prefix: str, symbols: SizeSymbols) -> FlatNest | None:
    """Return a nest as a list of instructions, its indices simplified.

    Names of values and axes begin with ``prefix``.  Axes of extent 1 are dropped, but for
    the last inner axis.  ``None`` if inner loops run over different axes.
    """
    loops = [step for step in nest.body if isinstance(step, InnerLoop)]
    inner = loops[0].axes if loops else ()
    extents = [axis.extent for axis in inner]
    if any([axis.extent for axis in loop.axes] != extents for loop in loops):
        return None
    indices: dict[str, Expr] = {}
    sizes = IndexRanges({}, symbol_intervals(symbols))
    parallel = _kept(nest.axes, prefix, indices, 0, sizes)
    kept = _kept(inner, prefix, indices, 1, sizes)
    for loop in loops:
        for axis, first in zip(loop.axes, inner, strict=True):
            indices[axis.name] = indices[first.name]
    code = list(instructions(nest.body))
    values = {name: prefix + name for each in code for name in results(each)}
    ranges = IndexRanges(
        {axis.name: axis.extent for axis in (*parallel, *kept)}, symbol_intervals(symbols)
    )
    rename = Substitution(values, indices, simplify=ranges.simplify)
    deep: list[bool] = []
    for step in nest.body:
        deep += [True] * len(step.body) if isinstance(step, InnerLoop) else [False]
    return FlatNest(
        parallel=parallel,
        inner=kept,
        code=tuple(map(rename.instruction, code)),
        deep=tuple(deep),
        provenance=nest.provenance,
    )


def _kept(
    axes: tuple[Axis, ...],
    prefix: str,
    indices: dict[str, Expr],
    least: int,
    sizes: IndexRanges,
) -> tuple[Axis, ...]:
    """Return the axes that stay, renamed, their extents simplified.

    Sets what replaces each axis in ``indices``.
    """
    long = [axis for axis in axes if axis.extent != 1] or list(axes[:least])
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


class NotNestedError(ValueError):
    """Instructions have no order of loops: one outside uses a value of one inside."""


def assemble(flat: FlatNest, name: str) -> Nest:
    """Return instructions as a nest.

    A reduction runs in the first inner loop in which its operands can be computed; so do
    stores and checks.  What an inner loop needs of another's values is computed again.
    Stores to memory that the nest also reads run last, so that no read comes after.

    Raises:
        NotNestedError: a store or check outside the inner axes depends on them.
    """
    plan = _Plan(flat)
    body: list[Step] = []
    for position in range(plan.loops + 1):
        body += plan.outer_instructions(position)
        if position < plan.loops:
            body.append(InnerLoop(axes=flat.inner, body=plan.inner_instructions(position)))
    return Nest(name=name, axes=flat.parallel, body=tuple(body), provenance=flat.provenance)


class _Plan:
    """The position of each instruction: position ``k`` comes before inner loop ``k``."""

    def __init__(self, flat: FlatNest) -> None:
        self._code = flat.code
        self._inner_axes = {axis.name for axis in flat.inner}
        self._definition: dict[str, int] = {}
        self._inner: list[bool] = []
        self._stage: list[int] = []
        for place, (each, deep) in enumerate(zip(flat.code, flat.deep, strict=True)):
            self._place(place, each, deep)
        roots = [
            place
            for place, each in enumerate(flat.code)
            if isinstance(each, Store | Check | Reduce)
        ]
        self.loops = max(
            (self._stage[place] + 1 for place in roots if self._inner[place]), default=0
        )
        self._delay_stores(roots)
        self._needed: list[list[int]] = []
        self._outer: set[int] = {place for place in roots if not self._inner[place]}
        for loop in range(self.loops):
            wanted = [p for p in roots if self._inner[p] and self._stage[p] == loop]
            self._needed.append(self._demand(wanted))
        for place in list(self._outer):
            self._demand_outer(place)
        self._emitted: set[str] = set()

    def _place(self, place: int, each: Instruction, deep: bool) -> None:
        inner = False
        stage = 0
        for name in names_used(each):
            if name in self._inner_axes:
                inner = True
            defined = self._definition.get(name)
            if defined is None:
                continue
            if isinstance(self._code[defined], Reduce):
                stage = max(stage, self._stage[defined] + 1)
            else:
                inner = inner or self._inner[defined]
                stage = max(stage, self._stage[defined])
        if isinstance(each, Store | Check):
            if inner and not deep:
                raise NotNestedError(
                    f"an instruction outside the inner axes uses them: {each}"
                )
            inner = deep
        elif isinstance(each, Reduce | Scan):
            inner = True
        self._inner.append(inner)
        self._stage.append(stage)
        for name in results(each):
            self._definition[name] = place

    def _delay_stores(self, roots: list[int]) -> None:
        """Put stores last where the nest also reads the buffer or stores to it twice."""
        seen: set[str] = set()
        twice: set[str] = set()
        for each in self._code:
            if isinstance(each, Load | Store):
                if isinstance(each, Store) and each.buffer in seen:
                    twice.add(each.buffer)
                seen.add(each.buffer)
        for place in roots:
            each = self._code[place]
            if isinstance(each, Store) and each.buffer in twice:
                self._stage[place] = self.loops - 1 if self._inner[place] else self.loops

    def _uses(self, place: int) -> list[int]:
        found = (self._definition.get(name) for name in names_used(self._code[place]))
        return [other for other in found if other is not None]

    def _demand(self, roots: list[int]) -> list[int]:
        """Return what one inner loop runs, in order."""
        needed: set[int] = set()
        pending = list(roots)
        while pending:
            place = pending.pop()
            if place in needed:
                continue
            needed.add(place)
            for other in self._uses(place):
                if isinstance(self._code[other], Reduce):
                    continue
                if self._inner[other]:
                    pending.append(other)
                else:
                    self._outer.add(other)
        return sorted(needed)

    def _demand_outer(self, place: int) -> None:
        pending = [place]
        while pending:
            for other in self._uses(pending.pop()):
                if not isinstance(self._code[other], Reduce) and other not in self._outer:
                    self._outer.add(other)
                    pending.append(other)

    def outer_instructions(self, position: int) -> list[Instruction]:
        """Return the instructions before an inner loop, or after the last."""
        return [
            self._code[place]
            for place in sorted(self._outer)
            if self._stage[place] == position
        ]

    def inner_instructions(self, loop: int) -> tuple[Instruction, ...]:
        """Return an inner loop's instructions; values computed again get new names."""
        values: dict[str, str] = {}
        rename = Substitution(values)
        found: list[Instruction] = []
        for place in self._needed[loop]:
            each = self._code[place]
            for name in results(each):
                if name in self._emitted:
                    values[name] = f"{name}'{loop}"
                self._emitted.add(name)
            found.append(rename.instruction(each) if values else each)
        return tuple(found)


def is_atomic(instruction: Instruction) -> bool:
    """Say whether an instruction combines with memory."""
    return isinstance(instruction, Store) and instruction.mode is not StoreMode.OVERWRITE
