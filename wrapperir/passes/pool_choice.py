"""The choice of buffers for each pool, such that no line takes more memory than before.

A pool takes its whole height while it is alive; buffers outside it come on top.
Where that would be more than the block took at its peak, some buffers are left out, or
the pool is cut in two where few buffers are alive.
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate

from attrs import define, frozen

from wrapperir.analysis import (
    STATIC,
    DeviceFootprint,
    Dimension,
    Footprint,
    Unit,
    fits,
    units_over,
)
from wrapperir.ir import Device
from wrapperir.planning import Buffer, plan

_ROUNDS = 4
"""How often the choice is revised where plans turn out higher than the lower bound."""

_FIRST_TURNS = 8
"""So many turns go from the first line to the last, which leaves out fewer buffers."""

_MOST_TURNS = 128
"""After so many turns, each of linear time, pools that do not fit are left out."""

_CUT_COSTS = (1, 4, 16, 64)
"""Weights of a buffer left out by a cut; a buffer left out for a lower pool weighs 1."""


@frozen
class PoolClass:
    """The properties shared by the buffers of a pool; sizes count ``dimension``'s unit.

    ``device`` is as their types name it, the dimension's as it is counted.
    """

    dimension: Dimension
    device: Device
    space: str
    pinned: bool


@frozen(eq=False)
class BufferCandidate:
    """A buffer of ``size`` units that may be placed.

    It exists from line ``begin`` until line ``end``; its bytes are free for others from
    line ``settled`` on, which is later where other streams may still use them.
    """

    begin: int
    end: int
    settled: int
    size: int
    alignment: int


@define(eq=False)
class PlannedPool:
    """Buffers that share memory of ``height`` units, and the offset of each."""

    kind: PoolClass
    buffers: list[BufferCandidate]
    height: int = 0
    slack: int = 0
    lower_bound: int = 0
    solver: str = ""
    offsets: tuple[int, ...] = ()

    @property
    def begin(self) -> int:
        """The line that begins the first buffer."""
        return min(buffer.begin for buffer in self.buffers)

    @property
    def end(self) -> int:
        """The line that ends the last buffer."""
        return max(buffer.end for buffer in self.buffers)

    def solve(self) -> None:
        """Find the buffers' offsets, and the height that they need."""
        found = plan(
            [Buffer(b.size, b.begin, b.settled, b.alignment) for b in self.buffers]
        )
        self.offsets, self.height = found.offsets, found.height
        self.lower_bound, self.solver = found.lower_bound, found.solver

    def estimate(self, count: int) -> None:
        """Take the most units alive at once, and ``slack``, for the height."""
        self.height = max(self._kept(count), default=0) + self.slack

    def drop(self, dropped: Collection[BufferCandidate], count: int) -> None:
        """Remove buffers; the others stay where they are."""
        kept = [
            (buffer, offset)
            for buffer, offset in zip(self.buffers, self.offsets, strict=True)
            if buffer not in dropped
        ]
        self.buffers = [buffer for buffer, _ in kept]
        self.offsets = tuple(offset for _, offset in kept)
        self.height = max((offset + buffer.size for buffer, offset in kept), default=0)
        self.lower_bound = max(self._kept(count), default=0)

    def _kept(self, count: int) -> list[int]:
        return _profile([(b.begin, b.settled, b.size) for b in self.buffers], count)


def choose_pools(
    groups: Mapping[PoolClass, Sequence[BufferCandidate]],
    footprint: Footprint,
    count: int,
) -> list[PlannedPool]:
    """Return pools, with their plans, for as many of the candidates as can be placed.

    ``footprint`` describes the block of ``count`` lines before the change.  With the
    pools no line exceeds the block's peak on that device, for any values of symbols.
    """
    chosen: list[PlannedPool] = []
    for device in dict.fromkeys(kind.dimension[0] for kind in groups):
        pools = [
            PlannedPool(kind, list(buffers))
            for kind, buffers in groups.items()
            if kind.dimension[0] == device and len(buffers) > 1
        ]
        if pools:
            before = DeviceFootprint.of(footprint, device, count)
            chosen += _DevicePools(count, before).choose(pools)
    return chosen


@define
class _DevicePools:
    """One device's memory in a block of ``count`` lines, before it has pools."""

    count: int
    before: DeviceFootprint

    def choose(self, pools: list[PlannedPool]) -> list[PlannedPool]:
        """Return the pools that hold most buffers, of several ways to choose them.

        A cut solves one line, a lower pool often many; one line does not tell which is
        better for the block.
        """
        ways = [self._choose(pools, cost) for cost in _CUT_COSTS]
        return max(ways, key=lambda way: sum(len(pool.buffers) for pool in way))

    def _choose(self, pools: list[PlannedPool], cut_cost: int) -> list[PlannedPool]:
        pools = self._fit(pools, cut_cost)
        for _ in range(_ROUNDS):
            for pool in pools:
                pool.solve()
            after = self._after(pools)
            excess = self._excess(after)
            if all(_one_within(pool, excess) is None for pool in pools):
                return pools
            for pool in pools:
                pool.slack = max(pool.slack, pool.height - pool.lower_bound)
            pools = self._fit(pools, cut_cost)
        return []

    def _fit(self, pools: list[PlannedPool], cut_cost: int) -> list[PlannedPool]:
        """Leave buffers out, and cut pools, until the estimated heights fit."""
        pools = [
            PlannedPool(pool.kind, pool.buffers, slack=pool.slack)
            for pool in pools
            if len(pool.buffers) > 1
        ]
        for pool in pools:
            pool.estimate(self.count)
        turn = 0
        while True:
            after = self._after(pools)
            excess = self._excess(after)
            turn += 1
            left: list[PlannedPool] = []
            for pool in pools:
                line = _one_within(pool, excess, turn)
                if line is None:
                    left.append(pool)
                    continue
                if turn > _MOST_TURNS:
                    continue
                room = self._room(pool, after, line)
                for part in _without_excess(pool, line, room, cut_cost):
                    if len(part.buffers) > 1:
                        part.estimate(self.count)
                        left.append(part)
            if left == pools:
                return pools
            pools = left

    def _after(self, pools: Sequence[PlannedPool]) -> dict[Unit, list[int]]:
        """Return the units taken at each line, with these pools."""
        spans: dict[Unit, list[tuple[int, int, int]]] = {
            unit: [] for unit in self.before.high
        }
        for pool in pools:
            span = spans[pool.kind.dimension[1]]
            span.append((pool.begin, pool.end, pool.height))
            span.extend((b.begin, b.end, -b.size) for b in pool.buffers)
        return {
            unit: [
                beside + change
                for beside, change in zip(
                    self.before.high[unit], _profile(span, self.count), strict=True
                )
            ]
            for unit, span in spans.items()
        }

    def _excess(self, after: dict[Unit, list[int]]) -> list[int]:
        """Return the lines that take more than the peak, and more than they did."""
        if after.keys() == {STATIC}:
            peak, low = self.before.peak[STATIC], self.before.low[STATIC]
            return [
                line for line, n in enumerate(after[STATIC]) if n > peak and n > low[line]
            ]
        units = tuple(after)
        known: dict[tuple[int, ...], bool] = {}
        found: list[int] = []
        for line, taken in enumerate(zip(*after.values(), strict=True)):
            within = known.get(taken)
            if within is None:
                counts = dict(zip(units, taken, strict=True))
                within = known[taken] = fits(counts, self.before.peak)
            if not within:
                counts = dict(zip(units, taken, strict=True))
                if not fits(counts, _at(self.before.low, line)):
                    found.append(line)
        return found

    def _room(self, pool: PlannedPool, after: dict[Unit, list[int]], line: int) -> int:
        """Return the height that the pool may have for ``line`` to be no excess."""
        unit = pool.kind.dimension[1]
        taken = _at(after, line)
        less = units_over(taken, self.before.peak, unit)
        if less is None:
            less = units_over(taken, _at(self.before.low, line), unit)
        return -1 if less is None else pool.height - less


def _at(profiles: Mapping[Unit, Sequence[int]], line: int) -> dict[Unit, int]:
    return {unit: profile[line] for unit, profile in profiles.items()}


def _one_within(pool: PlannedPool, lines: Sequence[int], turn: int = 0) -> int | None:
    """Return one of the sorted lines at which the pool is alive, if any is.

    That is the first, or, where the turns that this takes become many, the middle one: a
    cut there halves them.
    """
    begin, end = bisect_left(lines, pool.begin), bisect_left(lines, pool.end)
    if begin == end:
        return None
    return lines[begin if turn <= _FIRST_TURNS else (begin + end) // 2]


def _without_excess(
    pool: PlannedPool, line: int, room: int, cut_cost: int
) -> list[PlannedPool]:
    """Return pools without the buffers that make ``line`` an excess.

    Either the pool is cut at the line, or it is made no higher than ``room``: what leaves
    out fewer buffers, where one that a cut leaves out counts ``cut_cost`` times.
    """
    alive = [b for b in pool.buffers if b.begin <= line < b.end]
    low = _kept_below(pool, line, room)
    if low is not None and len(pool.buffers) - len(low) < cut_cost * len(alive):
        return [PlannedPool(pool.kind, low, slack=pool.slack)]
    before = [b for b in pool.buffers if b.end <= line]
    after = [b for b in pool.buffers if b.begin > line]
    return [PlannedPool(pool.kind, part, slack=pool.slack) for part in (before, after)]


def _kept_below(pool: PlannedPool, line: int, room: int) -> list[BufferCandidate] | None:
    """Return the buffers that stay where the pool is no higher than ``room``.

    Only buffers that are not alive at ``line`` leave: the others would take as much
    outside.  Of those, the smallest that frees enough units leaves, or else the largest.
    """
    most = room - pool.slack
    alive: list[tuple[int, int]] = []
    kept = set(range(len(pool.buffers)))
    events = sorted(
        [(b.begin, 1, i) for i, b in enumerate(pool.buffers)]
        + [(b.settled, 0, i) for i, b in enumerate(pool.buffers)]
    )
    total = 0
    for _, begins, index in events:
        buffer = pool.buffers[index]
        if not begins:
            if index in kept:
                total -= buffer.size
                if not buffer.begin <= line < buffer.end:
                    alive.remove((buffer.size, index))
            continue
        total += buffer.size
        if not buffer.begin <= line < buffer.end:
            insort(alive, (buffer.size, index))
        while total > most:
            if not alive:
                return None
            at = min(bisect_left(alive, (total - most, 0)), len(alive) - 1)
            size, leaves = alive.pop(at)
            total -= size
            kept.remove(leaves)
    return [pool.buffers[index] for index in sorted(kept)]


def _profile(spans: Sequence[tuple[int, int, int]], count: int) -> list[int]:
    """Return, for each line, the sum of the amounts whose span has it."""
    change = [0] * (count + 1)
    for begin, end, amount in spans:
        change[begin] += amount
        change[min(end, count)] -= amount
    return list(accumulate(change[:count]))
