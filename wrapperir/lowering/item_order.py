"""Choose the order of a graph's items by the memory that is live at once.

Several topological orders are tried, as PyTorch's ``torch/_inductor/memory.py`` does: by
the last and by the first of the items that were fused, and greedily by what each item frees
and allocates.  The one of the lowest peak is taken.  On a CPU, nests then wait for the call
that needs them, if that keeps the peak.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Set

from attrs import frozen

from wrapperir.ir import TensorType
from wrapperir.lowering.costs import TypicalSizes
from wrapperir.lowering.item_graph import ItemGraph, Node
from wrapperir.lowering.loops import Nest


def lowest_peak_order(
    graph: ItemGraph,
    buffers: Mapping[str, TensorType],
    kept: Set[str],
    sizes: TypicalSizes,
    donated: Set[str] = frozenset(),
) -> list[Node]:
    """Return the nodes in an order; ``kept`` buffers are live until the end.

    ``donated`` inputs are live from the start.
    """
    memory = _Memory.of(graph, buffers, kept, sizes, donated)
    orders = [
        _ordered(graph, lambda node: node.position),
        _ordered(graph, lambda node: node.first_position),
        _greedy(graph, memory),
    ]
    best = min(orders, key=memory.peak)
    if any(buffers[name].device.kind != "cpu" for name in memory.bytes):
        return best
    late = _nests_before_calls(best)
    return late if memory.peak(late) <= memory.peak(best) else best


def _nests_before_calls(order: list[Node]) -> list[Node]:
    """Return an order in which nests wait for a call that needs one, and run together.

    Nests that follow each other are one launch on a CPU (``sequences``).
    """
    found: list[Node] = []
    waiting: list[Node] = []
    for node in order:
        if isinstance(node.item, Nest):
            waiting.append(node)
            continue
        if any(nest.number in node.before for nest in waiting):
            found += waiting
            waiting = []
        found.append(node)
    return [*found, *waiting]


def _ordered(
    graph: ItemGraph,
    score: Callable[[Node], int],
    rescored: Callable[[Node], Iterable[int]] = lambda _: (),
) -> list[Node]:
    """Return an order that runs next, of the nodes that can run, the one of least score.

    ``rescored`` is called when a node runs, and returns others whose scores change.
    """
    waiting = {number: len(node.before) for number, node in graph.nodes.items()}
    ready: list[tuple[int, int, int]] = []

    def push(number: int) -> None:
        if not waiting[number]:
            node = graph.nodes[number]
            heapq.heappush(ready, (score(node), node.position, number))

    for number in graph.nodes:
        push(number)
    found: dict[int, Node] = {}
    while ready:
        _, _, number = heapq.heappop(ready)
        if number in found:
            continue
        node = found[number] = graph.nodes[number]
        for other in rescored(node):
            push(other)
        for other in node.after:
            waiting[other] -= 1
            push(other)
    return list(found.values())


@frozen
class _Memory:
    """Bytes of the buffers that items define, and the items that use each.

    Of inputs, donated ones are among them; others are live from the start to the end.
    """

    bytes: Mapping[str, int]
    users: Mapping[str, Set[int]]
    kept: Set[str]
    donated: Set[str]

    @classmethod
    def of(
        cls,
        graph: ItemGraph,
        buffers: Mapping[str, TensorType],
        kept: Set[str],
        sizes: TypicalSizes,
        donated: Set[str],
    ) -> "_Memory":
        users: dict[str, set[int]] = {}
        for names in (graph.readers, graph.writers):
            for name, numbers in names.items():
                users.setdefault(name, set()).update(numbers)
        written = {name for name, numbers in graph.writers.items() if numbers}
        begun = donated & users.keys()
        bytes = {name: sizes.bytes(buffers[name]) for name in written | begun}
        return cls(bytes, users, kept, begun)

    def peak(self, order: list[Node]) -> int:
        """Return the most bytes that are live while an item runs."""
        left = {name: len(self.users[name]) for name in self.bytes}
        live = {*self.donated}
        now = most = sum(self.bytes[name] for name in live)
        for node in order:
            names = node.reads | node.writes
            for name in names:
                if name in self.bytes and name not in live:
                    live.add(name)
                    now += self.bytes[name]
            most = max(most, now)
            for name in names:
                if name in self.bytes:
                    left[name] -= 1
                    if not left[name] and name not in self.kept:
                        now -= self.bytes[name]
        return most


def _greedy(graph: ItemGraph, memory: _Memory) -> list[Node]:
    """Return an order that runs next what frees most, less what it allocates.

    An item is scored when it can run, and again when it is the last user of a buffer.
    """
    users = {name: {*memory.users[name]} for name in memory.bytes}
    live = {*memory.donated}

    def score(node: Node) -> int:
        total = 0
        for name in node.reads | node.writes:
            if name not in memory.bytes:
                continue
            if name not in live:
                total += memory.bytes[name]
            if len(users[name]) == 1 and name not in memory.kept:
                total -= memory.bytes[name]
        return total

    def rescored(node: Node) -> Iterator[int]:
        for name in node.reads | node.writes:
            if name in memory.bytes:
                live.add(name)
                users[name].discard(node.number)
                if len(users[name]) == 1:
                    yield from users[name]

    return _ordered(graph, score, rescored)
