# PyTorch's interfaces of memory pools carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false
"""Captures of a block's work as CUDA graphs, and the memory that they share.

All programs of a process share this module: captures come one at a time, and captures for
one stream of a device share a pool of memory.  PyTorch's own captures are not used: while
one lasts, no other thread can draw random numbers.
"""

import threading
import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

import torch

_SPACING = 512  # bytes between displaced operands at least: the alignment of allocations
_MOST_ROOM = 64 << 20  # bytes in which displaced operands lie

_lock = threading.RLock()  # held while a block is captured
_torch: Any = torch._C


class CapturePool:
    """The memory of captures for one stream of a device, and the stream of captures."""

    def __init__(self, device: int, stream: int) -> None:
        """Make a pool without memory."""
        self.device = device
        self.replaced = stream
        self.handle = torch.cuda.graph_pool_handle()
        self.stream = _stream(device, stream, _OWN)
        self._is_held = False

    def begin(self) -> None:
        """Have this thread allocate from the pool."""
        _torch._cuda_beginAllocateCurrentThreadToPool(self.device, self.handle)
        _thread.pool = self

    def end(self) -> None:
        """Have this thread allocate as before; the pool keeps its memory while it lives."""
        _thread.pool = None
        try:
            _torch._cuda_endAllocateToPool(self.device, self.handle)
        finally:  # each begin holds the memory, and the first hold stays
            release = _torch._cuda_releasePool
            if self._is_held:
                release(self.device, self.handle)
            else:
                self._is_held = True
                weakref.finalize(self, release, self.device, self.handle).atexit = False


class _Thread(threading.local):
    pool: CapturePool | None = None  # of the capture of this thread


_OWN = 0  # the number of the stream that stands for a region's own
_thread = _Thread()
_PoolKey: TypeAlias = tuple[int, int]
recorders: weakref.WeakSet[Any] = weakref.WeakSet()
"""Those of all regions of loaded programs."""
_pools: weakref.WeakValueDictionary[_PoolKey, CapturePool] = weakref.WeakValueDictionary()
_streams: dict[tuple[int, int | None, int], torch.cuda.Stream] = {}


def _stream(device: int, replaced: int | None, number: int) -> torch.cuda.Stream:
    """Return a stream of captures for the stream ``replaced``, or of no capture."""
    key = device, replaced, number
    made = _streams.get(key)
    if made is None:
        make: Any = torch.cuda.Stream
        made = _streams.setdefault(key, make(device))
    return made


def drop_recordings() -> None:
    """Drop what the regions of all loaded programs have recorded."""
    for recorder in list(recorders):
        recorder.drop_recordings()


def side_stream(device: int, number: int) -> torch.cuda.Stream:
    """Return the stream of a region with a number, which is not the region's own stream.

    Captures have streams that are given no other work.
    """
    pool = _thread.pool
    return _stream(device, None if pool is None else pool.replaced, number)


@contextmanager
def recording(device: int, stream: int) -> Generator[CapturePool]:
    """Give the pool of a stream to one thread at a time.

    At the end, PyTorch gives back what it keeps of the pool between calls: workspaces of
    cuBLAS.
    """
    with _lock:
        try:
            yield _pool_of(device, stream)
        finally:
            _torch._cuda_clearCublasWorkspaces()


def _pool_of(device: int, stream: int) -> CapturePool:
    """Return the pool of a stream, which lives as long as somebody has it."""
    key = device, stream
    pool = _pools.get(key)
    if pool is None:
        pool = _pools[key] = CapturePool(device, stream)
    return pool


class Capture(NamedTuple):
    """A captured graph, and the block's results, whose memory is the pool's."""

    graph: Any
    results: Any


def capture(
    native: Any, block: Callable[..., Any], given: Sequence[Any], pool: CapturePool
) -> Capture:
    """Capture the work of a call of ``block`` on the pool's stream.

    ``native`` is the extension module of graphs.

    Raises:
        Exception: the block does what no capture allows, or fails.
    """
    stream = pool.stream.cuda_stream
    with torch.cuda.stream(pool.stream):
        pool.begin()
        try:
            native.begin(stream)
            try:
                results = block(*given)
            except BaseException:
                native.abandon(stream)
                raise
            return Capture(native.end(stream), results)
        finally:
            pool.end()


def displace(
    operands: Sequence[torch.Tensor], device: int
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Return tensors like the operands, each at a distance of its own, and their memory.

    They overlap: nothing may read or write them.
    """
    target = torch.device("cuda", device)
    largest = max((x.untyped_storage().nbytes() for x in operands), default=0)
    size = min(largest, _MOST_ROOM) + (len(operands) + 2) * _SPACING
    room = torch.empty(size, dtype=torch.uint8, device=target)
    base = -(-room.data_ptr() // _SPACING) * _SPACING
    made: list[torch.Tensor] = []
    distances: set[int] = set()
    for tensor in operands:
        storage = tensor.untyped_storage()
        address = base + storage.data_ptr() % _SPACING
        while address - storage.data_ptr() in distances:
            address += _SPACING
        distances.add(address - storage.data_ptr())
        moved = _torch._construct_storage_from_data_pointer(
            address, target, storage.nbytes()
        )
        empty = torch.empty(0, dtype=tensor.dtype, device=target)
        layout = tensor.storage_offset(), tensor.shape, tensor.stride()
        made.append(empty.set_(moved, *layout))
    return made, room
