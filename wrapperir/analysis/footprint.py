"""The bytes alive at each line of a block, in units, for all values of symbols at once.

Memory that is not certain to be taken is counted in ``high`` and not in ``low``: the
result of an operator that may share memory, a tensor that has no bytes if a size is 0,
and the maximum of several units in a nested block.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TypeAlias

from attrs import define, field

from wrapperir.analysis.live_bytes import OWN
from wrapperir.analysis.sizes import Sizes, Unit, symbol_ranges
from wrapperir.analysis.storages import (
    BlockStorages,
    Entry,
    Storage,
    StorageKind,
    block_entry,
    find_storages,
)
from wrapperir.ir import Argument, Block, BodyLine, Device, Program
from wrapperir.ir.blocks import BLOCK_FIELDS
from wrapperir.ir.line_effects import LineEffects

Dimension: TypeAlias = tuple[Device, Unit]
"""Memory that is counted separately: a device's memory in multiples of a unit."""

Counts: TypeAlias = Counter[Dimension]

_Profiles: TypeAlias = defaultdict[Dimension, list[int]]
"""Numbers of units by line; zeros at first."""


@define
class Footprint:
    """Units alive while each line runs: ``low`` for certain, ``high`` at most."""

    low: dict[Dimension, list[int]]
    high: dict[Dimension, list[int]]


@define
class DeviceFootprint:
    """Units of one device: at each line, and for certain at the line that has most.

    That line depends on the values of symbols; typical values are assumed.
    """

    low: dict[Unit, list[int]]
    high: dict[Unit, list[int]]
    peak: dict[Unit, int]

    @classmethod
    def of(cls, footprint: Footprint, device: Device, count: int) -> "DeviceFootprint":
        """Return a device's part of the footprint of a block of ``count`` lines."""
        nothing = [0] * count
        high = {d[1]: p for d, p in footprint.high.items() if d[0] == device}
        low = {unit: footprint.low.get((device, unit), nothing) for unit in high}
        totals = [
            sum(profile[line] * unit.weight for unit, profile in low.items())
            for line in range(count)
        ]
        at = totals.index(max(totals))
        return cls(low, high, {unit: profile[at] for unit, profile in low.items()})


@define
class Footprints:
    """Computes footprints; sizes of one program have the same units."""

    effects: LineEffects
    sizes: Sizes = field(factory=Sizes)

    @classmethod
    def of_program(cls, program: Program) -> "Footprints":
        """Return the footprints of a program's blocks."""
        return cls(LineEffects.of_program(program), Sizes(symbol_ranges(program)))

    def of(
        self, lines: Sequence[BodyLine], results: Sequence[Argument], entry: Entry
    ) -> tuple[BlockStorages, Footprint]:
        """Return the storages and the footprint of one block."""
        found = find_storages(lines, results, entry, self.effects)
        low: _Profiles = defaultdict(lambda: [0] * len(lines))
        high: _Profiles = defaultdict(lambda: [0] * len(lines))
        for storage in found.storages:
            if storage.kind in OWN:
                self._add(storage, high, len(lines))
                if self._is_certain(storage):
                    self._add(storage, low, len(lines))
        for profile in (*low.values(), *high.values()):
            for index in range(1, len(profile)):
                profile[index] += profile[index - 1]
        footprint = Footprint(low, high)
        for index, line in enumerate(lines):
            if type(line) in BLOCK_FIELDS:
                self._add_nested(low, high, found, index, line)
        return found, footprint

    def dimension(self, storage: Storage) -> tuple[Dimension, int]:
        """Return the dimension of a storage, and its number of units.

        A device's index that is left out is 0, and 0 is left out here.
        """
        size, device = self.sizes.of(storage.type), storage.type.device
        if device.index == 0:
            device = Device(device.kind)
        return (device, size.unit), size.count

    def _add(self, storage: Storage, changes: _Profiles, count: int) -> None:
        dimension, units = self.dimension(storage)
        end = storage.released
        if units and end > storage.begin and count:
            change = changes[dimension]
            change[storage.begin] += units
            if end < count:
                change[end] -= units

    def _add_nested(
        self,
        lows: _Profiles,
        highs: _Profiles,
        found: BlockStorages,
        index: int,
        line: BodyLine,
    ) -> None:
        """Count the memory of nested blocks while ``line`` runs, where that is more.

        Their results are counted in the blocks, and not again as results of the line.
        Only memory that is alive at one time, before they return or after, is certain.
        """
        certain, most = self._begun(
            [s for s in found.storages if s.kind is StorageKind.RESULT and s.begin == index]
        )
        low, high = self._inside(line)
        if _weight(low) > _weight(certain):
            for dimension in dict.fromkeys((*low, *certain)):
                lows[dimension][index] += low[dimension] - certain[dimension]
        for dimension, units in high.items():
            highs[dimension][index] += max(units - most[dimension], 0)

    def _begun(self, storages: Sequence[Storage]) -> tuple[Counts, Counts]:
        """Return the units of some storages: for certain, and at most."""
        low: Counts = Counter()
        high: Counts = Counter()
        for storage in storages:
            if storage.end > storage.begin:
                dimension, units = self.dimension(storage)
                high[dimension] += units
                if self._is_certain(storage):
                    low[dimension] += units
        return low, high

    def _is_certain(self, storage: Storage) -> bool:
        return not storage.perhaps and self.sizes.of(storage.type).exact

    def _inside(self, line: BodyLine) -> tuple[Counts, Counts]:
        blocks = self.effects.visit(line).blocks
        peaks = [self._peak(nested.block) for nested in blocks]
        low = max((least for least, _ in peaks), key=_weight)
        high: Counts = Counter()
        for _, most in peaks:
            high |= most
        if any(nested.repeats for nested in blocks):
            carried = self._begun(find_storages((line,), (), (), self.effects).storages)
            return low + carried[0], high + carried[1]
        return low, high

    def _peak(self, block: Block) -> tuple[Counts, Counts]:
        """Return the units alive at one line for certain, and at most at any line."""
        _, footprint = self.of(block.lines, block.results, block_entry(block))
        weights = [unit.weight for _, unit in footprint.low]
        totals = [
            sum(n * weight for n, weight in zip(column, weights, strict=True))
            for column in zip(*footprint.low.values(), strict=True)
        ]
        at = totals.index(max(totals)) if totals else 0
        return (
            Counter({dimension: p[at] for dimension, p in footprint.low.items()}),
            Counter({dimension: max(p) for dimension, p in footprint.high.items()}),
        )


def _weight(counts: Counts) -> int:
    return sum(n * unit.weight for (_, unit), n in counts.items())
