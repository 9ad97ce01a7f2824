"""Steps that add lines of memory: allocations, views, reuses, frees and workspaces."""

from wrapperir.ir.expr import mul
from wrapperir.ir.line import ZeroMode
from wrapperir.ir.types import DType, TensorType, tensor
from wrapperir.testing.growing import Growing, Memory, Tracked
from wrapperir.testing.kernels import KernelKind

_DTYPES = (DType.F32, DType.I64, DType.F64)

_WORKSPACE_ELEMENTS = 64
"""Of a workspace that is kept between calls: enough for every size of a matrix."""


def allocate(growing: Growing) -> Tracked:
    """Allocate a matrix or its elements in a row; nothing is written yet."""
    world = growing.world
    dtype = growing.choose(_DTYPES)
    made = world.flat(dtype) if growing.flip() else world.matrix(dtype)
    if growing.flip():
        made = tensor(made.dtype, made.size, alignment=16)
    value = growing.block.allocate(made)
    return growing.add(value, Memory(world.numel, written=False))


def free(growing: Growing) -> None:
    """Free a name, also of an input; views of its memory stay."""
    tracked = growing.pick(lambda t: t.owned or t.is_input)
    if tracked is not None:
        growing.block.free(tracked.value)
        growing.drop(tracked)


def free_tuple(growing: Growing) -> None:
    """Free a tuple; elements that were named stay."""
    if growing.tuples:
        value = growing.choose(growing.tuples)
        growing.block.free(value)
        growing.tuples = [other for other in growing.tuples if other is not value]


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
    value = growing.block.reuse(source.value, growing.choose(options))
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
    value = growing.block.reinterpret(source.value, growing.choose(options))
    growing.add(value, source.memory)


def use_workspace(growing: Growing) -> None:
    """Call a kernel with a workspace in one of the three zero modes."""
    world = growing.world
    source = growing.pick_matrix(DType.F32)
    if source is None or not world.languages:
        return
    modes = list(ZeroMode) if growing.depth == 0 else list(ZeroMode)[:2]
    mode = growing.choose(modes)
    kept = mode is ZeroMode.ZERO_PER_PROGRAM
    if kept and world.program_workspaces and growing.flip():
        workspace = growing.choose(world.program_workspaces)
    else:
        count = _WORKSPACE_ELEMENTS if kept else world.numel
        workspace = growing.block.allocate(tensor("f32", (count,)), workspace=mode)
        if kept:
            world.program_workspaces.append(workspace)
        else:
            memory = Memory(world.numel, written=True)
            growing.add(workspace, memory)
    target = growing.block.allocate(world.matrix(DType.F32))
    kind = (
        KernelKind.SCRATCH_WRITE
        if mode is ZeroMode.UNINITIALIZED
        else KernelKind.SCRATCH_ADD
    )
    kernel = world.kernel(kind, growing.choose(world.languages))
    growing.block.call(kernel, source.value, workspace, target, world.numel)
    growing.add(target)
