"""Pools: placements share the bytes of a pool, so that overlapping ones corrupt them."""

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping

import torch
from attrs import define, field, frozen

from wrapperir.diagnostics import Code, FaultError
from wrapperir.interp.fault import value_fault
from wrapperir.interp.layout import integer_of
from wrapperir.interp.storage import GUARD_BYTES, ShadowStorage, new_storage
from wrapperir.interp.streams import History
from wrapperir.ir import Number, PoolType, TensorType


@frozen(eq=False)
class _Living:
    """A placement that lives at ``[begin, end)`` of its pool."""

    begin: int
    end: int
    name: str
    storage: ShadowStorage


@frozen(eq=False)
class _Past:
    """Bytes ``[begin, end)`` of the outermost pool, and their past uses."""

    begin: int
    end: int
    history: History


@define(eq=False, kw_only=True)
class Pool:
    """A pool, which may itself be placed in one.

    Args:
        type: The type it was allocated or placed as.
        storage: Its bytes.
        begin: Byte offset from the outermost pool.
        block: The bytes of the outermost pool and the guard behind them.
        past: Past uses of the outermost pool's bytes, disjoint and in order.
        living: Live placements in this pool that have bytes, disjoint and in order.
    """

    type: PoolType
    storage: ShadowStorage
    begin: int
    block: torch.Tensor
    past: list[_Past] = field(factory=list[_Past])
    living: list[_Living] = field(factory=list[_Living])

    def place(
        self,
        name: str,
        type: TensorType | PoolType,
        offset: int,
        nbytes: int,
        *,
        zeroed: bool,
    ) -> ShadowStorage:
        """Begin a storage at a byte offset; it counts as a name of the pool's memory.

        Raises:
            FaultError: it is outside of the pool, overlaps a live placement, or is not of
                the pool's kind and alignment.
        """
        self._check(name, type, offset, nbytes)
        end = offset + nbytes
        absolute = self.begin + offset
        after = self.block[absolute + nbytes : absolute + nbytes + GUARD_BYTES]
        # PyTorch takes a slice through numpy for a storage of its own.
        slice = self.block[absolute : absolute + nbytes].numpy()
        bytes = torch.from_numpy(slice)  # pyright: ignore[reportUnknownMemberType]
        storage = ShadowStorage(
            memory=bytes.untyped_storage(),
            base=0,
            nbytes=nbytes,
            type=type if isinstance(type, TensorType) else None,
            behind=after,
            pool=self.storage,
            alignment=math.gcd(self.type.alignment, offset),
        )
        storage.begin(zeroed=zeroed)
        living = _Living(offset, end, name, storage)
        is_pool = isinstance(type, PoolType)
        if nbytes:
            insort(self.living, living, key=_begin)
        if nbytes and not is_pool:  # placements in an inner pool take it themselves
            storage.history.follow(self._take_past(absolute, absolute + nbytes))
        self.storage.keep()
        storage.released = lambda: self._end(living, is_pool)
        return storage

    def inner(self, type: PoolType, storage: ShadowStorage, offset: int) -> "Pool":
        """Return the pool that was placed at ``offset``."""
        return Pool(
            type=type,
            storage=storage,
            begin=self.begin + offset,
            block=self.block,
            past=self.past,
        )

    def _check(
        self, name: str, type: TensorType | PoolType, offset: int, nbytes: int
    ) -> None:
        end = offset + nbytes
        if offset < 0 or end > self.storage.nbytes:
            problem = f"needs bytes {offset}..{end} of a pool of {self.storage.nbytes}"
            raise value_fault(Code.RUN_PLACEMENT_OUT_OF_BOUNDS, name, problem)
        mismatch = _mismatch(self.type, type, offset)
        if mismatch is not None:
            problem = f"cannot be placed there: {mismatch}"
            raise value_fault(Code.RUN_PLACEMENT_MISMATCH, name, problem)
        at = bisect_right(self.living, offset, key=_begin)
        for other in self.living[max(at - 1, 0) : at + 1]:
            if max(other.begin, offset) < min(other.end, end):
                problem = (
                    f"needs bytes {offset}..{end} of the pool, "
                    f"%{other.name} lives in {other.begin}..{other.end}"
                )
                raise value_fault(Code.RUN_PLACEMENT_OVERLAP, name, problem)

    def _end(self, living: _Living, is_pool: bool) -> None:
        """Give the bytes back to the pool."""
        if living.begin < living.end:
            at = bisect_left(self.living, living.begin, key=_begin)
            del self.living[at]
            if not is_pool:  # the placements in it have noted their own bytes
                begin, end = self.begin + living.begin, self.begin + living.end
                insort(self.past, _Past(begin, end, living.storage.history), key=_begin)
        self.storage.drop()

    def _take_past(self, begin: int, end: int) -> list[History]:
        """Remove bytes from the past and return their uses."""
        first = bisect_right(self.past, begin, key=_begin)
        if first and self.past[first - 1].end > begin:
            first -= 1
        last = bisect_left(self.past, end, key=_begin)
        taken = self.past[first:last]
        rest = [_Past(p.begin, begin, p.history) for p in taken if p.begin < begin]
        rest += [_Past(end, p.end, p.history) for p in taken if p.end > end]
        self.past[first:last] = rest
        return [past.history for past in taken]


def _begin(item: _Living | _Past) -> int:
    return item.begin


def pool_bytes(type: PoolType, symbols: Mapping[str, Number]) -> int:
    """Return the size of a pool.

    Raises:
        FaultError: it has no value, or is negative.
    """
    nbytes = integer_of(type.size, symbols)
    if nbytes < 0:
        raise FaultError(Code.RUN_EVALUATION, f"a pool of {nbytes} bytes")
    return nbytes


def allocate_pool(type: PoolType, nbytes: int) -> Pool:
    """Return a new pool, poisoned.

    Raises:
        FaultError: the device is not the CPU, or the memory cannot be had.
    """
    storage = new_storage(type.device, nbytes, type.alignment)
    storage.fill(zeroed=False)
    return Pool(type=type, storage=storage, begin=0, block=storage.guarded_bytes())


def _mismatch(pool: PoolType, type: TensorType | PoolType, offset: int) -> str | None:
    if pool.device != type.device:
        return f"the pool is on {pool.device}, not {type.device}"
    if pool.space != type.space:
        return f"the pool is in the space {pool.space}, not {type.space}"
    if pool.pinned != type.pinned:
        return "only one of them is pinned"
    wanted = type.alignment
    if isinstance(type, TensorType):
        if type.layout is not None:
            return "it has a vendor layout"
        wanted = max(wanted or 1, type.dtype.itemsize)
    if wanted is not None and (pool.alignment % wanted or offset % wanted):
        return f"byte {offset} of a pool aligned to {pool.alignment} is not to {wanted}"
    return None
