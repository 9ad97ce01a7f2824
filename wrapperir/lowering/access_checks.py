"""Check accesses of a nest: out of bounds, or two stores to one element, for certain."""

from collections.abc import Iterator, Mapping
from itertools import combinations
from math import gcd

from attrs import define

from wrapperir.diagnostics import Code, Diagnostic, LinePath
from wrapperir.ir import Expr, TensorType, mul, symbols_in
from wrapperir.lowering.indexing import IndexRanges, is_whole
from wrapperir.lowering.loops import (
    Axis,
    InnerLoop,
    Instruction,
    Load,
    Nest,
    Store,
    StoreMode,
)
from wrapperir.lowering.substitution import all_axes


@define
class AccessCheck:
    """Checks of the accesses of a nest whose names and dtypes are right.

    Extents are taken to be one at least.  What no range decides is not reported.
    """

    ranges: IndexRanges
    buffers: Mapping[str, TensorType]

    def nest(self, nest: Nest) -> Iterator[Diagnostic]:
        """Yield what is wrong with the accesses of a nest."""
        if any(axis.extent == 0 for axis in all_axes(nest.axes, nest.body)):
            return
        for number, step in enumerate(nest.body):
            if not isinstance(step, InnerLoop):
                yield from self._access(step, nest.axes, ("body", number))
                continue
            axes = (*nest.axes, *step.axes)
            for place, each in enumerate(step.body):
                yield from self._access(each, axes, ("body", number, "body", place))

    def _access(
        self, step: Instruction, axes: tuple[Axis, ...], path: LinePath
    ) -> Iterator[Diagnostic]:
        if not isinstance(step, Load | Store) or step.mask is not None:
            return
        if not all(map(is_whole, step.index)):
            return
        sizes = self.buffers[step.buffer].size
        for dim, (index, size) in enumerate(zip(step.index, sizes, strict=True)):
            if self._leaves(index, size):
                message = f"the index of dimension {dim} leaves {step.buffer}"
                yield Diagnostic(Code.LOOP_BOUNDS, message, path=path)
        if isinstance(step, Store) and step.mode is StoreMode.OVERWRITE:
            reason = self._shared_place(step, axes)
            if reason is not None:
                message = f"points store to one element of {step.buffer}: {reason}"
                yield Diagnostic(Code.LOOP_STORED_TWICE, message, path=path)

    def _leaves(self, index: Expr, size: Expr) -> bool:
        """Say whether an index is certainly out of bounds at some point."""
        if not is_whole(size):
            return False
        terms = self.ranges.linear_terms(index, self.ranges.extents)
        low = high = terms.rest
        for axis, coefficient in terms.coefficients.items():
            last = mul(coefficient, self.ranges.extents[axis] - 1)
            if self.ranges.is_nonnegative(coefficient):
                high = high + last
            elif self.ranges.is_nonnegative(mul(coefficient, -1)):
                low = low + last
            else:
                return False
        nonnegative = self.ranges.is_nonnegative
        return nonnegative(high - size) or nonnegative(-1 - low)

    def _shared_place(self, store: Store, axes: tuple[Axis, ...]) -> str | None:
        """Return why two points certainly store to one element, or ``None``."""
        names = {name for part in store.index for name in symbols_in(part)}
        known = {axis.name for axis in axes}
        if not names <= known | {n for axis in axes for n in symbols_in(axis.extent)}:
            return None  # values or other sizes say where it stores
        long = [axis for axis in axes if self.ranges.is_nonnegative(axis.extent - 2)]
        for axis in long:
            if axis.name not in names:
                return f"the index does not use {axis.name}"
        if len(store.index) != 1:
            return None
        terms = self.ranges.linear_terms(store.index[0], known)
        for one, other in combinations(long, 2):
            if self._meet(one, other, terms.coefficients):
                return f"{one.name} and {other.name} reach the same elements"
        return None

    def _meet(self, one: Axis, other: Axis, strides: Mapping[str, Expr]) -> bool:
        """Say whether steps along two axes reach the same element."""
        a, b = strides.get(one.name), strides.get(other.name)
        m, n = one.extent, other.extent
        if not (isinstance(a, int) and isinstance(b, int)):
            return False
        if not (isinstance(m, int) and isinstance(n, int)) or a == 0 or b == 0:
            return False
        common = gcd(a, b)
        return abs(b) // common < m and abs(a) // common < n
