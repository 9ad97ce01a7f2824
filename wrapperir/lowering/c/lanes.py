"""The choice of the axis whose points a C++ kernel computes side by side, as lanes.

Lanes become the elements of vector registers.  They are the points of a parallel axis, or
of the last axis of each inner loop, whichever makes more accesses contiguous::

    out[i0] = sum of x[i0, r0] over r0      lanes of r0, added up after the loop
    out[i0] = sum of x[r0, i0] over r0      lanes of i0, with a sum in each
"""

import math
from collections.abc import Iterable, Mapping

from attrs import field, frozen

from wrapperir.ir import Expr, TensorType, symbols_in
from wrapperir.lowering.indexing import IndexRanges, distance
from wrapperir.lowering.loops import (
    Apply,
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
from wrapperir.lowering.substitution import all_axes, instructions, names_used, results

_FEWEST = 8
"""Points from which lanes of an axis pay."""
_ENOUGH_WORK = 4
"""Operators in a body from which lanes pay although no access is contiguous."""
_SHORT_STEP = 4
"""The largest stride along lanes of which a register holds several elements."""
_WINDOW = 64
"""Points of inner loops that are too few for lanes, and few enough for memory in caches."""


@frozen
class Lanes:
    """The chosen lanes: of a parallel axis, or of the inner loops at some places.

    ``loops`` are positions in the nest's body.  ``transposed`` has loads that are
    contiguous along another parallel axis, ``across``, by their results; with each, its
    stride along the lanes.  ``apart`` are the results of loads around which compilers do
    not vectorise a loop: their masks differ between lanes, and they are not contiguous.
    """

    axis: str | None = None
    loops: frozenset[int] = frozenset()
    across: str | None = None
    transposed: Mapping[str, Expr] = field(factory=dict[str, Expr])
    apart: frozenset[str] = frozenset()


def varying_values(steps: Iterable[Step], axis: str) -> frozenset[str]:
    """Return the values that differ between points of an axis.

    If the axis is not of an inner loop, all results of reductions and scans are taken to.
    """
    steps = list(steps)
    varying = {axis}
    of_loops = {a.name for s in steps if isinstance(s, InnerLoop) for a in s.axes}
    for step in steps:
        for inner in instructions((step,)):
            is_reduction = isinstance(inner, Reduce | Scan)
            differs = not varying.isdisjoint(names_used(inner))
            if (axis not in of_loops) if is_reduction else differs:
                varying.update(results(inner))
    return frozenset(varying - {axis})


class LaneAnalysis:
    """Strides of a nest's accesses along its axes."""

    def __init__(self, nest: Nest, types: Mapping[str, TensorType]) -> None:
        """Take a nest over buffers of these types."""
        self._nest = nest
        self._types = types
        self._ranges = IndexRanges.of_axes(all_axes(nest.axes, nest.body))

    def choose(self) -> Lanes:
        """Return the lanes with the most contiguous accesses."""
        loops = {
            place: step
            for place, step in enumerate(self._nest.body)
            if isinstance(step, InnerLoop)
        }
        inner = {place: self._inner_score(loop) for place, loop in loops.items()}
        total = sum(-1 if score is None else score for score in inner.values())
        steps: list[Step] = [*loops.values()] or [*self._nest.body]
        best: tuple[int, str] | None = None
        are_windows = bool(loops) and all(map(_is_window, loops.values()))
        least = 0 if are_windows else _ENOUGH_WORK
        for axis in reversed(self._nest.axes):
            body = instructions(self._nest.body)
            score = self._score(axis, instructions(steps), body, least)
            if score is not None and (best is None or score > best[0]):
                best = score, axis.name
        if best is not None and not loops:
            return self._with_tiles(best[1])
        if best is not None and (best[0] > total or are_windows):
            return Lanes(axis=best[1], apart=self._loads_apart(best[1]))
        return Lanes(loops=frozenset(p for p, score in inner.items() if score is not None))

    def _with_tiles(self, lane: str) -> Lanes:
        """Return lanes of an axis, with the loads that are contiguous along another."""
        varying = varying_values(self._nest.body, lane)
        found: dict[str, dict[str, Expr]] = {}
        values = {name for step in instructions(self._nest.body) for name in results(step)}
        for axis in self._nest.axes:
            is_short = isinstance(axis.extent, int) and axis.extent < _FEWEST
            if axis.name == lane or is_short:
                continue
            across = varying_values(self._nest.body, axis.name)
            for step in self._nest.body:
                if not isinstance(step, Load) or not values.isdisjoint(names_used(step)):
                    continue  # the tile is read before values are known
                stride = self.stride(step, lane, varying)
                if stride in (None, 0, 1) or self.stride(step, axis.name, across) != 1:
                    continue
                assert stride is not None
                found.setdefault(axis.name, {})[step.result] = stride
        if not found:
            return Lanes(axis=lane)
        axis_name = max(found, key=lambda name: len(found[name]))
        return Lanes(axis=lane, across=axis_name, transposed=found[axis_name])

    def _loads_apart(self, lane: str) -> frozenset[str]:
        varying = varying_values(self._nest.body, lane)
        return frozenset(
            step.result
            for step in instructions(self._nest.body)
            if isinstance(step, Load)
            and step.mask in varying
            and self.stride(step, lane, varying) != 1
        )

    def _inner_score(self, loop: InnerLoop) -> int | None:
        if any(isinstance(step, Scan | Check) for step in loop.body):
            return None
        return self._score(loop.axes[-1], loop.body, loop.body, _ENOUGH_WORK)

    def _score(
        self,
        axis: Axis,
        counted: Iterable[Instruction],
        body: Iterable[Instruction],
        least: int,
    ) -> int | None:
        """Return the contiguous accesses less the others; ``None`` if lanes do not pay.

        They do with ``least`` operators in the body, if no access is contiguous.
        """
        if isinstance(axis.extent, int) and axis.extent < _FEWEST:
            return None
        varying = varying_values(self._nest.body, axis.name)
        body, counted = list(body), list(counted)
        for step in body:
            if isinstance(step, Check) and not varying.isdisjoint(names_used(step)):
                return None
            # Lanes that combine with one element would do so at once.
            is_combining = isinstance(step, Store) and step.mode is not StoreMode.OVERWRITE
            if is_combining and self.stride(step, axis.name, varying) in (None, 0):
                return None
        score = 0
        for step in counted:
            if isinstance(step, Load | Store):
                stride = self.stride(step, axis.name, varying)
                if stride == 1:
                    score += 2 if isinstance(step, Load) else 3
                elif not (isinstance(stride, int) and 0 <= stride <= _SHORT_STEP):
                    score -= 2
        operators = sum(isinstance(step, Apply) for step in body)
        return score if score >= 0 or operators >= least else None

    def stride(
        self, access: Instruction, axis: str, varying: frozenset[str]
    ) -> Expr | None:
        """Return an access's stride along an axis; ``None`` where it has none."""
        assert isinstance(access, Load | Store)
        offset = distance(access.index, self._types[access.buffer].stride)
        terms = self._ranges.linear_terms(offset, (axis,))
        if not {axis, *varying}.isdisjoint(symbols_in(terms.rest)):
            return None
        return terms.coefficients.get(axis, 0)


def _is_window(loop: InnerLoop) -> bool:
    """Return whether a loop has few points, none of whose axes has enough for lanes."""
    extents = [axis.extent for axis in loop.axes]
    points = math.prod(extent for extent in extents if isinstance(extent, int))
    return points <= _WINDOW and all(
        isinstance(extent, int) and extent < _FEWEST for extent in extents
    )
