"""Pools: memory that placements take their bytes from, really, so that overlaps corrupt."""

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping

import torch
from attrs import define, field, frozen

from wrapperir.diagnostics import Code
from wrapperir.interp.fault import FaultError
from wrapperir.interp.layout import integer_of
from wrapperir.interp.storage import GUARD_BYTES, Owner, Storage, guarded_bytes
from wrapperir.interp.streams import History
from wrapperir.ir import Number, PoolType, TensorType


@frozen(eq=False)
class _Living:
    """A placement that lives at ``[begin, end)`` of its pool."""

    begin: int
    end: int
    name: str
    storage: Storage


@frozen(eq=False)
class _Past:
    """Bytes ``[begin, end)`` of the outermost pool, and who used them last."""

    begin: int
    end: int
    history: History


@define(eq=False, kw_only=True)
class Pool:
    """A pool, which may itself be placed in one.

    Args:
        type: the type it was allocated or placed as.
        storage: its bytes.
        begin: where they begin in the outermost pool's.
        block: the bytes of the outermost pool and the guard behind them.
        past: what was dropped from the outermost pool, disjoint and in order.
        living: what lives in this pool, disjoint and in order; nothing of no bytes.
    """

    type: PoolType
    storage: Storage
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
    ) -> Storage:
        """Begin a storage at a byte offset; it counts as a name of the pool's memory.

        Raises:
            FaultError: it is outside of the pool, overlaps what lives there, or is not of
                the pool's kind and alignment.
        """
        self._check(name, type, offset, nbytes)
        end = offset + nbytes
        absolute = self.begin + offset
        after = self.block[absolute + nbytes : absolute + nbytes + GUARD_BYTES]
        # A slice through numpy is a storage of its own for PyTorch, as an allocation's.
        slice = self.block[absolute : absolute + nbytes].numpy()
        bytes = torch.from_numpy(slice)  # pyright: ignore[reportUnknownMemberType]
        storage = Storage(
            memory=bytes.untyped_storage(),
            base=0,
            nbytes=nbytes,
            owner=Owner.BLOCK,
            writable=True,
            type=type if isinstance(type, TensorType) else None,
            written=None if zeroed else torch.zeros(nbytes, dtype=torch.uint8),
            behind=after,
            pool=self.storage,
            alignment=math.gcd(self.type.alignment, offset),
        )
        storage.fill(zeroed=zeroed)
        living = _Living(offset, end, name, storage)
        is_pool = isinstance(type, PoolType)
        if nbytes:
            insort(self.living, living, key=_begin)
        if nbytes and not is_pool:  # what is placed in a pool takes its own bytes' past
            storage.history.follow(self._take_past(absolute, absolute + nbytes))
        self.storage.keep()
        storage.released = lambda: self._end(living, is_pool)
        return storage

    def inner(self, type: PoolType, storage: Storage, offset: int) -> "Pool":
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
        subject = f"%{name}"
        end = offset + nbytes
        if offset < 0 or end > self.storage.nbytes:
            message = (
                f"{subject} needs bytes {offset}..{end} of a pool of {self.storage.nbytes}"
            )
            raise FaultError(Code.RUN_PLACEMENT_OUT_OF_BOUNDS, message, subject=subject)
        problem = _mismatch(self.type, type, offset)
        if problem is not None:
            message = f"{subject} cannot be placed there: {problem}"
            raise FaultError(Code.RUN_PLACEMENT_MISMATCH, message, subject=subject)
        at = bisect_right(self.living, offset, key=_begin)
        for other in self.living[max(at - 1, 0) : at + 1]:
            if max(other.begin, offset) < min(other.end, end):
                message = (
                    f"{subject} needs bytes {offset}..{end} of the pool, "
                    f"%{other.name} lives in {other.begin}..{other.end}"
                )
                raise FaultError(Code.RUN_PLACEMENT_OVERLAP, message, subject=subject)

    def _end(self, living: _Living, is_pool: bool) -> None:
        """Give the bytes back to the pool."""
        if living.begin < living.end:
            at = bisect_left(self.living, living.begin, key=_begin)
            del self.living[at]
            if not is_pool:  # what was placed in it has noted its own bytes
                begin, end = self.begin + living.begin, self.begin + living.end
                insort(self.past, _Past(begin, end, living.storage.history), key=_begin)
        self.storage.drop()

    def _take_past(self, begin: int, end: int) -> list[History]:
        """Remove bytes from the past and return who used them."""
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
    block, base = guarded_bytes(type.device, nbytes, type.alignment)
    storage = Storage(
        memory=block.untyped_storage(),
        base=base,
        nbytes=nbytes,
        owner=Owner.BLOCK,
        writable=True,
        type=None,
    )
    storage.fill(zeroed=False)
    return Pool(type=type, storage=storage, begin=0, block=block[base:])


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
