"""Places of storages that are known before the run.

A frame has one arena of CPU memory for all calls that it runs, and a call one block of
memory on each other device.  A storage lies there if its size is known, nothing of it
outlives the call, and no operator looks past its tensor at the memory around it, gives the
tensor another layout, or may keep it.  A block on another device holds only what it may
without a higher peak, and only from its first to its last use.
"""

from collections.abc import Iterable, Mapping, Sequence

from attrs import define, field, frozen

from wrapperir.analysis import (
    UNIT,
    Entry,
    Footprints,
    Storage,
    StorageKind,
    block_entry,
    find_storages,
    program_entry,
    storage_bytes,
)
from wrapperir.ir import (
    CPU,
    DEFAULT_SPACE,
    Argument,
    BodyLine,
    BufferRef,
    Device,
    ExternKernelLine,
    GraphRegionLine,
    Program,
    TensorType,
)
from wrapperir.ir.line_effects import LineEffects
from wrapperir.ir.storage_operators import needs_own_tensors
from wrapperir.passes.pool_choice import BufferCandidate, PoolClass, choose_pools
from wrapperir.planning import Buffer, plan, plan_greedily

ALIGNMENT = 64
"""Bytes that every storage in an arena is aligned to, if it promises no more."""
_MOST_ALIGNED = 4096
_LARGEST = 2**40


@frozen
class Region:
    """The memory of one device: its size, and the byte ranges that begin as zero.

    It is used from before the program's line ``begin`` until after its line ``end``.
    """

    bytes: int
    alignment: int
    zeroed: tuple[tuple[int, int], ...] = ()
    begin: int = 0
    end: int = 0


@frozen
class ArenaPlan:
    """Byte offsets of names in the regions of their devices.

    The memory that a call has on a GPU is not there for the next, so workspaces of the
    program, ``kept_names``, lie in a region of their own.
    """

    offsets: Mapping[str, int]
    regions: Mapping[Device, Region]
    kept: Mapping[Device, Region]
    kept_names: frozenset[str]


def plan_arena(
    program: Program, kinds: frozenset[str], *, has_streams: bool = False
) -> ArenaPlan:
    """Return the places of the storages that have one, nested blocks included.

    ``kinds`` are the kinds of device that have regions besides the CPU.  With
    ``has_streams``, storages there share no bytes, as lines that are in order may run at
    once on two streams, and those of graph regions, which end before the call, have none.
    """
    found = _ArenaStorages(LineEffects.of_program(program), kinds)
    found.add_block(program.lines, program.outputs, program_entry(program), {})
    offsets: dict[str, int] = {}
    regions: dict[Device, Region] = {}
    kept: dict[Device, Region] = {}
    kept_names: set[str] = set()
    groups: dict[tuple[Device, bool], list[_ArenaStorage]] = {}
    for candidate in found.candidates:
        if candidate.storage not in found.excluded:
            device = plain_device(candidate.storage.type.device)
            if has_streams and candidate.in_graph_region and device != CPU:
                continue
            is_kept = device != CPU and candidate.storage.kind is StorageKind.PROGRAM
            groups.setdefault((device, is_kept), []).append(candidate)
    for (device, is_kept), candidates in groups.items():
        begin, end = 0, len(program.lines)
        if device != CPU and not is_kept and not has_streams:
            candidates, begin, end = _within_peak(program, candidates)
            if not candidates:
                continue
        buffers = [
            candidate.buffer(found.time, stays=has_streams and device != CPU)
            for candidate in candidates
        ]
        solved = plan_greedily(buffers) if device == CPU else plan(buffers)
        zeroed: list[tuple[int, int]] = []
        for candidate, buffer, offset in zip(
            candidates, buffers, solved.offsets, strict=True
        ):
            offsets[candidate.storage.name] = offset
            if candidate.storage.kind is StorageKind.PROGRAM:
                zeroed.append((offset, buffer.size))
        alignment = max(buffer.alignment for buffer in buffers)
        region = Region(solved.height, alignment, tuple(zeroed), begin, end)
        (kept if is_kept else regions)[device] = region
        if is_kept:
            kept_names.update(candidate.storage.name for candidate in candidates)
    return ArenaPlan(offsets, regions, kept, frozenset(kept_names))


def _within_peak(
    program: Program, candidates: Sequence["_ArenaStorage"]
) -> tuple[list["_ArenaStorage"], int, int]:
    """Return candidates that may share a block without a higher peak, and its lines.

    A block takes its whole height while it is there, as a pool of ``plan_memory`` does.
    """
    footprints = Footprints.of_program(program)
    entry = program_entry(program)
    _, footprint = footprints.of(program.lines, program.outputs, entry)
    found: dict[BufferCandidate, _ArenaStorage] = {}
    groups: dict[PoolClass, list[BufferCandidate]] = {}
    for candidate in candidates:
        storage = candidate.storage
        dimension, size = footprints.dimension(storage)
        if candidate.line is None and size:
            alignment = max(storage.type.alignment or 1, ALIGNMENT) // UNIT
            begin, end = storage.begin, storage.end
            buffer = BufferCandidate(begin, end, max(end, begin + 1), size, alignment)
            kind = PoolClass(dimension, storage.type.device, DEFAULT_SPACE, False)
            groups.setdefault(kind, []).append(buffer)
            found[buffer] = candidate
    pools = choose_pools(groups, footprint, len(program.lines))
    if not pools:
        return [], 0, 0
    block = max(pools, key=lambda pool: len(pool.buffers))
    chosen = [found[buffer] for buffer in block.buffers]
    nested = [
        candidate
        for candidate in candidates
        if candidate.line is not None and block.begin <= candidate.line < block.end
    ]
    if nested:
        buffers = [each.buffer(0, stays=False) for each in (*chosen, *nested)]
        if plan(buffers).height <= block.height * UNIT:
            chosen += nested
    return chosen, block.begin, block.end


def plain_device(device: Device) -> Device:
    """Return the device without an index that is 0: ``cuda:0`` is ``cuda``."""
    return Device(device.kind) if device.index == 0 else device


@frozen(eq=False)
class _ArenaStorage:
    """A storage that may be placed; ``line`` is the program's line of a nested block."""

    storage: Storage
    begin: int
    end: int
    line: int | None
    in_graph_region: bool

    def buffer(self, time: int, *, stays: bool) -> Buffer:
        """Return the planner's buffer; a workspace of the program is always alive."""
        bytes = storage_bytes(self.storage.type)
        assert isinstance(bytes, int)
        alignment = max(self.storage.type.alignment or 1, ALIGNMENT)
        if stays or self.storage.kind is StorageKind.PROGRAM:
            return Buffer(bytes, 0, time, alignment)
        return Buffer(bytes, self.begin, self.end, alignment)


@define
class _ArenaStorages:
    """Storages that could be placed, found in the order in which lines run.

    ``time`` counts the lines of all blocks.
    """

    effects: LineEffects
    kinds: frozenset[str]
    candidates: list[_ArenaStorage] = field(factory=list[_ArenaStorage])
    excluded: set[Storage] = field(factory=set[Storage])
    time: int = 0
    _lenders: dict[Storage, tuple[Storage, ...]] = field(
        factory=dict[Storage, tuple[Storage, ...]]
    )

    def add_block(
        self,
        lines: Sequence[BodyLine],
        results: Iterable[Argument],
        entry: Entry,
        lent: Mapping[str, tuple[Storage, ...]],
        outer: int | None = None,
        *,
        in_graph_region: bool = False,
    ) -> None:
        """Add the storages of a block; ``lent`` has the storages behind its parameters.

        ``outer`` is the program's line that a nested block belongs to.
        """
        found = find_storages(lines, results, entry, self.effects)
        for name, storages in lent.items():
            for parameter in found.of_name.get(name, ()):
                self._lenders[parameter] = storages
        times: list[int] = []
        for index, line in enumerate(lines):
            times.append(self.time)
            self.time += 1
            done = self.effects.visit(line)
            if isinstance(line, ExternKernelLine) and needs_own_tensors(line.operator):
                for name in done.uses:
                    self._exclude_all(found.of_name.get(name, ()))
            for nested in done.blocks:
                lent = {
                    parameter.name: found.of_name.get(operand.name, ())
                    for parameter, operand in zip(
                        nested.block.parameters, nested.operands, strict=True
                    )
                    if isinstance(operand, BufferRef)
                }
                block = nested.block
                at = index if outer is None else outer
                self.add_block(
                    *(block.lines, block.results, block_entry(block), lent, at),
                    in_graph_region=in_graph_region or isinstance(line, GraphRegionLine),
                )
        times.append(self.time)
        for storage in found.storages:
            if storage.escapes:
                self._exclude(storage)
            if storage.kind is StorageKind.PLACED and not isinstance(storage.offset, int):
                self._exclude(storage)
            if _is_plain(storage, self.kinds):
                begin, end = times[storage.begin], times[storage.end]
                self.candidates.append(
                    _ArenaStorage(storage, begin, end, outer, in_graph_region)
                )

    def _exclude_all(self, storages: Iterable[Storage]) -> None:
        for storage in storages:
            self._exclude(storage)

    def _exclude(self, storage: Storage) -> None:
        """Exclude a storage, its pool, and the operands that it is a parameter for."""
        if storage not in self.excluded:
            self.excluded.add(storage)
            if storage.pool is not None:
                self._exclude(storage.pool)
            self._exclude_all(self._lenders.get(storage, ()))


_PLANNED = frozenset({StorageKind.ALLOCATED, StorageKind.POOL, StorageKind.PROGRAM})


def _is_plain(storage: Storage, kinds: frozenset[str]) -> bool:
    """Return whether a storage may have a place, if its uses allow it."""
    type = storage.type
    bytes = storage_bytes(type)
    return (
        storage.kind in _PLANNED
        and isinstance(bytes, int)
        and 0 <= bytes <= _LARGEST
        and (plain_device(type.device) == CPU or type.device.kind in kinds)
        and type.space == DEFAULT_SPACE
        and not type.pinned
        and (type.alignment or 1) <= _MOST_ALIGNED
        and not (isinstance(type, TensorType) and type.layout is not None)
    )
