"""Steps that add pools, and pools in pools; buffers are placed where they have room."""

from wrapperir.ir.expr import mul
from wrapperir.ir.types import PoolType
from wrapperir.testing.growing import Growing
from wrapperir.testing.rooms import Room, units_of

_CONSTANT_UNITS = (16, 64)
_ALIGNMENTS = (64, 256)


def allocate_pool(growing: Growing) -> None:
    """Allocate a pool: of a constant size, or of one made of symbols."""
    world = growing.world
    if not world.pools or len(growing.rooms) > 2:
        return
    if growing.flip():
        unit = growing.choose(_CONSTANT_UNITS)
        largest = world.most(world.numel) * 8
        count = -(-largest * growing.choose((2, 4, 8)) // unit)
        alignment = growing.choose(_ALIGNMENTS)
        room = _allocated(growing, PoolType(size=unit * count, alignment=alignment))
        room.unit, room.count, room.alignment = unit, count, unit
    else:
        numel = growing.choose([world.numel, world.rows, *growing.sizes])
        aligned = growing.flip()
        unit_bytes = units_of(numel, aligned=aligned)
        count = growing.choose((2, 4, 8))
        room = _allocated(growing, PoolType(size=mul(unit_bytes, count)))
        room.unit, room.count, room.numel = unit_bytes, count, numel
        room.smaller = (world.rows,) if numel == world.numel else ()
        room.alignment = 64 if aligned else 8
    growing.rooms.append(room)


def _allocated(growing: Growing, type: PoolType) -> Room:
    return Room(growing.block.allocate_pool(type), 1, 0, type.alignment)


def place_pool(growing: Growing) -> None:
    """Place a pool in a pool."""
    options = [room for room in growing.rooms if room.count > 1]
    if not options:
        return
    outer = growing.choose(options)
    inner = Room(
        outer.value,
        outer.unit,
        growing.choose(range(1, outer.count)),
        outer.alignment,
        outer.numel,
        outer.smaller,
        leaves=outer.leaves,
    )
    first = growing.take(outer, inner.count, inner)
    if first is not None:
        inner.value = growing.block.place(
            outer.value, mul(outer.unit, first), outer.type_of(inner.count)
        )
        growing.rooms.append(inner)


def free_pool(growing: Growing) -> None:
    """Free a pool's name; what is placed in it keeps its memory."""
    options = [room for room in growing.rooms if room.owned]
    if options:
        room = growing.choose(options)
        growing.block.free(room.value)
        growing.rooms = [other for other in growing.rooms if other is not room]
