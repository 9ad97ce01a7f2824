"""Steps that add pools, and pools in pools; buffers are placed where these have space."""

from wrapperir.ir import PoolType, mul
from wrapperir.testing.generator import BlockGenerator
from wrapperir.testing.pool_space import PoolSpace, units_of

_CONSTANT_UNITS = (16, 64)
_ALIGNMENTS = (64, 256)


def allocate_pool(generator: BlockGenerator) -> None:
    """Allocate a pool: of a constant size, or of one made of symbols."""
    world = generator.world
    if not world.pools or len(generator.pools) > 2:
        return
    if generator.flip():
        unit = generator.choose(_CONSTANT_UNITS)
        largest = world.most(world.numel) * 8
        count = -(-largest * generator.choose((2, 4, 8)) // unit)
        alignment = generator.choose(_ALIGNMENTS)
        pool = _allocated(generator, PoolType(size=unit * count, alignment=alignment))
        pool.unit, pool.count, pool.alignment = unit, count, unit
    else:
        numel = generator.choose([world.numel, world.rows, *generator.sizes])
        aligned = generator.flip()
        unit_bytes = units_of(numel, aligned=aligned)
        count = generator.choose((2, 4, 8))
        pool = _allocated(generator, PoolType(size=mul(unit_bytes, count)))
        pool.unit, pool.count, pool.numel = unit_bytes, count, numel
        pool.smaller = (world.rows,) if numel == world.numel else ()
        pool.alignment = 64 if aligned else 8
    generator.pools.append(pool)


def _allocated(generator: BlockGenerator, type: PoolType) -> PoolSpace:
    return PoolSpace(generator.block.allocate_pool(type), 1, 0, type.alignment)


def place_pool(generator: BlockGenerator) -> None:
    """Place a pool in a pool."""
    options = [pool for pool in generator.pools if pool.count > 1]
    if not options:
        return
    outer = generator.choose(options)
    inner = PoolSpace(
        outer.value,
        outer.unit,
        generator.choose(range(1, outer.count)),
        outer.alignment,
        outer.numel,
        outer.smaller,
        leaves=outer.leaves,
    )
    first = generator.take(outer, inner.count, inner)
    if first is not None:
        inner.value = generator.block.place(
            outer.value, mul(outer.unit, first), outer.type_of(inner.count)
        )
        generator.pools.append(inner)


def free_pool(generator: BlockGenerator) -> None:
    """Free a pool's name; what is placed in it keeps its memory."""
    options = [pool for pool in generator.pools if pool.owned]
    if options:
        pool = generator.choose(options)
        generator.block.free(pool.value)
        generator.pools = [other for other in generator.pools if other is not pool]


STEPS = (
    allocate_pool,
    place_pool,
    free_pool,
)
"""The steps of this module; a step that is listed twice is drawn twice as often."""
