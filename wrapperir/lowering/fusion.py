"""Fuse the items of a graph, those that save the most memory traffic first.

Pairs of items that access one buffer are candidates, kept in a heap by the bytes that one
kernel for both saves; after each fusion the new item's pairs are added.  This is XLA's
priority fusion with traffic as its cost.
"""

import heapq
from collections.abc import Mapping, Set
from itertools import pairwise

from attrs import define, field

from wrapperir.ir import TensorType
from wrapperir.lowering.combine import combine
from wrapperir.lowering.costs import TypicalSizes
from wrapperir.lowering.explain import DecisionKind, FusionDecision
from wrapperir.lowering.flat_nest import FlatNest
from wrapperir.lowering.item_graph import ItemGraph, Node
from wrapperir.lowering.kernel import SizeSymbols
from wrapperir.lowering.profit import Profit

_NEAREST_READERS = 3
_FARTHEST = 64
_MOST_BUFFERS = 48
_MOST_NEIGHBOURS = 64


@define
class Fusion:
    """Fuses the nodes of a graph; ``kept`` are buffers that outlive it."""

    graph: ItemGraph
    buffers: Mapping[str, TensorType]
    kept: Set[str]
    symbols: SizeSymbols
    decisions: dict[tuple[int, int], FusionDecision] = field(
        factory=dict[tuple[int, int], FusionDecision]
    )
    names: dict[int, tuple[str, ...]] = field(factory=dict[int, tuple[str, ...]])
    _sizes: TypicalSizes = field(init=False)
    _profit: Profit = field(init=False)
    _shared: dict[int, dict[int, int]] = field(
        init=False, factory=dict[int, dict[int, int]]
    )
    _heap: list[tuple[int, int, int, int]] = field(
        init=False, factory=list[tuple[int, int, int, int]]
    )

    def __attrs_post_init__(self) -> None:
        """Take typical sizes for symbolic ones."""
        self._sizes = TypicalSizes(self.symbols)
        self._profit = Profit(self.graph, self.buffers, self.kept, self._sizes)

    def final_decisions(self) -> tuple[FusionDecision, ...]:
        """Return the fusions, and why the items that are left are apart."""
        nodes = self.graph.nodes
        return tuple(
            decision
            for (first, second), decision in self.decisions.items()
            if decision.kind is DecisionKind.FUSE or (first in nodes and second in nodes)
        )

    def run(self) -> int:
        """Fuse what may be fused; return how many fusions there were."""
        self._collect()
        fused = 0
        while self._heap:
            score, _, a, b = heapq.heappop(self._heap)
            if a not in self.graph.nodes or b not in self.graph.nodes:
                continue
            first, second = self.graph.nodes[a], self.graph.nodes[b]
            if first.label > second.label:
                first, second = second, first
            fused += self._try(first, second, -score)
        return fused

    def _collect(self) -> None:
        """Find the pairs that share a buffer: its writer and readers, readers in turn."""
        self._shared.clear()
        for node in self.graph.nodes.values():
            self.names.setdefault(node.number, (node.item.name,))
        nodes = self.graph.nodes
        for name, readers in self.graph.readers.items():
            bytes = self._sizes.bytes(self.buffers[name])
            writers = self.graph.writers.get(name, set())
            alone = name not in self.kept and len(readers) == 1
            for writer in writers:
                for reader in readers:
                    self._share(writer, reader, bytes * (2 if alone else 1))
            ordered = sorted(readers, key=lambda number: nodes[number].label)
            for place, number in enumerate(ordered):
                for other in ordered[place + 1 : place + 1 + _NEAREST_READERS]:
                    if nodes[other].position - nodes[number].position <= _FARTHEST:
                        self._share(number, other, bytes)
        for name, writers in self.graph.writers.items():
            ordered = sorted(writers, key=lambda number: nodes[number].label)
            for number, other in pairwise(ordered):
                self._share(number, other, self._sizes.bytes(self.buffers[name]) // 4)
        for a, others in self._shared.items():
            for b in others:
                if a < b:
                    self._push(a, b)

    def _share(self, a: int, b: int, bytes: int) -> None:
        nodes = self.graph.nodes
        if a == b or nodes[a].flat is None or nodes[b].flat is None:
            return
        for one, other in ((a, b), (b, a)):
            found = self._shared.setdefault(one, {})
            found[other] = found.get(other, 0) + bytes

    def _push(self, a: int, b: int) -> None:
        nodes = self.graph.nodes
        distance = abs(nodes[a].position - nodes[b].position)
        heapq.heappush(self._heap, (-self._shared[a][b], distance, a, b))

    def _try(self, first: Node, second: Node, bytes: int) -> bool:
        assert first.flat is not None
        assert second.flat is not None
        between = self.graph.between(first, second)
        combined: FlatNest | str
        if between is None:
            combined = "an item between them needs the first"
        elif len(first.reads | first.writes | second.reads | second.writes) > _MOST_BUFFERS:
            combined = "the kernel would have too many buffers"
        else:
            combined = self._profit.refusal(first, second) or combine(
                first.flat, second.flat, self.buffers, self.symbols
            )
        names = self.names[first.number], self.names[second.number]
        decision = FusionDecision(
            kind=DecisionKind.KEEP if isinstance(combined, str) else DecisionKind.FUSE,
            first=names[0],
            second=names[1],
            bytes=bytes,
            reason=combined if isinstance(combined, str) else "",
        )
        self.decisions[first.number, second.number] = decision
        if isinstance(combined, str):
            return False
        assert between is not None
        merged = self.graph.merge(first, second, between, combined)
        self.names[merged.number] = (*names[0], *names[1])
        self._reconnect(first.number, second.number, merged.number)
        return True

    def _reconnect(self, first: int, second: int, merged: int) -> None:
        """Give a fused node the pairs of its parts."""
        found: dict[int, int] = {}
        for old in (first, second):
            for other, bytes in self._shared.pop(old, {}).items():
                if other in (first, second):
                    continue
                found[other] = found.get(other, 0) + bytes
                self._shared[other].pop(old)
        self._shared[merged] = found
        for other, bytes in found.items():
            self._shared[other][merged] = bytes
        nearest = heapq.nlargest(_MOST_NEIGHBOURS, found, key=lambda other: found[other])
        for other in nearest:
            self._push(merged, other)
