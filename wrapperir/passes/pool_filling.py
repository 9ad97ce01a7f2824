"""Gaps of pools, which buffers take whose sizes count another unit.

Sizes in two units are compared by the ranges of their symbols: ``s0 * 64`` bytes fit in
``s0 * s1 * 64`` if ``s1`` is 1 at least.  A buffer that lies in a gap of a pool is never
alive without it, so no line takes more memory than before, for any values of symbols.
"""

from collections.abc import Mapping, Sequence

from attrs import define

from wrapperir.analysis import STATIC, Sizes
from wrapperir.passes.pool_choice import BufferCandidate, PlannedPool, PoolClass

_MOST_FILLED = 16
"""Pools whose gaps are filled; they are compared with all other units."""


def fill_pools(
    pools: Sequence[PlannedPool],
    groups: Mapping[PoolClass, Sequence[BufferCandidate]],
    sizes: Sizes,
    count: int,
) -> list[PlannedPool]:
    """Return the pools of a block of ``count`` lines with further buffers in their gaps.

    ``groups`` are all buffers that may be placed, by class.  Buffers whose size has symbols
    go to the largest pool that has a gap, also from smaller pools.  A pool that is left
    with one buffer is dropped.
    """
    homes = {buffer: pool for pool in pools for buffer in pool.buffers}
    largest_first = sorted(pools, key=lambda pool: -pool.height * _weight(pool.kind))
    for position, pool in enumerate(largest_first[:_MOST_FILLED]):
        smaller = largest_first[position + 1 :]
        moved: set[BufferCandidate] = set()
        gaps = _Gaps(pool)
        for kind in sorted(groups, key=_weight, reverse=True):
            if not _may_share(kind, pool.kind):
                continue
            unit, other = kind.dimension[1], pool.kind.dimension[1]
            if sizes.units_for(1, unit, other) is None:
                continue
            for buffer in groups[kind]:
                if buffer in homes and homes[buffer] not in smaller:
                    continue
                size = sizes.units_for(buffer.size, unit, other)
                if size is not None and gaps.take(buffer, size):
                    moved.add(buffer)
        for home in dict.fromkeys(homes[buffer] for buffer in moved if buffer in homes):
            home.drop(moved, count)
        homes.update(dict.fromkeys(moved, pool))
    return [pool for pool in pools if len(pool.buffers) > 1]


def _weight(kind: PoolClass) -> int:
    return kind.dimension[1].weight


def _may_share(kind: PoolClass, pool: PoolClass) -> bool:
    """Return whether a pool may hold buffers of another class, whose sizes have symbols."""
    if kind.dimension[1] is STATIC:
        return False  # these need no offset that is computed in each call
    here = kind.dimension[0], kind.device, kind.space, kind.pinned
    there = pool.dimension[0], pool.device, pool.space, pool.pinned
    return here == there and kind.dimension[1] is not pool.dimension[1]


@define
class _Place:
    """Units of a pool up to ``top``, taken from line ``begin`` until ``settled``."""

    begin: int
    settled: int
    offset: int
    top: int


class _Gaps:
    """The places of a pool, and what is free between them."""

    def __init__(self, pool: PlannedPool) -> None:
        """Begin with the buffers of a solved pool."""
        self._pool = pool
        self._begin = pool.begin if pool.buffers else 0
        self._end = pool.end if pool.buffers else 0
        self._places = [
            _Place(buffer.begin, buffer.settled, offset, offset + buffer.size)
            for buffer, offset in zip(pool.buffers, pool.offsets, strict=True)
        ]

    def take(self, buffer: BufferCandidate, size: int) -> bool:
        """Place a buffer of ``size`` units in the lowest gap; say whether there is one."""
        if size > self._pool.height or buffer.alignment != 1:
            return False
        if buffer.begin < self._begin or self._end < buffer.end:
            return False
        offset = 0
        for place in sorted(self._beside(buffer), key=lambda place: place.offset):
            if place.offset - offset >= size:
                break
            offset = max(offset, place.top)
        if offset + size > self._pool.height:
            return False
        self._places.append(_Place(buffer.begin, buffer.settled, offset, offset + size))
        self._pool.buffers.append(buffer)
        self._pool.offsets = (*self._pool.offsets, offset)
        return True

    def _beside(self, buffer: BufferCandidate) -> list[_Place]:
        """Return the places whose time overlaps that of a buffer."""
        return [
            place
            for place in self._places
            if place.begin < buffer.settled and buffer.begin < place.settled
        ]
