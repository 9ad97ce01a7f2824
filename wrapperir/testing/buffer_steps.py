"""Steps that add lines of memory: allocations, views, reuses, frees and workspaces."""

from attrs import evolve

from wrapperir.ir.expr import mul
from wrapperir.ir.line import ZeroMode
from wrapperir.ir.types import DType, TensorType, VendorLayout, tensor
from wrapperir.testing.growing import Growing, Tracked
from wrapperir.testing.kernels import KernelKind

_DTYPES = (DType.F32, DType.I64, DType.F64)

_WORKSPACE_ELEMENTS = (64, 48)
"""Of a workspace that is kept between calls: enough for every size of a matrix."""


def allocate(growing: Growing) -> Tracked:
    """Allocate a buffer of some size, or place it; nothing is written yet."""
    world = growing.world
    dtype = growing.choose(_DTYPES)
    shapes = [world.matrix, world.flat, world.matrix, world.vector]
    made = growing.choose(shapes)(dtype)
    if growing.flip():
        made = evolve(made, alignment=growing.choose((16, 64, 128)))
    return growing.buffer(made)


def allocate_special(growing: Growing) -> None:
    """Allocate a matrix in memory that is not of the ordinary kind."""
    if growing.world.special_memory:
        matrix = growing.world.matrix(DType.F32)
        options = [
            evolve(matrix, pinned=True),
            evolve(matrix, space="comm"),
            evolve(matrix, layout=VendorLayout("acme.tiled", (16, "row"))),
        ]
        growing.buffer(growing.choose(options))


def free(growing: Growing) -> None:
    """Free a name, also of an input; views of its memory stay."""
    tracked = growing.pick(lambda t: t.owned or t.is_input)
    if tracked is not None:
        growing.block.free(tracked.value)
        growing.drop(tracked)


def free_tuple(growing: Growing) -> None:
    """Free a tuple; elements that were named stay."""
    if growing.tuples:
        tracked = growing.choose(growing.tuples)
        growing.block.free(tracked.value)
        growing.tuples = [other for other in growing.tuples if other is not tracked]


def reuse(growing: Growing) -> None:
    """Give a buffer's memory another name; views of it stay."""
    source = growing.pick(
        lambda t: (
            t.owned
            and not t.memory.lent
            and t.memory.certain
            and t.memory.numel == growing.world.numel
            and len(t.type.size) <= 2
        )
    )
    if source is None:
        return
    world, dtype = growing.world, source.type.dtype
    options = [world.matrix(dtype), world.flat(dtype), world.vector(dtype)]
    value = growing.block.reuse(source.value, _like(source, growing.choose(options)))
    growing.drop(source)
    growing.add(value, source.memory)


def reinterpret(growing: Growing) -> None:
    """Name a view of a matrix: flat, transposed, its first row or its last element."""
    source = growing.pick(growing.is_matrix)
    if source is None:
        return
    world, dtype = growing.world, source.type.dtype
    rows, columns = world.rows, world.columns
    options: list[TensorType] = [
        world.flat(dtype),
        world.matrix(dtype),
        tensor(dtype, (columns, rows), (1, columns)),
        tensor(dtype, (columns,)),
        tensor(dtype, (), offset=mul(rows, columns) - 1),
    ]
    type = _like(source, growing.choose(options))
    growing.add(growing.block.reinterpret(source.value, type), source.memory)


def _like(source: Tracked, type: TensorType) -> TensorType:
    """Return a type in memory of the kind that ``source`` is in."""
    kind = source.type
    return evolve(type, space=kind.space, pinned=kind.pinned, layout=kind.layout)


def write_halves(growing: Growing) -> None:
    """Write a buffer through two views that share no byte, each later free to change."""
    world = growing.world
    if world.columns < 2:
        return
    target = growing.pick(lambda t: growing.is_matrix(t) and growing.fills(t))
    if target is None:
        target = growing.buffer(world.matrix(growing.choose(_DTYPES)))
    dtype, half = target.type.dtype, world.columns // 2
    for begin, end in ((0, half), (half, world.columns)):
        size, stride = (world.rows, end - begin), (world.columns, 1)
        type = _like(target, tensor(dtype, size, stride, offset=begin))
        view = growing.block.reinterpret(target.value, type)
        growing.block.extern_out("aten.fill_.Scalar", view, end, writes=(view,))
        growing.add(view, target.memory)
    target.memory.written = True


def change_view(growing: Growing) -> None:
    """Change part of a buffer, or all of it, through any view of it."""
    target = growing.pick(
        lambda t: t.memory.writable and t.memory.certain and t.memory.written
    )
    if target is not None and target.type.dtype is not DType.BOOL:
        view = target.value
        growing.block.extern_out("aten.neg_.default", view, writes=(view,))


def use_workspaces(growing: Growing) -> None:
    """Call kernels with workspaces in one of the three zero modes."""
    modes = list(ZeroMode) if growing.depth == 0 else list(ZeroMode)[:2]
    mode = growing.choose(modes)
    for _ in range(growing.choose((1, 2, 3))):
        _use_workspace(growing, mode)


def _use_workspace(growing: Growing, mode: ZeroMode) -> None:
    world = growing.world
    source = growing.pick_matrix(DType.F32)
    if source is None or not world.languages:
        return
    kept = mode is ZeroMode.ZERO_PER_PROGRAM
    if kept and world.program_workspaces and growing.flip():
        workspace = growing.choose(world.program_workspaces)
    else:
        if kept:
            type = tensor("f32", (growing.choose(_WORKSPACE_ELEMENTS),))
            workspace = growing.block.allocate(type, workspace=mode)
            world.program_workspaces.append(workspace)
        else:
            tracked = growing.buffer(world.flat(DType.F32), workspace=mode)
            workspace, tracked.memory.written = tracked.value, True
    target = growing.buffer(world.matrix(DType.F32))
    kind = (
        KernelKind.SCRATCH_WRITE
        if mode is ZeroMode.UNINITIALIZED
        else KernelKind.SCRATCH_ADD
    )
    kernel = world.kernel(kind, growing.choose(world.languages))
    growing.block.call(kernel, source.value, workspace, target.value, world.numel)
    target.memory.written = True
