"""Delay each free until the stream that gets the memory may use it."""

from collections import defaultdict
from collections.abc import Sequence

from wrapperir import ir
from wrapperir.analysis import (
    BlockStorages,
    Body,
    Storage,
    StorageKind,
    find_storages,
    order_streams,
    rewrite_bodies,
)
from wrapperir.ir.effects import Effects
from wrapperir.ir.line_effects import LineEffects, value_names

_FROM_CALLER = (StorageKind.INPUT, StorageKind.DONATED, StorageKind.SCATTERED)


def delay_frees(program: ir.Program) -> ir.Program:
    """Return the program with frees that need no help from the device's allocator.

    Memory returns to its home: the first stream that uses it, or stream 0 for an input.
    The free that releases memory moves behind the last work of the home that nothing
    orders after all uses.  If it also ends a buffer in a pool, the home waits instead.
    """
    effects = LineEffects.of_program(program)
    names = ir.FreshNames(value_names(program))
    return rewrite_bodies(program, lambda body: _delayed(body, effects, names))


def _delayed(
    body: Body, line_effects: LineEffects, names: ir.FreshNames
) -> list[ir.BodyLine]:
    """Return the lines of one block with its frees delayed."""
    found = find_storages(body.lines, body.results, body.entry, line_effects)
    order = order_streams(found.effects)
    parts: dict[Storage, list[Storage]] = defaultdict(list)
    for storage in found.storages:
        parts[_memory_of(storage)].append(storage)
    safe: dict[int, int] = defaultdict(int)
    waits: dict[int, list[tuple[ir.Device, int, int]]] = defaultdict(list)
    for memory, placed in parts.items():
        uses = _uses(placed, found.effects)
        homes = [h for h in _homes(memory, uses, found.effects) if h in order.launches]
        among = {home: order.launches[home] for home in homes}
        settled = [order.settled(*use, among) for use in uses]
        safe[memory.end] = max([safe[memory.end], *settled])
        pairs = dict.fromkeys((h, s) for h in homes for _, s in uses if s != h)
        waits[memory.end] += [(memory.type.device, h.number, s.number) for h, s in pairs]
    lines: list[ir.BodyLine] = []
    moved: dict[int, list[ir.BodyLine]] = defaultdict(list)
    for index, line in enumerate(body.lines):
        if safe[index] > index and not _is_in_living_pool(line, index, found):
            moved[safe[index] - 1].append(line)
        else:
            for device, home, user in waits[index] if safe[index] > index else ():
                event = names.new(None, "event")
                lines.append(ir.RecordEventLine(result=event, device=device, stream=user))
                lines.append(ir.WaitEventLine(event=event, device=device, stream=home))
            lines.append(line)
        lines += moved[index]
    return lines


def _memory_of(storage: Storage) -> Storage:
    """Return what was allocated: the outermost pool of a storage in a pool."""
    while storage.pool is not None:
        storage = storage.pool
    return storage


def _is_in_living_pool(line: ir.BodyLine, index: int, found: BlockStorages) -> bool:
    """Return whether a free ends a name of a buffer whose place another may take next."""
    assert isinstance(line, ir.FreeLine)
    held = found.of_name[line.buffer]
    return any(each.pool is not None and _memory_of(each).end > index for each in held)


_Uses = Sequence[tuple[int, ir.Stream]]
"""Lines, in order, and the streams on which they use some memory."""


def _uses(parts: Sequence[Storage], effects: Sequence[Effects]) -> _Uses:
    used = [(u.line, u.stream) for part in parts for u in part.uses]
    made = [part.begin for part in parts if part.kind is StorageKind.OPERATOR]
    used += [(line, effects[line].stream) for line in made]
    return sorted(
        [(line, stream) for line, stream in used if stream is not None],
        key=lambda use: use[0],
    )


def _homes(
    memory: Storage, uses: _Uses, effects: Sequence[Effects]
) -> dict[ir.Stream, None]:
    """Return the home; two streams if stream 0 zeroes the memory and does not use it first.

    An emitter may count the zeroing as a use or not.
    """
    if memory.kind in _FROM_CALLER:
        return {ir.Stream(memory.type.device): None}
    launched = [use for use in uses if effects[use[0]].launches]
    return dict.fromkeys(stream for _, stream in (*uses[:1], *launched[:1]))
