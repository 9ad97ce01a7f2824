"""The bytes alive at each line of a block, in units, for all values of symbols at once.

What is not certain (memory that an operator's result may share, or that has no bytes if
a size is 0, and the most of several units in a nested block) is counted in ``high`` and
not in ``low``: what a program takes lies between the two.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from attrs import define, field

from wrapperir.analysis.live_bytes import OWN
from wrapperir.analysis.sizes import Sizes, symbol_ranges
from wrapperir.analysis.storages import (
    BlockStorages,
    Entry,
    Storage,
    StorageKind,
    find_storages,
)
from wrapperir.analysis.units import Unit
from wrapperir.ir.line import (
    Argument,
    Block,
    BodyLine,
    ConditionalLine,
    DefinitionLine,
    SubgraphCallLine,
    WhileLoopLine,
)
from wrapperir.ir.program import Program
from wrapperir.ir.types import Device

Dimension: TypeAlias = tuple[Device, Unit]
"""What is counted apart: a device's memory in multiples of a unit."""

Counts: TypeAlias = dict[Dimension, int]


@define
class Footprint:
    """Units alive while each line runs: ``low`` for certain, ``high`` at most."""

    low: dict[Dimension, list[int]]
    high: dict[Dimension, list[int]]


@define
class Footprints:
    """Computes footprints; sizes of one program have the same units."""

    definitions: Mapping[str, DefinitionLine]
    sizes: Sizes = field(factory=Sizes)

    @classmethod
    def of_program(cls, program: Program) -> "Footprints":
        """Return what computes the footprints of a program's blocks."""
        definitions = {line.name: line for line in program.definitions}
        return cls(definitions, Sizes(symbol_ranges(program)))

    def of(
        self, lines: Sequence[BodyLine], results: Sequence[Argument], entry: Entry
    ) -> tuple[BlockStorages, Footprint]:
        """Return the storages and the footprint of one block."""
        found = find_storages(lines, results, entry, self.definitions)
        low: dict[Dimension, list[int]] = {}
        high: dict[Dimension, list[int]] = {}
        for storage in found.storages:
            if storage.kind in OWN:
                self._add(storage, high, len(lines))
                if not storage.perhaps and self.sizes.of(storage.type).exact:
                    self._add(storage, low, len(lines))
        for profile in (*low.values(), *high.values()):
            for index in range(1, len(profile)):
                profile[index] += profile[index - 1]
        footprint = Footprint(low, high)
        for index, line in enumerate(lines):
            if isinstance(line, ConditionalLine | WhileLoopLine | SubgraphCallLine):
                self._add_nested(footprint, found, index, line, len(lines))
        return found, footprint

    def dimension(self, storage: Storage) -> tuple[Dimension, int]:
        """Return what a storage counts in, and how many units it has."""
        size = self.sizes.of(storage.type)
        return (storage.type.device, size.unit), size.count

    def _add(
        self, storage: Storage, changes: dict[Dimension, list[int]], count: int
    ) -> None:
        dimension, units = self.dimension(storage)
        if units and storage.end > storage.begin:
            change = changes.setdefault(dimension, [0] * count)
            change[storage.begin] += units
            if storage.end < count:
                change[storage.end] -= units

    def _add_nested(
        self,
        footprint: Footprint,
        found: BlockStorages,
        index: int,
        line: ConditionalLine | WhileLoopLine | SubgraphCallLine,
        count: int,
    ) -> None:
        """Count what nested blocks take while ``line`` runs, where that is more.

        What they return is counted with them and no more as the line's results.
        """
        results: Counts = {}
        for storage in found.storages:
            if storage.kind is StorageKind.RESULT and storage.begin == index:
                dimension, units = self.dimension(storage)
                if storage.end > storage.begin:
                    results[dimension] = results.get(dimension, 0) + units
        for profiles, inside in zip(
            (footprint.low, footprint.high), self._inside(line), strict=True
        ):
            for dimension, units in inside.items():
                profile = profiles.setdefault(dimension, [0] * count)
                extra = units - results.get(dimension, 0)
                profile[index] += max(extra, 0)

    def _inside(
        self, line: ConditionalLine | WhileLoopLine | SubgraphCallLine
    ) -> tuple[Counts, Counts]:
        match line:
            case ConditionalLine():
                left, right = self._peak(line.on_true), self._peak(line.on_false)
                low = max(left[0], right[0], key=lambda counts: sum(counts.values()))
                return low, _most(left[1], right[1])
            case SubgraphCallLine():
                return self._peak(line.body)
            case WhileLoopLine():
                condition, body = self._peak(line.condition), self._peak(line.body)
                low = max(condition[0], body[0], key=lambda counts: sum(counts.values()))
                carried: Counts = {}
                for storage in find_storages((line,), (), (), {}).storages:
                    dimension, units = self.dimension(storage)
                    carried[dimension] = carried.get(dimension, 0) + units
                return _sum(low, carried), _sum(_most(condition[1], body[1]), carried)

    def _peak(self, block: Block) -> tuple[Counts, Counts]:
        """Return the units alive at one line for certain, and at most at any line."""
        entry = [(p.name, p.type, StorageKind.PARAMETER) for p in block.parameters]
        _, footprint = self.of(block.lines, block.results, entry)
        totals = [sum(column) for column in zip(*footprint.low.values(), strict=True)]
        at = totals.index(max(totals)) if totals else 0
        return (
            {dimension: profile[at] for dimension, profile in footprint.low.items()},
            {dimension: max(profile) for dimension, profile in footprint.high.items()},
        )


def _most(left: Counts, right: Counts) -> Counts:
    keys = dict.fromkeys((*left, *right))
    return {key: max(left.get(key, 0), right.get(key, 0)) for key in keys}


def _sum(left: Counts, right: Counts) -> Counts:
    keys = dict.fromkeys((*left, *right))
    return {key: left.get(key, 0) + right.get(key, 0) for key in keys}
