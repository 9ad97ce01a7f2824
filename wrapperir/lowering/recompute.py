"""Decide which producers are computed again by their readers instead of being stored."""

from collections.abc import Mapping, Set

from attrs import define, evolve, field

from wrapperir.ir import TensorType, symbols_in
from wrapperir.lowering.costs import Sizes, device_costs, operation_cost
from wrapperir.lowering.explain import Decision, DecisionKind
from wrapperir.lowering.flat_nest import FlatNest
from wrapperir.lowering.inline import Producer, inline_producer, load_count, producer_of
from wrapperir.lowering.item_graph import ItemGraph, Node, accessed_buffers
from wrapperir.lowering.kernel import SizeSymbols
from wrapperir.lowering.loops import Apply, Load, Store
from wrapperir.lowering.scalar_op import ScalarOp

_MOST_LOADS = 40
_MOST_CONSTANT_INSTRUCTIONS = 32


@define
class Recomputation:
    """Inlines producers into their readers; ``kept`` are buffers that outlive the graph."""

    graph: ItemGraph
    buffers: Mapping[str, TensorType]
    kept: Set[str]
    symbols: SizeSymbols
    names: dict[int, tuple[str, ...]]
    decisions: list[Decision] = field(factory=list[Decision])
    _sizes: Sizes = field(init=False)
    _copies: int = 0

    def __attrs_post_init__(self) -> None:
        """Take typical sizes for symbolic ones."""
        self._sizes = Sizes(self.symbols)

    def run(self, *, only_moves: bool) -> int:
        """Inline where it pays; return how many buffers are no longer stored or read.

        With ``only_moves`` only constants and plain moves of data are inlined, which
        costs nothing and lets more be fused.
        """
        count = 0
        for node in sorted(self.graph.nodes.values(), key=lambda node: node.label):
            if node.flat is None or node.flat.inner:
                continue
            for buffer in sorted(node.writes):
                if node.number in self.graph.nodes:
                    count += self._try(node, buffer, only_moves)
        return count

    def _try(self, node: Node, buffer: str, only_moves: bool) -> bool:
        flat = node.flat
        assert flat is not None
        readers = [
            self.graph.nodes[number]
            for number in sorted(self.graph.readers.get(buffer, ()))
            if number != node.number
        ]
        nests = [reader for reader in readers if reader.flat is not None]
        if not nests or self.graph.writers[buffer] != {node.number}:
            return False
        loads = load_count(flat)
        stays = buffer in self.kept or len(nests) < len(readers)
        if loads == 0:
            if len(flat.code) > _MOST_CONSTANT_INSTRUCTIONS:
                return False
        elif stays or self._is_overwritten(node):
            return False
        if loads and only_moves and not (loads == 1 and _is_move(flat)):
            return False
        if not only_moves and not self._pays(node, buffer, nests):
            return False
        producer = producer_of(flat, buffer, self.buffers[buffer], self.symbols)
        if producer is None:
            return False
        done = [self._inline(producer, node, reader) for reader in nests]
        if not stays and all(done):
            self._forget(node, buffer)
        return any(done)

    def _is_overwritten(self, node: Node) -> bool:
        """Say whether something that the node reads changes after it."""
        return any(
            self.graph.nodes[writer].label > node.label
            for name in node.reads
            for writer in self.graph.writers.get(name, ())
            if writer != node.number
        )

    def _pays(self, node: Node, buffer: str, readers: list[Node]) -> bool:
        """Say whether computing again costs less than the traffic that it saves."""
        flat = node.flat
        assert flat is not None
        costs = device_costs(self.buffers[buffer].device.kind)
        size = self._sizes.bytes(self.buffers[buffer])
        alone = len(node.writes) == 1
        saved = size * (1 + len(readers)) + (costs.launch if alone else 0)
        sources = {each.buffer for each in flat.code if isinstance(each, Load)}
        if alone:
            saved += sum(self._sizes.bytes(self.buffers[name]) for name in sources)
        work = operation_cost(flat.code, costs)
        extra = -work * self._sizes.points(flat.parallel) if alone else 0.0
        for reader in readers:
            assert reader.flat is not None
            if load_count(reader.flat) + len(sources) > _MOST_LOADS:
                return False
            points = _reading_points(reader.flat, buffer, self._sizes)
            extra += work * points
            for name in sources - reader.reads:
                type = self.buffers[name]
                extra += min(self._sizes.bytes(type), points * type.dtype.itemsize)
        return saved > extra

    def _inline(self, producer: Producer, node: Node, reader: Node) -> bool:
        assert reader.flat is not None
        self._copies += 1
        flat = inline_producer(producer, reader.flat, self.symbols, f"c{self._copies}.")
        buffer = producer.store.buffer
        self.decisions.append(
            Decision(
                kind=DecisionKind.KEEP if isinstance(flat, str) else DecisionKind.INLINE,
                first=self.names[node.number],
                second=self.names[reader.number],
                bytes=self._sizes.bytes(self.buffers[buffer]),
                reason=flat if isinstance(flat, str) else "",
            )
        )
        if isinstance(flat, str):
            return False
        self.names[reader.number] = (
            *self.names[node.number],
            *self.names[reader.number],
        )
        self.graph.replace(reader, flat, *accessed_buffers(flat), node)
        return True

    def _forget(self, node: Node, buffer: str) -> None:
        """Drop a buffer that nothing reads, and its node if it writes nothing else."""
        if node.writes == {buffer}:
            self.graph.remove(node)
            return
        assert node.flat is not None
        node.flat = without_stores(node.flat, buffer)
        node.writes.discard(buffer)
        self.graph.writers[buffer].discard(node.number)


def without_stores(flat: FlatNest, buffer: str) -> FlatNest:
    """Return instructions without the stores to a buffer."""
    kept = [
        (each, deep)
        for each, deep in zip(flat.code, flat.deep, strict=True)
        if not (isinstance(each, Store) and each.buffer == buffer)
    ]
    return evolve(
        flat, code=tuple(each for each, _ in kept), deep=tuple(deep for _, deep in kept)
    )


def _is_move(flat: FlatNest) -> bool:
    return all(each.op is ScalarOp.CAST for each in flat.code if isinstance(each, Apply))


def _reading_points(flat: FlatNest, buffer: str, sizes: Sizes) -> int:
    """Return how often the elements of a buffer are loaded."""
    total = 0
    inner = {axis.name for axis in flat.inner}
    outside = sizes.points(flat.parallel)
    for index in {e.index for e in flat.code if isinstance(e, Load) and e.buffer == buffer}:
        uses_inner = not inner.isdisjoint(
            name for part in index for name in symbols_in(part)
        )
        total += outside * (sizes.points(flat.inner) if uses_inner else 1)
    return total
