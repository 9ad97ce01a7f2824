"""Steps that add calls: operators of every shape, kernels and multi-kernels."""

from wrapperir.ir import DType, Expr, Language, Symbol, TupleType, tensor
from wrapperir.testing.choice_steps import choose_adder
from wrapperir.testing.generator import BlockGenerator, Tracked, TrackedTuple
from wrapperir.testing.kernels import BLOCK, KernelKind, descriptor_kernel
from wrapperir.testing.pool_space import TrackedMemory


def operator_out(generator: BlockGenerator) -> None:
    """Call an operator that writes a buffer given as ``out``."""
    left = generator.pick_matrix()
    if left is None:
        return
    world, dtype = generator.world, left.type.dtype
    right = generator.pick_matrix(dtype)
    assert right is not None
    operators = [
        "aten.add.out",
        "aten.maximum.out",
        "aten.relu.out",
        "aten.sum.IntList_out",
    ]
    operator = generator.choose(operators)
    if operator == "aten.sum.IntList_out":
        total = generator.buffer(world.vector(dtype))
        generator.block.extern_out(operator, left.value, (1,), out=total.value)
        total.memory.written = True
        return
    target = generator.pick(
        lambda t: (
            generator.is_matrix(t)
            and generator.fills(t)
            and t.type.dtype is dtype
            and t.memory is not left.memory
            and t.memory is not right.memory
        )
    )
    if target is None:
        target = generator.buffer(world.matrix(dtype))
    operands = (left.value,) if operator == "aten.relu.out" else (left.value, right.value)
    generator.block.extern_out(operator, *operands, out=target.value)
    target.memory.written = True


def operator(generator: BlockGenerator) -> None:
    """Call an operator that returns a new tensor."""
    source = generator.pick_matrix()
    if source is None:
        return
    world, dtype = generator.world, source.type.dtype
    other = generator.pick_matrix(dtype) or source
    name = generator.choose(["relu", "add", "mul", "scale", "sum", "total"])
    block, x, matrix = generator.block, source.value, world.matrix(dtype)
    if name == "add":
        value = block.extern("aten.add.Tensor", x, other.value, type=matrix)
    elif name == "mul" and world.may_multiply():
        value = block.extern("aten.mul.Tensor", x, other.value, type=matrix)
    elif name == "scale":
        factors: list[Expr] = [-1, 2]
        if world.counts["product"] < 2:
            # a fraction would make a matrix of integers one of floats
            factors += [s for s in generator.symbols if s.name != "scale"][:1]
        factor = generator.choose(factors)
        world.counts["product"] += isinstance(factor, Symbol)
        value = block.extern("aten.mul.Scalar", x, factor, type=matrix)
    elif name == "sum":
        vector = world.vector(dtype)
        value = block.extern("aten.sum.dim_IntList", x, (1,), type=vector)
    elif name == "total":
        value = block.extern("aten.sum.default", x, type=tensor(dtype, ()))
    else:
        value = block.extern("aten.relu.default", x, type=matrix)
    generator.add(value)


def operator_in_place(generator: BlockGenerator) -> None:
    """Call an operator that changes an argument."""
    target = generator.pick(
        lambda t: generator.is_matrix(t) and t.memory.written and generator.fills(t)
    )
    if target is None:
        return
    other = generator.pick_matrix(target.type.dtype, but=target.memory)
    if other is None:
        generator.block.extern_out(
            "aten.zero_.default", target.value, writes=(target.value,)
        )
        return
    operator = generator.choose(["aten.add_.Tensor", "aten.copy_.default"])
    generator.block.extern_out(operator, target.value, other.value, writes=(target.value,))


def transposed(generator: BlockGenerator) -> None:
    """Call an operator whose result shares its argument's memory."""
    source = generator.pick_matrix()
    if source is None:
        return
    rows, columns = source.type.size
    value = generator.block.extern(
        "aten.t.default",
        source.value,
        type=tensor(source.type.dtype, (columns, rows), (1, columns)),
        aliases=(source.value,),
    )
    generator.add(value, _shared(source))


def _shared(source: Tracked) -> TrackedMemory:
    """Return memory that may be another's: only to be read."""
    memory = source.memory
    return TrackedMemory(
        memory.numel, lent=memory.lent, writable=False, certain=False, base=memory
    )


def several_results(generator: BlockGenerator) -> None:
    """Call an operator that returns a tuple, and name some of its elements."""
    source = generator.pick_matrix()
    if source is None:
        return
    world, dtype = generator.world, source.type.dtype
    half = world.columns // 2
    if world.columns % 2 == 0 and generator.flip():
        size, stride = (world.rows, half), (world.columns, 1)
        type = TupleType(
            (tensor(dtype, size, stride), tensor(dtype, size, stride, offset=half))
        )
        value = generator.block.extern(
            "aten.split.Tensor", source.value, half, 1, type=type, aliases=(source.value,)
        )
        memories, shares = [_shared(source), _shared(source)], source.memory
    else:
        type = TupleType((world.vector(dtype), world.vector(DType.I64)))
        value = generator.block.extern("aten.max.dim", source.value, 1, type=type)
        memories, shares = [TrackedMemory(world.rows), TrackedMemory(world.rows)], None
    generator.tuples.append(TrackedTuple(value, shares))
    for index, memory in enumerate(memories):
        if generator.flip():
            element = generator.block.multi_output(value, index, type=type.elements[index])
            generator.add(element, memory)


def matrix_product(generator: BlockGenerator) -> None:
    """Multiply a matrix by a square constant."""
    world = generator.world
    source = generator.pick_matrix(DType.F32)
    weight = generator.pick(lambda t: t.type.size == (world.columns, world.columns))
    if source is None or weight is None or weight.type.dtype is not DType.F32:
        return
    if not weight.memory.written or weight.type.stride != (world.columns, 1):
        return
    if world.may_multiply():
        type = world.matrix(DType.F32)
        generator.add(
            generator.block.extern("aten.mm.default", source.value, weight.value, type=type)
        )


def kernel_add(generator: BlockGenerator) -> None:
    """Launch a kernel, or one of several that agree, that adds two matrices."""
    world = generator.world
    left, right = generator.pick_matrix(DType.F32), generator.pick_matrix(DType.F32)
    if left is None or right is None or not world.languages:
        return
    target = generator.pick(
        lambda t: (
            generator.fills(t)
            and t.type.dtype is DType.F32
            and t.memory is not left.memory
            and t.memory is not right.memory
        )
    )
    if target is None:
        target = generator.buffer(world.matrix(DType.F32))
    language = generator.choose(world.languages)
    kinds = [KernelKind.ADD, KernelKind.ADD_REVERSED]
    arguments = (left.value, right.value, target.value, world.numel)
    if generator.flip():
        kernel = world.kernel(generator.choose(kinds), language)
        generator.block.call(kernel, *arguments)
    else:
        generator.block.call(choose_adder(generator, language), *arguments)
    target.memory.written = True


def kernel_add_blocks(generator: BlockGenerator) -> None:
    """Launch a kernel that adds two matrices behind tensor descriptors."""
    world = generator.world
    if Language.TRITON not in world.languages or world.columns % BLOCK[1]:
        return  # its rows would not be aligned
    left, right = generator.pick_matrix(DType.F32), generator.pick_matrix(DType.F32)
    if left is None or right is None or not (left.memory.aligned and right.memory.aligned):
        return
    target = generator.buffer(world.matrix(DType.F32))
    if not target.memory.aligned:
        return
    kernel = world.define(descriptor_kernel())
    arguments = (left.value, right.value, target.value, world.rows, world.columns)
    generator.block.call(kernel, *arguments)
    target.memory.written = True


def kernel_in_place(generator: BlockGenerator) -> None:
    """Launch a kernel that changes a buffer."""
    world = generator.world
    target = generator.pick(
        lambda t: generator.fills(t) and t.memory.written and t.type.dtype is DType.F32
    )
    if target is not None and world.languages:
        kernel = world.kernel(KernelKind.RELU_INPLACE, generator.choose(world.languages))
        generator.block.call(kernel, target.value, world.numel)


def kernel_row_sum(generator: BlockGenerator) -> None:
    """Launch a kernel that reduces each row."""
    world = generator.world
    source = generator.pick_matrix(DType.F32)
    if source is not None and world.languages:
        target = generator.buffer(world.vector(DType.F32))
        kernel = world.kernel(KernelKind.ROW_SUM, generator.choose(world.languages))
        generator.block.call(kernel, source.value, target.value, world.rows, world.columns)
        target.memory.written = True


STEPS = (
    operator,
    operator_out,
    kernel_add,
    kernel_add_blocks,
    kernel_in_place,
    kernel_row_sum,
    operator_in_place,
    transposed,
    several_results,
    matrix_product,
)
"""The steps of this module; a step that is listed twice is drawn twice as often."""
