"""Checks that longer live ranges do not raise the peak of a block."""

from collections.abc import Sequence

from attrs import define, field

from wrapperir.analysis import DeviceFootprint, Dimension, Footprint, Unit, fits
from wrapperir.ir import Device

_LEAST = -(1 << 100)


class RangeMaximum:
    """A list of numbers; adding to a range and its maximum take logarithmic time.

    This is a segment tree that is walked from the leaves up, the "zkw" tree of Zhang
    Kunwei, *The power of statistics*, 2002.  An amount added to all leaves below a node is
    kept at that node.  One unused leaf lies at either end.
    """

    def __init__(self, numbers: Sequence[int]) -> None:
        """Hold these numbers, in linear time."""
        self._leaves = leaves = 1 << (len(numbers) + 1).bit_length()
        self._added = [0] * leaves
        self._most = [_LEAST] * (2 * leaves)
        self._most[leaves + 1 : leaves + 1 + len(numbers)] = numbers
        for node in range(leaves - 1, 0, -1):
            self._most[node] = max(self._most[2 * node], self._most[2 * node + 1])

    def add(self, begin: int, end: int, amount: int) -> None:
        """Add ``amount`` to the numbers from ``begin`` up to, not including, ``end``."""
        left, right = self._leaves + begin, self._leaves + end + 1
        if begin >= end or not amount:
            return
        while left ^ right ^ 1:
            if not left & 1:
                self._raise(left ^ 1, amount)
            if right & 1:
                self._raise(right ^ 1, amount)
            left >>= 1
            right >>= 1
            self._update(left)
            self._update(right)
        while left > 1:
            left >>= 1
            self._update(left)

    def maximum(self, begin: int, end: int) -> int:
        """Return the maximum from ``begin`` up to ``end``, which is after ``begin``."""
        left, right = self._leaves + begin, self._leaves + end + 1
        on_left = on_right = _LEAST
        while left ^ right ^ 1:
            if not left & 1:
                on_left = max(on_left, self._most[left ^ 1])
            if right & 1:
                on_right = max(on_right, self._most[right ^ 1])
            left >>= 1
            right >>= 1
            on_left += self._added[left]
            on_right += self._added[right]
        most = max(on_left, on_right)
        while left > 1:
            left >>= 1
            most += self._added[left]
        return most

    def _raise(self, node: int, amount: int) -> None:
        self._most[node] += amount
        if node < self._leaves:
            self._added[node] += amount

    def _update(self, node: int) -> None:
        below = max(self._most[2 * node], self._most[2 * node + 1])
        self._most[node] = below + self._added[node]


@define
class LiveUnits:
    """The units alive at each line of a block, while live ranges are made longer.

    It begins with the footprint of a block of ``count`` lines.  Queries and changes take
    logarithmic time.
    """

    footprint: Footprint
    count: int
    _devices: dict[Device, "_DeviceUnits"] = field(
        init=False, factory=dict[Device, "_DeviceUnits"]
    )

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

    def _device(self, device: Device) -> "_DeviceUnits":
        known = self._devices.get(device)
        if known is None:
            known = self._devices[device] = _DeviceUnits.of(
                self.footprint, device, self.count
            )
        return known


@define
class _DeviceUnits:
    """One device; ``low`` and ``high`` are the same object where all is certain."""

    peak: dict[Unit, int]
    low: dict[Unit, RangeMaximum]
    high: dict[Unit, RangeMaximum]

    @classmethod
    def of(cls, footprint: Footprint, device: Device, count: int) -> "_DeviceUnits":
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
