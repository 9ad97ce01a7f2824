"""Whether memory may be kept longer in a block without raising its peak."""

from collections.abc import Mapping

from attrs import define, field

from wrapperir.analysis.footprint import Dimension, Footprint
from wrapperir.analysis.units import fits
from wrapperir.ir.types import Device
from wrapperir.passes.range_maximum import RangeMaximum


@define
class LiveUnits:
    """The units alive at each line of a block, while lifetimes in it become longer.

    It begins with the footprint of a block of ``count`` lines.  Each answer and each
    change takes logarithmic time.
    """

    footprint: Footprint
    count: int
    _devices: dict[Device, "_Device"] = field(init=False, factory=dict[Device, "_Device"])

    def may_add(self, dimension: Dimension, begin: int, end: int, units: int) -> bool:
        """Say whether ``units`` more from line ``begin`` up to ``end`` raise no peak.

        They do not where that is no more than at the block's peak before, or than what
        is alive now just before or just after those lines: whatever values symbols have.
        """
        if begin >= end or not units:
            return True
        device = self._device(dimension[0])
        after = device.most(begin, end)
        after[dimension] = after.get(dimension, 0) + units
        if _within(after, device.peak):
            return True
        beside = [line for line in (begin - 1, end) if 0 <= line < self.count]
        return any(_within(after, device.least(line)) for line in beside)

    def add(self, dimension: Dimension, begin: int, end: int, units: int) -> None:
        """Count ``units`` more from line ``begin`` up to ``end``."""
        self._device(dimension[0]).add(dimension, begin, end, units)

    def _device(self, device: Device) -> "_Device":
        known = self._devices.get(device)
        if known is None:
            known = self._devices[device] = _Device.of(self.footprint, device, self.count)
        return known


@define
class _Device:
    """One device: ``low`` and ``high`` are one where all that is alive is certain."""

    peak: dict[Dimension, int]
    low: dict[Dimension, RangeMaximum]
    high: dict[Dimension, RangeMaximum]

    @classmethod
    def of(cls, footprint: Footprint, device: Device, count: int) -> "_Device":
        dimensions = [d for d in footprint.high if d[0] == device]
        nothing = [0] * count
        low = {d: footprint.low.get(d, nothing) for d in dimensions}
        totals = [
            sum(profile[line] * d[1].weight for d, profile in low.items())
            for line in range(count)
        ]
        at = totals.index(max(totals))
        lows = {d: RangeMaximum(low[d]) for d in dimensions}
        highs = {
            d: lows[d] if footprint.high[d] == low[d] else RangeMaximum(footprint.high[d])
            for d in dimensions
        }
        return cls({d: low[d][at] for d in dimensions}, lows, highs)

    def most(self, begin: int, end: int) -> dict[Dimension, int]:
        """Return what is alive at most at any of these lines."""
        return {d: numbers.maximum(begin, end) for d, numbers in self.high.items()}

    def least(self, line: int) -> dict[Dimension, int]:
        """Return what is alive for certain at a line."""
        return {d: numbers.maximum(line, line + 1) for d, numbers in self.low.items()}

    def add(self, dimension: Dimension, begin: int, end: int, units: int) -> None:
        low, high = self.low[dimension], self.high[dimension]
        low.add(begin, end, units)
        if high is not low:
            high.add(begin, end, units)


def _within(counts: Mapping[Dimension, int], limit: Mapping[Dimension, int]) -> bool:
    taken = {unit: count for (_, unit), count in counts.items()}
    return fits(taken, {unit: count for (_, unit), count in limit.items()})
