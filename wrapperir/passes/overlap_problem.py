"""The nodes of a block that has collectives: what moves, what it takes, what it touches."""

from collections.abc import Mapping, Sequence

from attrs import define

from wrapperir import ir as wir
from wrapperir.analysis import BlockStorages, Body, Storage, find_storages
from wrapperir.analysis.line_cost import LineCosts
from wrapperir.analysis.live_bytes import OWN
from wrapperir.analysis.sizes import allocated_bytes
from wrapperir.ir.effects import Effects
from wrapperir.passes.free_early import freed_early
from wrapperir.passes.line_dependences import Dependences, is_fixed, pool_of
from wrapperir.passes.overlap_schedule import CollectiveNodes, LineRun, OverlapProblem


@define(eq=False)
class BlockNodes:
    """The lines of a block that are put in order: all but allocations and frees.

    ``nodes`` are their indices among the lines.  An allocation comes right before its
    first use, and a free right after the last one.
    """

    lines: Sequence[wir.BodyLine]
    is_nested: bool
    found: BlockStorages
    nodes: list[int]
    allocations: Mapping[str, wir.AllocateLine]

    @classmethod
    def of(cls, body: Body, costs: LineCosts) -> "BlockNodes":
        """Return the nodes of a block."""
        lines = body.lines
        found = find_storages(lines, body.results, body.entry, costs.effects)
        used = {
            name
            for line, done in zip(lines, found.effects, strict=True)
            if not isinstance(line, wir.FreeLine)
            for name in done.uses
        }
        allocations = {
            line.result: line
            for line in lines
            if isinstance(line, wir.AllocateLine)
            and line.workspace is None
            and line.result in used
        }
        nodes = [
            index
            for index, line in enumerate(lines)
            if not isinstance(line, wir.FreeLine)
            and not (isinstance(line, wir.AllocateLine) and line.result in allocations)
        ]
        return cls(lines, body.is_nested, found, nodes, allocations)

    def ordered(self, order: Sequence[int]) -> list[wir.BodyLine]:
        """Return the lines of all nodes in an order, with allocations and frees."""
        made: list[wir.BodyLine] = []
        missing = dict(self.allocations)
        for node in order:
            index = self.nodes[node]
            for name in dict.fromkeys(self.found.effects[index].uses):
                allocation = missing.pop(name, None)
                if allocation is not None:
                    made.append(allocation)
            made.append(self.lines[index])
        frees = [line for line in self.lines if isinstance(line, wir.FreeLine)]
        return freed_early([*made, *frees])

    def problem(self, costs: LineCosts) -> OverlapProblem:
        """Return what an order of the nodes depends on."""
        lines = [self.lines[index] for index in self.nodes]
        effects = [self.found.effects[index] for index in self.nodes]
        counted = [
            (storage, _bytes_of(storage, costs.symbols))
            for storage in self.found.storages
            if storage.kind in OWN
        ]
        numbers = {id(storage): number for number, (storage, _) in enumerate(counted)}
        return OverlapProblem(
            [costs.work(line, done) for line, done in zip(lines, effects, strict=True)],
            _collectives(lines, effects, costs),
            _runs(lines, effects, self.found),
            [self._touched(done, numbers) for done in effects],
            [size for _, size in counted],
            [storage.is_donated for storage, _ in counted],
            [storage.end >= len(self.lines) for storage, _ in counted],
            begins_late=costs.machine.is_filled,
        )

    def _touched(self, done: Effects, numbers: Mapping[int, int]) -> tuple[int, ...]:
        """Return the numbers of the storages that a line uses or begins."""
        names = (*done.uses, *(made.name for made in done.definitions))
        held = [each for name in names for each in self.found.of_name.get(name, ())]
        keys = [id(each) for storage in held for each in (storage, pool_of(storage))]
        return tuple(dict.fromkeys(numbers[key] for key in keys if key in numbers))


def _bytes_of(storage: Storage, symbols: Mapping[str, wir.Number]) -> int:
    try:
        return allocated_bytes(storage.type, symbols)
    except wir.EvaluationError:
        return 0


def _collectives(
    lines: Sequence[wir.BodyLine], effects: Sequence[Effects], costs: LineCosts
) -> list[CollectiveNodes]:
    """Return the collectives that are waited for, in the order of their starts."""
    started = {
        line.result: (node, line)
        for node, line in enumerate(lines)
        if isinstance(line, wir.CollectiveLine)
    }
    found: list[CollectiveNodes] = []
    for node, done in enumerate(effects):
        if done.completes in started:
            start, line = started[done.completes]
            found.append(CollectiveNodes(start, node, costs.collective(line), line.group))
    return sorted(found, key=lambda each: each.start)


def _runs(
    lines: Sequence[wir.BodyLine], effects: Sequence[Effects], found: BlockStorages
) -> list[LineRun]:
    """Return the lines between those that no line may be moved past."""
    fixed = [
        node
        for node, (line, done) in enumerate(zip(lines, effects, strict=True))
        if is_fixed(line, done)
    ]
    runs: list[LineRun] = []
    for begin, end in zip([0, *(n + 1 for n in fixed)], [*fixed, len(lines)], strict=True):
        if begin < end:
            graph = Dependences.of(lines[begin:end], effects[begin:end], found)
            runs.append(LineRun(begin, end, graph))
    return runs
