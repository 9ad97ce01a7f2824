"""Steps that add calls: operators of every shape, kernels and multi-kernels."""

from wrapperir import ir as wir
from wrapperir.testing.choice_steps import choose_adder
from wrapperir.testing.generator import BlockGenerator, Tracked, TrackedTuple
from wrapperir.testing.kernels import BLOCK, KernelKind, descriptor_kernel
from wrapperir.testing.pool_space import TrackedMemory

_LARGEST_ITEM = 8
_LARGEST_MATRIX = 48

WITH_OUT = (
    *("aten.add.out", "aten.maximum.out", "aten.relu.out"),
    "aten.sum.IntList_out",
)
WITH_RESULT = (
    *("aten.relu.default", "aten.add.Tensor", "aten.mul.Tensor", "aten.mul.Scalar"),
    *("aten.sum.dim_IntList", "aten.sum.default"),
)
IN_PLACE = ("aten.add_.Tensor", "aten.copy_.default", "aten.zero_.default")
ELEMENTWISE = (
    *("aten.neg.default", "aten.relu.default", "aten.abs.default"),
    *("aten.neg.out", "aten.relu.out", "aten.abs.out"),
)
TRANSPOSING = ("aten.t.default",)
WITH_PARTS = ("aten.max.dim", "aten.split.Tensor")
PRODUCTS = ("aten.mm.default",)
JOINING = ("aten.cat.default", "aten.cat.out")
FILLING = ("aten.full.default", "aten.fill_.Scalar")
FINDING = ("aten.nonzero.default",)


def operator_out(generator: BlockGenerator) -> None:
    """Call an operator that writes a buffer given as ``out``."""
    left = generator.pick_matrix()
    world, dtype = generator.world, left.type.dtype
    right = generator.pick_matrix(dtype)
    operator = generator.choose_operator(WITH_OUT)
    if operator == "aten.sum.IntList_out":
        total = generator.buffer(world.vector(dtype))
        generator.call_out(operator, left.value, (1,), out=total)
        return
    operands = (left.value,) if operator == "aten.relu.out" else (left.value, right.value)
    generator.call_out(
        operator, *operands, out=_target(generator, left, right, is_matrix=True)
    )


def _target(
    generator: BlockGenerator, left: Tracked, right: Tracked, *, is_matrix: bool = False
) -> Tracked:
    """Return a new or old buffer for a result, in other memory than the operands."""
    dtype = left.type.dtype
    found = generator.find(
        lambda t: (
            (generator.is_matrix(t) or not is_matrix)
            and generator.fills(t)
            and t.type.dtype is dtype
            and t.memory is not left.memory
            and t.memory is not right.memory
        )
    )
    return generator.buffer(generator.world.matrix(dtype)) if found is None else found


def operator(generator: BlockGenerator) -> None:
    """Call an operator that returns a new tensor."""
    source = generator.pick_matrix()
    world, dtype = generator.world, source.type.dtype
    x, other = source.value, generator.pick_matrix(dtype).value
    matrix = world.matrix(dtype)
    operator = generator.choose_operator(WITH_RESULT)
    if operator == "aten.mul.Tensor" and not world.may_multiply():
        return
    if operator in ("aten.add.Tensor", "aten.mul.Tensor"):
        generator.call(operator, x, other, type=matrix)
    elif operator == "aten.mul.Scalar":
        factors: list[wir.Expr] = [-1, 2]
        if world.counts["product"] < 2:
            # a fraction would make a matrix of integers one of floats
            factors += [s for s in generator.symbols if s.name != "scale"][:1]
        factor = generator.choose(factors)
        world.counts["product"] += isinstance(factor, wir.Symbol)
        generator.call(operator, x, factor, type=matrix)
    elif operator == "aten.sum.dim_IntList":
        generator.call(operator, x, (1,), type=world.vector(dtype))
    elif operator == "aten.sum.default":
        generator.call(operator, x, type=wir.tensor(dtype, ()))
    else:
        generator.call(operator, x, type=matrix)


def operator_in_place(generator: BlockGenerator) -> None:
    """Call an operator that changes an argument."""
    target = generator.pick(
        lambda t: generator.is_matrix(t) and t.memory.written and generator.fills(t)
    )
    x = target.value
    other = generator.find_matrix(target.type.dtype, but=target.memory)
    operator = generator.choose_operator(IN_PLACE[-1:] if other is None else IN_PLACE)
    operands = (x,) if other is None or operator == IN_PLACE[-1] else (x, other.value)
    generator.block.extern_out(operator, *operands, writes=(x,))


def transposed(generator: BlockGenerator) -> None:
    """Call an operator whose result shares its argument's memory."""
    source = generator.pick_matrix()
    rows, columns = source.type.size
    type = wir.tensor(source.type.dtype, (columns, rows), (1, columns))
    x = source.value
    (operator,) = TRANSPOSING
    value = generator.block.extern(operator, x, type=type, aliases=(x,))
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
    world, dtype, x = generator.world, source.type.dtype, source.value
    half = world.columns // 2
    is_even = world.columns % 2 == 0
    operator = generator.choose_operator(WITH_PARTS if is_even else WITH_PARTS[:1])
    if operator == "aten.split.Tensor":
        size, stride = (world.rows, half), (world.columns, 1)
        parts = (wir.tensor(dtype, size, stride, offset=begin) for begin in (0, half))
        type = wir.TupleType(tuple(parts))
        value = generator.block.extern(operator, x, half, 1, type=type, aliases=(x,))
        memories, shares = [_shared(source), _shared(source)], source.memory
    else:
        type = wir.TupleType((world.vector(dtype), world.vector(wir.DType.I64)))
        value = generator.block.extern(operator, x, 1, type=type)
        memories, shares = [TrackedMemory(world.rows), TrackedMemory(world.rows)], None
    generator.tuples.append(TrackedTuple(value, shares))
    for index, memory in enumerate(memories):
        if generator.flip():
            element = generator.block.multi_output(value, index, type=type.elements[index])
            generator.add(element, memory)


def matrix_product(generator: BlockGenerator) -> None:
    """Multiply a matrix by a square constant."""
    world = generator.world
    source = generator.pick_matrix(wir.DType.F32)
    square = wir.tensor(wir.DType.F32, (world.columns, world.columns))
    weight = generator.pick(lambda t: t.type == square and t.memory.written)
    if world.may_multiply():
        type = world.matrix(wir.DType.F32)
        (operator,) = PRODUCTS
        generator.call(operator, source.value, weight.value, type=type)


def kernel_add(generator: BlockGenerator) -> None:
    """Launch a kernel, or one of several that agree, that adds two matrices."""
    left, right = generator.pick_matrix(wir.DType.F32), generator.pick_matrix(wir.DType.F32)
    language = generator.language()
    target = _target(generator, left, right)
    if generator.flip() or wir.MultiKernelLine not in generator.world.lines:
        kinds = [KernelKind.ADD, KernelKind.ADD_REVERSED, KernelKind.SUBTRACT]
        kind = generator.choose(kinds)
        kernel: wir.DefinitionLine = generator.world.kernel(kind, language)
    else:
        kernel = choose_adder(generator, language)
    arguments = (left.value, right.value, target.value, generator.world.numel)
    generator.block.call(kernel, *arguments)
    target.memory.written = True


def kernel_add_blocks(generator: BlockGenerator) -> None:
    """Launch a kernel that adds two matrices behind tensor descriptors."""
    world = generator.world
    is_possible = wir.Language.TRITON in world.languages and world.descriptors
    if not is_possible or world.columns % BLOCK[1]:
        return  # its rows would not be aligned
    left, right = generator.pick_matrix(wir.DType.F32), generator.pick_matrix(wir.DType.F32)
    if not (left.memory.aligned and right.memory.aligned):
        return
    target = generator.buffer(world.matrix(wir.DType.F32))
    if not target.memory.aligned:
        return
    kernel = world.define(descriptor_kernel())
    arguments = (left.value, right.value, target.value, world.rows, world.columns)
    generator.block.call(kernel, *arguments)
    target.memory.written = True


def kernel_in_place(generator: BlockGenerator) -> None:
    """Launch a kernel that changes a buffer."""
    target = generator.pick(
        lambda t: generator.fills(t) and t.memory.written and t.type.dtype is wir.DType.F32
    )
    kernel = generator.kernel(KernelKind.RELU_INPLACE)
    generator.block.call(kernel, target.value, generator.world.numel)


def kernel_row_sum(generator: BlockGenerator) -> None:
    """Launch a kernel that reduces each row."""
    world = generator.world
    source = generator.pick_matrix(wir.DType.F32)
    kernel = generator.kernel(KernelKind.ROW_SUM)
    target = generator.buffer(world.vector(wir.DType.F32))
    generator.block.call(kernel, source.value, target.value, world.rows, world.columns)
    target.memory.written = True


def widen(generator: BlockGenerator) -> None:
    """Put two matrices beside each other."""
    world = generator.world
    left = generator.pick_matrix()
    right = generator.pick_matrix(left.type.dtype)
    type = wir.tensor(left.type.dtype, (world.rows, world.columns * 2))
    operands = (left.value, right.value)
    operator = generator.choose_operator(JOINING)
    if operator == "aten.cat.default":
        generator.call(operator, operands, 1, type=type)
    else:
        generator.call_out(operator, operands, 1, out=generator.buffer(type))


def elementwise(generator: BlockGenerator) -> None:
    """Call an operator on all elements of a tensor of any size."""
    source = generator.pick(_is_computable)
    type = wir.tensor(source.type.dtype, source.type.size)
    operator = generator.choose_operator(ELEMENTWISE)
    if operator.endswith(".default"):
        generator.call(operator, source.value, type=type)
    else:
        generator.call_out(operator, source.value, out=generator.buffer(type))


def _is_computable(tracked: Tracked) -> bool:
    is_known = tracked.type.dtype in (wir.DType.F32, wir.DType.F64, wir.DType.I64)
    return tracked.memory.written and tracked.dense and tracked.plain and is_known


def sized_by_item(generator: BlockGenerator) -> None:
    """Make a vector as long as an element of an input says."""
    if not generator.sizes or generator.flip():
        source = wir.ItemOf(generator.pick_input_cell().value.name)
        symbol = generator.define_symbol(source, lower=0, upper=_LARGEST_ITEM)
        generator.world.largest[symbol.name] = _LARGEST_ITEM
        generator.sizes.append(symbol)
    symbol = generator.choose(generator.sizes)
    numel = generator.choose([symbol, wir.mul(symbol, generator.world.columns)])
    type = wir.tensor("f32", (numel,))
    operator = generator.choose_operator(FILLING)
    if operator == "aten.full.default":
        full = generator.block.extern(operator, (numel,), 2, dtype=wir.DType.F32, type=type)
        generator.add(full)
        return
    target = generator.buffer(type)
    generator.block.extern_out(operator, target.value, 1, writes=(target.value,))
    target.memory.written = True


def nonzero(generator: BlockGenerator) -> None:
    """Find where a matrix is not zero: as many rows as only the operator knows."""
    source = generator.pick_matrix()
    if generator.depth:  # a block's own sizes have no name outside
        return
    world, symbol = generator.world, generator.world.new_symbol()
    type = wir.tensor("i64", (symbol, 2), (1, symbol))
    (operator,) = FINDING
    indices = generator.call(operator, source.value, type=type)
    rows = wir.SizeOf(indices.value.name, 0)
    generator.block.define_symbol(symbol.name, rows, lower=0, upper=_LARGEST_MATRIX)
    world.largest[symbol.name] = _LARGEST_MATRIX
    generator.symbols.append(symbol)
    generator.sizes.append(symbol)


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
    widen,
    elementwise,
    sized_by_item,
    nonzero,
)
"""The steps of this module; a step that is listed twice is drawn twice as often."""
