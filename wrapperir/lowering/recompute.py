"""Decide which producers are computed again by their readers instead of being stored."""

from collections.abc import Iterator, Mapping, Set

from attrs import define, field

from wrapperir.ir import TensorType, symbols_in
from wrapperir.lowering.costs import TypicalSizes, device_costs, operation_cost
from wrapperir.lowering.explain import DecisionKind, FusionDecision
from wrapperir.lowering.flat_nest import FlatNest
from wrapperir.lowering.inline import Producer, inline_producer, load_count, producer_of
from wrapperir.lowering.item_graph import ItemGraph, Node, accessed_buffers
from wrapperir.lowering.kernel import SizeSymbols
from wrapperir.lowering.loops import Apply, Check, Load, Store
from wrapperir.lowering.matrix_product import Contraction
from wrapperir.lowering.profit import product_of
from wrapperir.lowering.scalar_op import ScalarOp

_MOST_LOADS = 40
_MOST_CONSTANT_INSTRUCTIONS = 32
_SPARSE = 8
_MOST_HELD = 2


@define
class Recomputation:
    """Inlines producers into their readers; ``kept`` are buffers that outlive the graph.

    ``lasting`` are those that are in memory until the end, whatever reads them.
    """

    graph: ItemGraph
    buffers: Mapping[str, TensorType]
    kept: Set[str]
    symbols: SizeSymbols
    names: dict[int, tuple[str, ...]]
    lasting: Set[str] = frozenset()
    decisions: list[FusionDecision] = field(factory=list[FusionDecision])
    _sizes: TypicalSizes = field(init=False)
    _copies: int = 0

    def __attrs_post_init__(self) -> None:
        """Take typical sizes for symbolic ones."""
        self._sizes = TypicalSizes(self.symbols)

    def inline_moves(self) -> int:
        """Inline what costs nothing, and lets more be fused; return how many buffers.

        That is constants, moves of data, and values of which a reader needs few.
        """
        count = 0
        for node, buffer in self._stored():
            count += self._inline_few(node, buffer)
        for node, buffer in reversed(list(self._stored())):
            count += self._inline_sparse(node, buffer)
        return count

    def inline_cheap(self) -> int:
        """Inline where it saves more traffic than it costs; return how many buffers."""
        return sum(self._inline_cheap(node, buffer) for node, buffer in self._stored())

    def _stored(self) -> Iterator[tuple[Node, str]]:
        for node in sorted(self.graph.nodes.values(), key=lambda node: node.label):
            for buffer in sorted(node.writes):
                if node.number in self.graph.nodes and node.flat is not None:
                    yield node, buffer

    def _inline_few(self, node: Node, buffer: str) -> bool:
        """Inline a constant, or a move of data that nothing else needs."""
        assert node.flat is not None
        if node.flat.inner:
            return False
        loads = load_count(node.flat.code)
        nests, stays = self._readers(node, buffer)
        if loads > 1 or not nests:
            return False
        if loads and (stays or not _is_move(node.flat)):
            return False
        if not loads and len(node.flat.code) > _MOST_CONSTANT_INSTRUCTIONS:
            return False
        return self._inline_all(node, buffer, nests, stays)

    def _inline_sparse(self, node: Node, buffer: str) -> bool:
        """Inline into readers that need few of the values.

        Not where the sources would be in memory much longer: then values of one layer would
        be computed from those of all layers before it.
        """
        assert node.flat is not None
        nests, stays = self._readers(node, buffer)
        points = self._sizes.points(node.flat.axes)
        few = [
            reader
            for reader in nests
            if reader.flat is not None
            and _reading_points(reader.flat, buffer, self._sizes) * _SPARSE <= points
        ]
        if any(isinstance(each, Check) for each in node.flat.code):
            return False
        size = self._sizes.bytes(self.buffers[buffer])
        few = [each for each in few if self._holds_little(each, node, size * _MOST_HELD)]
        if not few:
            return False
        return self._inline_all(node, buffer, few, stays or len(few) < len(nests))

    def _holds_little(self, reader: Node, node: Node, most: int) -> bool:
        """Say whether a reader that does a node's work needs few or no more bytes for that.

        Those are the bytes that nothing else needs once the reader runs.
        """

        def held(names: Set[str]) -> int:
            total = 0
            for name in names - self.lasting:
                others = self.graph.readers[name] - {node.number, reader.number}
                if all(self.graph.nodes[number].label < reader.label for number in others):
                    total += self._sizes.bytes(self.buffers[name])
            return total

        after = held((reader.reads | node.reads) - node.writes)
        return after <= most or after <= held(reader.reads)

    def _inline_cheap(self, node: Node, buffer: str) -> bool:
        assert node.flat is not None
        nests, stays = self._readers(node, buffer)
        if stays or not nests:
            return False
        producer = self._producer(node, buffer)
        if producer is None or not self._pays(producer, node, nests):
            return False
        return self._inline_all(node, buffer, nests, stays)

    def _readers(self, node: Node, buffer: str) -> tuple[list[Node], bool]:
        """Return the nests that read a buffer, and whether it is stored in any case."""
        readers = [
            self.graph.nodes[number]
            for number in sorted(self.graph.readers.get(buffer, ()))
            if number != node.number
        ]
        nests = [reader for reader in readers if reader.flat is not None]
        if self.graph.writers[buffer] != {node.number}:
            return [], True
        return nests, buffer in self.kept or len(nests) < len(readers)

    def _producer(self, node: Node, buffer: str) -> Producer | None:
        """Return what computes a buffer, if all that it reads stays as it is."""
        assert node.flat is not None
        producer = producer_of(node.flat, buffer, self.buffers[buffer], self.symbols)
        if producer is None:
            return None
        for name in producer.sources:
            for writer in self.graph.writers.get(name, ()):
                if self.graph.nodes[writer].label > node.label:
                    return None
        return producer

    def _inline_all(
        self, node: Node, buffer: str, readers: list[Node], stays: bool
    ) -> bool:
        producer = self._producer(node, buffer)
        if producer is None:
            return False
        done = [self._inline(producer, node, reader) for reader in readers]
        if not stays and all(done):
            self._forget(node, buffer)
        return any(done)

    def _pays(self, producer: Producer, node: Node, readers: list[Node]) -> bool:
        """Say whether computing again costs less than the traffic that it saves."""
        assert node.flat is not None
        buffer = producer.store.buffer
        costs = device_costs(self.buffers[buffer].device.kind)
        size = self._sizes.bytes(self.buffers[buffer])
        alone = len(node.writes) == 1
        saved = size * (1 + len(readers)) + (costs.launch if alone else 0)
        if alone:
            saved += sum(self._sizes.bytes(self.buffers[name]) for name in node.reads)
        work = operation_cost(producer.code, costs)
        extra = -work * self._sizes.points(node.flat.axes) if alone else 0.0
        for reader in readers:
            assert reader.flat is not None
            if load_count((*reader.flat.code, *producer.code)) > _MOST_LOADS:
                return False
            points = _reading_points(reader.flat, buffer, self._sizes)
            extra += work * points
            for name in producer.sources - reader.reads:
                type = self.buffers[name]
                extra += min(self._sizes.bytes(type), points * type.dtype.itemsize)
        return saved > extra

    def _inline(self, producer: Producer, node: Node, reader: Node) -> bool:
        assert reader.flat is not None
        self._copies += 1
        flat: FlatNest | str = "it would be computed for each row or column of a product"
        product = product_of(reader.flat, self.buffers, self._sizes)
        if product is None or not _is_factor(product, producer) or _is_loaded(producer):
            prefix = f"c{self._copies}."
            flat = inline_producer(producer, reader.flat, self.symbols, prefix)
        buffer = producer.store.buffer
        self.decisions.append(
            FusionDecision(
                kind=DecisionKind.KEEP if isinstance(flat, str) else DecisionKind.INLINE,
                first=(buffer,),
                second=self.names[reader.number],
                bytes=self._sizes.bytes(self.buffers[buffer]),
                reason=flat if isinstance(flat, str) else "",
            )
        )
        if isinstance(flat, str):
            return False
        self.names[reader.number] = (buffer, *self.names[reader.number])
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
    return flat.at(
        place
        for place, each in enumerate(flat.code)
        if not (isinstance(each, Store) and each.buffer == buffer)
    )


def _is_move(flat: FlatNest) -> bool:
    return all(each.op is ScalarOp.CAST for each in flat.code if isinstance(each, Apply))


def _is_factor(product: Contraction, producer: Producer) -> bool:
    """Say whether an operand of a product is computed from a producer's buffer."""
    buffer = producer.store.buffer
    code = (*product.left_code, *product.right_code)
    return any(isinstance(each, Load) and each.buffer == buffer for each in code)


def _is_loaded(producer: Producer) -> bool:
    """Say whether a producer's values are loaded as they are."""
    value = producer.store.value
    return any(isinstance(each, Load) and each.result == value for each in producer.code)


def _reading_points(flat: FlatNest, buffer: str, sizes: TypicalSizes) -> int:
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
