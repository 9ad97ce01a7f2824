"""Place buffers of kernels in a memory space of limited size."""

from bisect import insort
from collections.abc import Iterator, Mapping

from attrs import evolve

from wrapperir import ir
from wrapperir.analysis import (
    BlockStorages,
    Storage,
    StorageKind,
    StreamOrder,
    find_storages,
    order_streams,
    program_entry,
    storage_bytes,
)
from wrapperir.ir.line_effects import LineEffects, value_names
from wrapperir.planning import Buffer, plan

ALIGNMENT = 128
"""Bytes to which offsets are aligned and sizes rounded up."""

_ALLOWED_USES = (ir.FreeLine, ir.KernelCallLine, ir.ReinterpretLine, ir.ReuseLine)


def place_in_space(
    program: ir.Program, *, device: str, space: str, capacity: int
) -> ir.Program:
    """Return the program with buffers of kernels in a pool of a memory space.

    Buffers of ``device``, such as ``cuda:0``, that only kernels use are placed in one pool
    of at most ``capacity`` bytes.  Where more bytes would be alive, the buffers that live
    longest stay where they are.  Buffers of nested blocks stay, too.  A program that has a
    pool of the device in the memory space is returned as it is.
    """
    pools = [line.type for line in program.lines if isinstance(line, ir.AllocatePoolLine)]
    if (device, space) in [(str(each.device), each.space) for each in pools]:
        return program
    entry, effects = program_entry(program), LineEffects.of_program(program)
    found = find_storages(program.lines, program.outputs, entry, effects)
    order = order_streams(found.effects)
    buffers = [s for s in _of_kernels(program, found) if str(s.type.device) == device]
    live = {each: _live_range(each, order) for each in buffers}
    chosen = _longest_outside(live, capacity)
    offsets = plan([live[each] for each in chosen], capacity=capacity).offsets
    ends = {s: at + live[s].size for s, at in zip(chosen, offsets, strict=True)}
    placed = [each for each in chosen if ends[each] <= capacity]  # a plan may be higher
    if not placed:
        return program
    type = ir.PoolType(
        size=max(ends[each] for each in placed),
        device=placed[0].type.device,
        space=space,
        alignment=max(live[each].alignment for each in placed),
    )
    pool = ir.FreshNames(value_names(program)).new(None, "pool")
    at = {name: ends[each] - live[each].size for each in placed for name in each.names}
    lines = [_moved(line, at, pool, space) for line in program.lines]
    lines.insert(1 + max(each.end for each in placed), ir.FreeLine(buffer=pool))
    first = min(each.begin for each in placed)
    lines.insert(first, ir.AllocatePoolLine(result=pool, type=type))
    return evolve(program, lines=tuple(lines))


def _of_kernels(program: ir.Program, found: BlockStorages) -> Iterator[Storage]:
    """Yield the buffers in main memory, of known size, that only kernels use."""
    others = {
        storage
        for line, effects in zip(program.lines, found.effects, strict=True)
        if not isinstance(line, _ALLOWED_USES)
        for name in effects.uses
        for storage in found.of_name.get(name, ())
    }
    for each in found.storages:
        type = each.type
        if (
            each.kind is StorageKind.ALLOCATED
            and isinstance(type, ir.TensorType)
            and isinstance(storage_bytes(type), int)
            and type.space == ir.DEFAULT_SPACE
            and not (type.pinned or type.layout or each.escapes or each in others)
        ):
            yield each


def _live_range(storage: Storage, order: StreamOrder) -> Buffer:
    """Return a buffer's bytes and lines, up to where later work comes after its uses."""
    launches = [(use.line, use.stream) for use in storage.uses if use.stream is not None]
    end = max([storage.end, *(order.settled(*launch) for launch in launches)])
    size = storage_bytes(storage.type)
    assert isinstance(size, int)
    rounded = -(-size // ALIGNMENT) * ALIGNMENT
    return Buffer(rounded, storage.begin, end, max(storage.type.alignment or 1, ALIGNMENT))


def _longest_outside(live: Mapping[Storage, Buffer], capacity: int) -> list[Storage]:
    """Return buffers of which at most ``capacity`` bytes are alive at any line.

    Poletto and Sarkar, "Linear scan register allocation", 1999.
    """
    inside = {each: own for each, own in live.items() if 0 < own.size <= capacity}
    alive: list[tuple[int, int, Storage]] = []  # by the ends of their live ranges
    total = 0
    for each, own in list(inside.items()):
        while alive and alive[0][0] <= own.begin:
            total -= live[alive.pop(0)[2]].size
        insort(alive, (own.end, own.begin, each))
        total += own.size
        while total > capacity:
            total -= inside.pop(alive.pop()[2]).size
    return list(inside)


def _moved(line: ir.BodyLine, at: Mapping[str, int], pool: str, space: str) -> ir.BodyLine:
    """Return the line, in the memory space if it defines a name of a placed buffer."""
    match line:
        case ir.AllocateLine(result=name, type=type) if name in at:
            return ir.PlaceLine(
                result=name,
                type=evolve(type, space=space),
                pool=pool,
                offset=at[name],
                workspace=line.workspace,
                provenance=line.provenance,
            )
        case ir.ReinterpretLine(result=name) | ir.ReuseLine(result=name) if name in at:
            return evolve(line, type=evolve(line.type, space=space))
        case _:
            return line
