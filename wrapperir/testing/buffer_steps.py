"""Steps that add lines of memory: buffers, views, workspaces, pools, pools in pools."""

from attrs import evolve

from wrapperir import ir as wir
from wrapperir.testing.generator import BlockGenerator, NothingToUseError, Tracked
from wrapperir.testing.kernels import KernelKind
from wrapperir.testing.pool_space import PoolSpace

_DTYPES = (wir.DType.F32, wir.DType.I64, wir.DType.F64)

FILLING = ("aten.fill_.Scalar",)
CHANGING = ("aten.neg_.default",)

_WORKSPACE_ELEMENTS = (64, 48)
"""Of a workspace that is kept between calls: enough for every size of a matrix."""


def allocate(generator: BlockGenerator) -> Tracked:
    """Allocate a buffer of some size, or place it; nothing is written yet."""
    world = generator.world
    dtype = generator.choose(_DTYPES)
    shapes = [world.matrix, world.flat, world.matrix, world.vector]
    made = generator.choose(shapes)(dtype)
    if generator.flip():
        made = evolve(made, alignment=generator.choose(world.alignments(16, 64, 128)))
    return generator.buffer(made)


def allocate_special(generator: BlockGenerator) -> None:
    """Allocate a matrix in memory that is not of the ordinary kind."""
    if generator.world.special_memory:
        matrix = generator.world.matrix(wir.DType.F32)
        options = [
            evolve(matrix, pinned=True),
            evolve(matrix, space="comm"),
            evolve(matrix, layout=wir.VendorLayout("acme.tiled", (16, "row"))),
        ]
        generator.buffer(generator.choose(options))


def free(generator: BlockGenerator) -> None:
    """Free a name, also of an input; views of its memory stay."""
    tracked = generator.pick(lambda t: t.owned or t.is_input)
    generator.block.free(tracked.value)
    generator.drop(tracked)


def free_tuple(generator: BlockGenerator) -> None:
    """Free a tuple; elements that were named stay."""
    if generator.tuples:
        tracked = generator.choose(generator.tuples)
        generator.block.free(tracked.value)
        generator.tuples = [other for other in generator.tuples if other is not tracked]


def reuse(generator: BlockGenerator) -> None:
    """Give a buffer's memory another name; views of it stay."""
    source = generator.pick(
        lambda t: (
            t.owned
            and not t.memory.lent
            and t.memory.certain
            and t.memory.numel == generator.world.numel
            and len(t.type.size) <= 2
        )
    )
    world, dtype = generator.world, source.type.dtype
    options = [world.matrix(dtype), world.flat(dtype), world.vector(dtype)]
    value = generator.block.reuse(source.value, _like(source, generator.choose(options)))
    generator.drop(source)
    generator.add(value, source.memory)


def reinterpret(generator: BlockGenerator) -> None:
    """Name a view of a matrix: flat, transposed, its first row or its last element."""
    source = generator.pick(generator.is_matrix)
    world, dtype = generator.world, source.type.dtype
    rows, columns = world.rows, world.columns
    options: list[wir.TensorType] = [
        world.flat(dtype),
        world.matrix(dtype),
        wir.tensor(dtype, (columns, rows), (1, columns)),
        wir.tensor(dtype, (columns,)),
        wir.tensor(dtype, (), offset=wir.mul(rows, columns) - 1),
    ]
    type = _like(source, generator.choose(options))
    generator.add(generator.block.reinterpret(source.value, type), source.memory)


def _like(source: Tracked, type: wir.TensorType) -> wir.TensorType:
    """Return a type in memory of the kind that ``source`` is in."""
    kind = source.type
    return evolve(type, space=kind.space, pinned=kind.pinned, layout=kind.layout)


def write_halves(generator: BlockGenerator) -> None:
    """Write a buffer through two views that share no byte, each later free to change."""
    world = generator.world
    if world.columns < 2:
        return
    target = generator.find(lambda t: generator.is_matrix(t) and generator.fills(t))
    if target is None:
        target = generator.buffer(world.matrix(generator.choose(_DTYPES)))
    dtype, half = target.type.dtype, world.columns // 2
    for begin, end in ((0, half), (half, world.columns)):
        size, stride = (world.rows, end - begin), (world.columns, 1)
        type = _like(target, wir.tensor(dtype, size, stride, offset=begin))
        view = generator.block.reinterpret(target.value, type)
        (operator,) = FILLING
        generator.block.extern_out(operator, view, end, writes=(view,))
        generator.add(view, target.memory)
    target.memory.written = True


def change_view(generator: BlockGenerator) -> None:
    """Change part of a buffer, or all of it, through any view of it."""
    target = generator.pick(
        lambda t: t.memory.writable and t.memory.certain and t.memory.written
    )
    if target.type.dtype is not wir.DType.BOOL:
        view = target.value
        (operator,) = CHANGING
        generator.block.extern_out(operator, view, writes=(view,))


def use_workspaces(generator: BlockGenerator) -> None:
    """Call kernels with workspaces in one of the three zero modes."""
    mode = generator.workspace_mode()
    for _ in range(generator.choose((1, 2, 3))):
        _use_workspace(generator, mode)


def _use_workspace(generator: BlockGenerator, mode: wir.ZeroMode) -> None:
    world = generator.world
    source = generator.pick_matrix(wir.DType.F32)
    is_clean = mode is not wir.ZeroMode.UNINITIALIZED
    kernel = generator.kernel(
        KernelKind.SCRATCH_ADD if is_clean else KernelKind.SCRATCH_WRITE
    )
    if mode is not wir.ZeroMode.ZERO_PER_PROGRAM:
        tracked = generator.buffer(world.flat(wir.DType.F32), workspace=mode)
        workspace, tracked.memory.written = tracked.value, True
    elif world.program_workspaces and generator.flip():
        workspace = generator.choose(world.program_workspaces)
    else:
        type = wir.tensor("f32", (generator.choose(_WORKSPACE_ELEMENTS),))
        workspace = generator.block.allocate(type, workspace=mode)
        world.program_workspaces.append(workspace)
    target = generator.buffer(world.matrix(wir.DType.F32))
    generator.block.call(kernel, source.value, workspace, target.value, world.numel)
    target.memory.written = True


_CONSTANT_UNITS = (16, 64)
_ALIGNMENTS = (64, 256)


def allocate_pool(generator: BlockGenerator) -> None:
    """Allocate a pool: of a constant size, or of one made of symbols."""
    world, block = generator.world, generator.block
    if not world.pools or len(generator.pools) > 2:
        return
    if generator.flip():
        unit = generator.choose(_CONSTANT_UNITS)
        largest = world.most(world.numel) * 8
        count = -(-largest * generator.choose((2, 4, 8)) // unit)
        alignment = generator.choose(world.alignments(*_ALIGNMENTS))
        type = wir.PoolType(size=unit * count, alignment=alignment)
        made = block.allocate_pool(type)
        pool = PoolSpace(made, unit, count, alignment=min(unit, alignment))
    else:
        numel = generator.choose([world.numel, world.rows, *generator.sizes])
        is_aligned = generator.flip()
        nbytes = wir.mul(numel, 8)  # elements have at most 8 bytes
        unit_bytes = wir.mul(wir.ceildiv(nbytes, 64), 64) if is_aligned else nbytes
        count = generator.choose((2, 4, 8))
        (alignment,) = world.alignments(wir.POOL_ALIGNMENT)
        type = wir.PoolType(size=wir.mul(unit_bytes, count), alignment=alignment)
        pool = PoolSpace(
            block.allocate_pool(type),
            unit_bytes,
            count,
            alignment=alignment if is_aligned else min(alignment, 8),
            numel=numel,
            smaller=(world.rows,) if numel == world.numel else (),
        )
    generator.pools.append(pool)


def place_pool(generator: BlockGenerator) -> None:
    """Place a pool in a pool."""
    options = [pool for pool in generator.pools if pool.count > 1]
    if not options:
        raise NothingToUseError
    outer = generator.choose(options)
    count = generator.choose(range(1, outer.count))
    inner = evolve(outer, count=count, owned=True, taken=[])
    first = generator.take(outer, count, inner)
    if first is not None:
        offset = wir.mul(outer.unit, first)
        inner.value = generator.block.place(outer.value, offset, outer.type_of(count))
        generator.pools.append(inner)


def free_pool(generator: BlockGenerator) -> None:
    """Free a pool's name; its placements keep their memory."""
    options = [pool for pool in generator.pools if pool.owned]
    if options:
        pool = generator.choose(options)
        generator.block.free(pool.value)
        generator.pools = [other for other in generator.pools if other is not pool]


STEPS = (
    allocate,
    allocate_special,
    write_halves,
    change_view,
    reinterpret,
    reuse,
    free,
    free_tuple,
    use_workspaces,
    use_workspaces,
    allocate_pool,
    place_pool,
    free_pool,
)
"""The steps of this module; a step that is listed twice is drawn twice as often."""
