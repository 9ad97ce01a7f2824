"""Checks that longer live ranges do not raise the peak of a block."""

from attrs import define, field

from wrapperir.analysis import DeviceFootprint, Dimension, Footprint, Unit, fits
from wrapperir.ir import Device
from wrapperir.passes.range_maximum import RangeMaximum


@define
class LiveUnits:
    """The units alive at each line of a block, while live ranges are made longer.

    It begins with the footprint of a block of ``count`` lines.  Queries and changes take
    logarithmic time.
    """

    footprint: Footprint
    count: int
    _devices: dict[Device, "_Device"] = field(init=False, factory=dict[Device, "_Device"])

    def may_add(self, dimension: Dimension, begin: int, end: int, units: int) -> bool:
        """Say whether ``units`` more from line ``begin`` up to ``end`` raise no peak.

        They do not if the sum fits the block's original peak, or the units alive just
        before or just after those lines, for any values of symbols.
        """
        if begin >= end or not units:
            return True
        device = self._device(dimension[0])
        after = device.most(begin, end)
        after[dimension[1]] += units
        if fits(after, device.peak):
            return True
        beside = [line for line in (begin - 1, end) if 0 <= line < self.count]
        return any(fits(after, device.least(line)) for line in beside)

    def add(self, dimension: Dimension, begin: int, end: int, units: int) -> None:
        """Count ``units`` more from line ``begin`` up to ``end``."""
        self._device(dimension[0]).add(dimension[1], begin, end, units)

    def _device(self, device: Device) -> "_Device":
        known = self._devices.get(device)
        if known is None:
            known = self._devices[device] = _Device.of(self.footprint, device, self.count)
        return known


@define
class _Device:
    """One device; ``low`` and ``high`` are the same object where all is certain."""

    peak: dict[Unit, int]
    low: dict[Unit, RangeMaximum]
    high: dict[Unit, RangeMaximum]

    @classmethod
    def of(cls, footprint: Footprint, device: Device, count: int) -> "_Device":
        own = DeviceFootprint.of(footprint, device, count)
        lows = {unit: RangeMaximum(profile) for unit, profile in own.low.items()}
        highs = {
            unit: lows[unit] if profile == own.low[unit] else RangeMaximum(profile)
            for unit, profile in own.high.items()
        }
        return cls(own.peak, lows, highs)

    def most(self, begin: int, end: int) -> dict[Unit, int]:
        """Return the most units that may be alive at any of these lines."""
        return {unit: numbers.maximum(begin, end) for unit, numbers in self.high.items()}

    def least(self, line: int) -> dict[Unit, int]:
        """Return the units that are certainly alive at a line."""
        return {unit: counts.maximum(line, line + 1) for unit, counts in self.low.items()}

    def add(self, unit: Unit, begin: int, end: int, units: int) -> None:
        low, high = self.low[unit], self.high[unit]
        low.add(begin, end, units)
        if high is not low:
            high.add(begin, end, units)
