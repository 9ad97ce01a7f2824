"""The items of a graph and what must run before what, while items are fused.

Nodes are kept in a topological order (Pearce and Kelly, 2006), as labels in a linked list,
so that a search for a path between two nodes stays between them.
"""

from collections.abc import Iterable, Iterator

from attrs import define, field

from wrapperir.lowering.flat_nest import FlatNest
from wrapperir.lowering.loops import ExternCall, Load, Nest, Store

_GAP = 1 << 32
_MOST_VISITED = 256


@define(eq=False)
class Node:
    """A nest, fused or not, or a call; ``flat`` is ``None`` if it cannot be fused.

    ``position`` is that of the last item that was fused, ``first_position`` of the first.
    Nodes that are ``is_ordered`` run in the order they are given.  ``symbols`` are size
    symbols that the node needs, and ``defines`` those that it defines.
    """

    number: int
    position: int
    item: Nest | ExternCall
    flat: FlatNest | None
    reads: set[str]
    writes: set[str]
    is_ordered: bool = False
    first_position: int = 0
    symbols: set[str] = field(factory=set[str])
    defines: set[str] = field(factory=set[str])
    before: set[int] = field(factory=set[int])
    after: set[int] = field(factory=set[int])
    label: int = 0


def accessed_buffers(flat: FlatNest) -> tuple[set[str], set[str]]:
    """Return the buffers that instructions read and write."""
    reads: set[str] = set()
    writes: set[str] = set()
    for each in flat.code:
        if isinstance(each, Load):
            reads.add(each.buffer)
        elif isinstance(each, Store):
            writes.add(each.buffer)
    return reads, writes


class ItemGraph:
    """Nodes, the buffers that connect them, and their order."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        """Order nodes, given as they run, by what they read and write."""
        self.nodes: dict[int, Node] = {}
        self.readers: dict[str, set[int]] = {}
        self.writers: dict[str, set[int]] = {}
        last_writer: dict[str, int] = {}
        since: dict[str, list[int]] = {}
        ordered: int | None = None
        definers: dict[str, int] = {}
        for node in nodes:
            self.nodes[node.number] = node
            for symbol in node.symbols & definers.keys():
                self._connect(definers[symbol], node.number)
            definers.update(dict.fromkeys(node.defines, node.number))
            if node.is_ordered:
                if ordered is not None:
                    self._connect(ordered, node.number)
                ordered = node.number
            for name in node.reads:
                self.readers.setdefault(name, set()).add(node.number)
                if name in last_writer:
                    self._connect(last_writer[name], node.number)
            for name in node.writes:
                self.writers.setdefault(name, set()).add(node.number)
                if name in last_writer:
                    self._connect(last_writer[name], node.number)
                for reader in since.pop(name, ()):
                    self._connect(reader, node.number)
                last_writer[name] = node.number
            for name in node.reads:
                since.setdefault(name, []).append(node.number)
        self._next: dict[int, int] = {}
        self._previous: dict[int, int] = {}
        order = list(self.nodes)
        for place, number in enumerate(order):
            self.nodes[number].label = place * _GAP
            if place:
                self._link(order[place - 1], number)
        self._fresh = max(order, default=-1) + 1

    def _connect(self, first: int, second: int) -> None:
        if first != second:
            self.nodes[first].after.add(second)
            self.nodes[second].before.add(first)

    def _link(self, left: int, right: int) -> None:
        self._next[left] = right
        self._previous[right] = left

    def _unlink(self, number: int) -> None:
        left = self._previous.pop(number, None)
        right = self._next.pop(number, None)
        if left is not None:
            self._next.pop(left)
        if right is not None:
            self._previous.pop(right)
        if left is not None and right is not None:
            self._link(left, right)

    def _insert_after(self, left: int, number: int) -> None:
        right = self._next.get(left)
        low = self.nodes[left].label
        high = low + 2 * _GAP if right is None else self.nodes[right].label
        if high - low < 2:
            self._relabel(left)
            low, high = self.nodes[left].label, self.nodes[left].label + _GAP
        self.nodes[number].label = (low + high) // 2
        if right is not None:
            self._link(number, right)
        self._link(left, number)

    def _relabel(self, some: int) -> None:
        first = some
        while first in self._previous:
            first = self._previous[first]
        label = 0
        at: int | None = first
        while at is not None:
            self.nodes[at].label = label
            label += _GAP
            at = self._next.get(at)

    def between(self, first: Node, second: Node) -> list[int] | None:
        """Return the nodes before ``second`` that need ``first``, other than ``second``.

        ``None`` if ``second`` needs one of them, or there are very many: the two cannot
        be fused.  ``first`` is earlier in the order.
        """
        found: set[int] = set()
        pending = [number for number in first.after if number != second.number]
        while pending:
            number = pending.pop()
            if number == second.number:
                return None
            node = self.nodes[number]
            if number in found or node.label > second.label:
                continue
            found.add(number)
            if len(found) > _MOST_VISITED:
                return None
            pending += node.after
        return sorted(found, key=lambda number: self.nodes[number].label)

    def merge(
        self, first: Node, second: Node, between: Iterable[int], flat: FlatNest
    ) -> Node:
        """Replace two nodes by one, after which the nodes of ``between`` run."""
        number = self._fresh
        self._fresh += 1
        merged = Node(
            number=number,
            position=max(first.position, second.position),
            first_position=min(first.first_position, second.first_position),
            item=second.item,
            flat=flat,
            reads=first.reads | second.reads,
            writes=first.writes | second.writes,
            before=(first.before | second.before) - {first.number, second.number},
            after=(first.after | second.after) - {first.number, second.number},
        )
        self.nodes[number] = merged
        self._insert_after(second.number, number)
        last = number
        for each in between:
            self._unlink(each)
            self._insert_after(last, each)
            last = each
        self.remove(first)
        self.remove(second)
        for other in merged.before:
            self.nodes[other].after.add(number)
        for other in merged.after:
            self.nodes[other].before.add(number)
        for name in merged.reads:
            self.readers[name].add(number)
        for name in merged.writes:
            self.writers[name].add(number)
        return merged

    def replace(
        self,
        node: Node,
        flat: FlatNest,
        reads: set[str],
        writes: set[str],
        producer: Node | None = None,
    ) -> None:
        """Give a node new instructions, which do what ``producer`` does as well."""
        for name in node.reads - reads:
            self.readers[name].discard(node.number)
        for name in reads - node.reads:
            self.readers.setdefault(name, set()).add(node.number)
        for name in node.writes - writes:
            self.writers[name].discard(node.number)
        node.flat, node.reads, node.writes = flat, reads, writes
        for other in producer.before if producer is not None else ():
            self.nodes[other].after.add(node.number)
            node.before.add(other)

    def remove(self, node: Node) -> None:
        """Remove a node, which nothing needs or another replaces."""
        self._unlink(node.number)
        del self.nodes[node.number]
        for other in node.before:
            self.nodes[other].after.discard(node.number)
        for other in node.after:
            self.nodes[other].before.discard(node.number)
        for name in node.reads:
            self.readers[name].discard(node.number)
        for name in node.writes:
            self.writers[name].discard(node.number)

    def in_order(self) -> Iterator[Node]:
        """Yield the nodes in the order that is kept, each after those that it needs."""
        yield from sorted(self.nodes.values(), key=lambda node: node.label)
