"""Say where one kernel is slower than two, though it saves memory traffic.

A kernel runs in parallel over its parallel axes only, and reads a row again in each inner
loop: that is free only while the row stays in a cache.
"""

from collections.abc import Mapping, Set

from attrs import frozen

from wrapperir.ir import TensorType, symbols_in
from wrapperir.lowering.costs import TypicalSizes, device_costs
from wrapperir.lowering.flat_nest import FlatNest
from wrapperir.lowering.item_graph import ItemGraph, Node
from wrapperir.lowering.loops import Load, Store
from wrapperir.lowering.matrix_product import Contraction, suiting_product

_LINE = 64
"""Bytes of memory that are fetched together."""


@frozen
class Profit:
    """Judges fusions by what runs in parallel and what stays in caches."""

    graph: ItemGraph
    buffers: Mapping[str, TensorType]
    kept: Set[str]
    sizes: TypicalSizes

    def refusal(self, first: Node, second: Node) -> str | None:
        """Return why two nests are better apart, or ``None``."""
        one, two = first.flat, second.flat
        assert one is not None
        assert two is not None
        if not one.inner and not two.inner:
            return None
        reduction = one if one.inner else two
        other = two if reduction is one else one
        parallel = self.sizes.points(reduction.parallel)
        if any(self._multiplies(flat) for flat in (one, two)):
            is_element = not other.inner and self.sizes.points(other.axes) <= parallel
            return None if is_element else "a product of matrices has a loop of its own"
        if self.sizes.points(other.axes) <= parallel:
            return None
        costs = device_costs(device_kind(reduction, self.buffers))
        row = self.sizes.points(reduction.inner)
        across = is_across(reduction, self.buffers, self.sizes)
        if one.inner and self._needs_reduced(one, two):
            if parallel < costs.parallel_points and row * 4 > costs.short_row:
                return "the reduction has too few parallel points"
            if row * (_LINE if across else 4) > costs.cached_row:
                return "a row of the reduction does not fit a cache"
        if not one.inner and across and costs.walks_rows and self._stays(first, second):
            return "the stores would walk memory across rows"
        return None

    def _multiplies(self, flat: FlatNest) -> bool:
        """Say whether a nest multiplies matrices."""
        return product_of(flat, self.buffers, self.sizes) is not None

    def _needs_reduced(self, one: FlatNest, two: FlatNest) -> bool:
        """Say whether the second reads what the first stores outside its inner loop."""
        stored = {
            each.buffer
            for each, deep in zip(one.code, one.deep, strict=True)
            if isinstance(each, Store) and not deep
        }
        return any(isinstance(each, Load) and each.buffer in stored for each in two.code)

    def _stays(self, first: Node, second: Node) -> bool:
        """Say whether what the first stores is needed after the second, too."""
        known = {first.number, second.number}
        return any(
            name in self.kept or not self.graph.readers.get(name, set()) <= known
            for name in first.writes
        )


def product_of(
    flat: FlatNest, buffers: Mapping[str, TensorType], sizes: TypicalSizes
) -> Contraction | None:
    """Return the product of matrices that a nest computes, if it does."""
    return suiting_product(flat.code, flat.parallel, flat.inner, buffers, sizes)


def device_kind(flat: FlatNest, buffers: Mapping[str, TensorType]) -> str:
    """Return the kind of device that a nest's buffers are on."""
    for each in flat.code:
        if isinstance(each, Load | Store):
            return buffers[each.buffer].device.kind
    return "cpu"


def is_across(
    flat: FlatNest, buffers: Mapping[str, TensorType], sizes: TypicalSizes
) -> bool:
    """Say whether inner loops read most memory across its contiguous dimension."""
    inner = {axis.name for axis in flat.inner}
    votes = 0
    for each in flat.code:
        if not isinstance(each, Load):
            continue
        type = buffers[each.buffer]
        names = {name for part in each.index for name in symbols_in(part)}
        if inner.isdisjoint(names):
            continue
        for part, stride in zip(each.index, type.stride, strict=True):
            used = {*symbols_in(part)}
            if stride == 1 and used:
                votes += sizes.bytes(type) * (1 if inner.isdisjoint(used) else -1)
    return votes > 0
