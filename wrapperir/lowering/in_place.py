"""Find buffers whose memory a kernel may overwrite with its results.

Each point of a nest reads its elements before it writes them, so a result can take the
memory of a buffer that nothing needs any more::

    nest i0 < 64:                        nest i0 < 64:
        v0 = load x[i0]                      v0 = load y[i0]
        v1 = exp v0                          v1 = exp v0
        store y[i0] = v1                     store y[i0] = v1      (y in the memory of x)

That holds where both have one layout, each element of the result is written at one point
only, and all loads of it there come before the first store.
"""

from collections.abc import Iterable, Iterator, Mapping, Set

from attrs import define, evolve, field

from wrapperir.ir import Expr, TensorType, mul, product, storage_extent
from wrapperir.lowering.indexing import IndexRanges
from wrapperir.lowering.item_graph import ItemGraph, Node
from wrapperir.lowering.kernel import SizeSymbols, symbol_intervals
from wrapperir.lowering.loops import (
    Axis,
    ExternCall,
    InnerLoop,
    Instruction,
    Load,
    Nest,
    Store,
    StoreMode,
)
from wrapperir.lowering.substitution import Substitution, all_axes

_StepPlace = tuple[int, int]


@define
class _BufferAccesses:
    """The accesses of a nest to a buffer, with their places and the axes around them."""

    loads: list[tuple[_StepPlace, Load]] = field(factory=list[tuple[_StepPlace, Load]])
    stores: list[tuple[_StepPlace, Store, tuple[Axis, ...]]] = field(
        factory=list[tuple[_StepPlace, Store, tuple[Axis, ...]]]
    )


class BufferLifetimes:
    """Says which buffers begin or end at a node of an order.

    ``owning_calls`` are the calls whose results are in memory of their own.
    """

    def __init__(
        self,
        items: ItemGraph,
        order: Iterable[Node],
        kept: Set[str],
        inputs: Set[str],
        owning_calls: Set[str],
    ) -> None:
        """Note the places of the nodes; ``kept`` outlive the graph."""
        self._items = items
        self._places = {node.number: place for place, node in enumerate(order)}
        self._kept = kept
        self._inputs = inputs
        self._owning = owning_calls

    def new(self, node: Node) -> set[str]:
        """Return the buffers that only this node writes."""
        made = node.writes - self._inputs
        return {name for name in made if self._items.writers[name] == {node.number}}

    def dying(self, node: Node) -> set[str]:
        """Return the buffers, made by other nodes, that nothing needs after this one."""
        last = self._places[node.number]
        return {
            name
            for name in node.reads - self._kept
            if self._is_owned(name)
            and all(self._places[n] <= last for n in self._items.readers.get(name, ()))
        }

    def _is_owned(self, name: str) -> bool:
        nodes = [self._items.nodes[n] for n in self._items.writers.get(name, ())]
        return bool(nodes) and all(
            not isinstance(node.item, ExternCall) or node.item.name in self._owning
            for node in nodes
        )


def overwritten(
    nest: Nest,
    new: Set[str],
    dying: Set[str],
    buffers: Mapping[str, TensorType],
    symbols: SizeSymbols,
) -> dict[str, str]:
    """Return for results on a CPU the buffer whose memory each takes.

    On a GPU a thread may write what another still has to read.
    Indices of the nest are linear.  ``new`` are buffers that only this nest writes, and as
    a whole; ``dying`` are those that nothing needs after it.
    """
    found: dict[str, str] = {}
    accesses = _accesses(nest)
    extents = {axis.name: axis.extent for axis in all_axes(nest.axes, nest.body)}
    ranges = IndexRanges(extents, symbol_intervals(symbols))
    for name in sorted(new & accesses.keys()):
        first = _first_store(accesses[name], buffers[name], ranges)
        if first is None:
            continue
        for source in sorted(dying & accesses.keys() - set(found.values())):
            if (
                not accesses[source].stores
                and _same_layout(buffers[name], buffers[source], ranges)
                and all(
                    load.index == first[1].index and place < first[0]
                    for place, load in accesses[source].loads
                )
            ):
                found[name] = source
                break
    return found


def renamed(nest: Nest, sources: Mapping[str, str]) -> Nest:
    """Return a nest that reads results in place of the buffers whose memory they take."""
    rename = Substitution(buffers={source: name for name, source in sources.items()})
    body = tuple(
        evolve(step, body=tuple(map(rename.instruction, step.body)))
        if isinstance(step, InnerLoop)
        else rename.instruction(step)
        for step in nest.body
    )
    return evolve(nest, body=body)


def _accesses(nest: Nest) -> dict[str, _BufferAccesses]:
    found: dict[str, _BufferAccesses] = {}
    for place, each, axes in _placed(nest):
        if isinstance(each, Load):
            found.setdefault(each.buffer, _BufferAccesses()).loads.append((place, each))
        elif isinstance(each, Store):
            found.setdefault(each.buffer, _BufferAccesses()).stores.append(
                (place, each, axes)
            )
    return found


def _placed(nest: Nest) -> Iterator[tuple[_StepPlace, Instruction, tuple[Axis, ...]]]:
    for number, step in enumerate(nest.body):
        if isinstance(step, InnerLoop):
            axes = (*nest.axes, *step.axes)
            for place, each in enumerate(step.body):
                yield (number, place), each, axes
        else:
            yield (number, 0), step, nest.axes


def _first_store(
    result: _BufferAccesses, type: TensorType, ranges: IndexRanges
) -> tuple[_StepPlace, Store] | None:
    """Return the first store, if each store writes each element of a buffer once.

    As the nest alone writes the buffer, that is so if there are as many points as elements.
    """
    if not result.stores:
        return None
    place, store, _ = result.stores[0]
    extent = storage_extent(type)
    for _, each, axes in result.stores:
        points: Expr = 1
        for axis in axes:
            points = mul(points, axis.extent)
        whole = each.mode is StoreMode.OVERWRITE and each.mask is None
        if not whole or each.index != store.index or not ranges.equal(points, extent):
            return None
    if any(load.index != store.index for _, load in result.loads):
        return None
    return place, store


def _same_layout(first: TensorType, second: TensorType, ranges: IndexRanges) -> bool:
    extent = storage_extent(first)
    return (
        first.dtype is second.dtype
        and first.device == second.device
        and first.device.kind == "cpu"
        and ranges.equal(extent, storage_extent(second))
        and ranges.equal(extent, product(second.size))
    )
