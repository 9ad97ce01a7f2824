"""Steps that add lines with nested blocks, each filled by steps of its own."""

from collections.abc import Callable, Sequence

from hypothesis import strategies as st

from wrapperir.ir import DType, ExprOp, ItemOf, TensorType, compare, tensor
from wrapperir.ir.builder import BlockBuilder, KernelOperand, Operand, Value
from wrapperir.testing.generator import BlockGenerator, Tracked
from wrapperir.testing.pool_space import PoolSpace, TrackedMemory

Grow = Callable[[BlockGenerator, int], None]
"""Adds at most so many steps to a block."""

_DEEPEST = 2
_MOST_ITERATIONS = 3


Given = Tracked | PoolSpace
"""What a block is given: a tensor or a pool."""


def _operands(generator: BlockGenerator) -> list[Given]:
    chosen = [generator.pick_matrix(DType.F32), generator.pick(lambda t: t.memory.written)]
    return [*(t for t in chosen if t is not None), *_pools(generator)]


def _pools(generator: BlockGenerator) -> list[Given]:
    """Return a pool to lend, or none."""
    if generator.pools and generator.flip():
        return [generator.choose(generator.pools)]
    return []


def _inner(
    generator: BlockGenerator,
    block: BlockBuilder,
    parameters: Sequence[Value],
    operands: Sequence[Given],
) -> BlockGenerator:
    """Return the generator block; parameters share memory where their operands do."""
    inner = BlockGenerator(generator.draw, generator.world, block, generator.depth + 1)
    inner.symbols, inner.sizes = list(generator.symbols), list(generator.sizes)
    memories: dict[int, TrackedMemory] = {}
    for parameter, operand in zip(parameters, operands, strict=True):
        if isinstance(operand, PoolSpace):
            inner.pools.append(operand.lent(parameter))
            continue
        outer = operand.memory
        memory = memories.setdefault(
            id(outer),
            TrackedMemory(
                outer.numel,
                outer.written,
                True,
                outer.writable,
                outer.certain,
                aligned=False,  # what a loop carries lies where its body left it
            ),
        )
        inner.add(parameter, memory, owned=False)
    return inner


def _add_result(generator: BlockGenerator, value: Value) -> None:
    """Track what a block returned, which may be placed in a pool of its own."""
    assert isinstance(value.type, TensorType)
    generator.add(value, TrackedMemory(generator.numel(value.type), aligned=False))


def _body(
    generator: BlockGenerator, operands: list[Given], grow: Grow
) -> Callable[..., Operand]:
    """Return what fills a block that returns one matrix."""

    def fill(block: BlockBuilder, *parameters: Value) -> Operand:
        inner = _inner(generator, block, parameters, operands)
        grow(inner, 4)
        result = inner.fresh_matrix()
        inner.free_all_but([result])
        return result

    return fill


def conditional(generator: BlockGenerator, grow: Grow) -> None:
    """Run one of two blocks."""
    if generator.depth >= _DEEPEST:
        return
    operands = _operands(generator)
    type = generator.world.matrix(DType.F32)
    (value,) = generator.block.conditional(
        _predicate(generator),
        [given.value for given in operands],
        _body(generator, operands, grow),
        _body(generator, operands, grow),
        results=[type],
    )
    _add_result(generator, value)


def _predicate(generator: BlockGenerator) -> KernelOperand:
    flag = generator.pick(lambda t: t.type.size == () and t.type.dtype is DType.BOOL)
    cell = generator.pick(lambda t: t.type.size == () and t.memory.written and t.plain)
    if flag is not None and generator.flip():
        return flag.value
    if cell is not None and generator.flip():
        bool_type = tensor("bool", ())
        flag = generator.add(
            generator.block.extern("aten.gt.Scalar", cell.value, 0, type=bool_type)
        )
        return flag.value
    operand = generator.choose([generator.world.rows, *generator.symbols])
    return compare(ExprOp.GT, operand, 3)


def subgraph_call(generator: BlockGenerator, grow: Grow) -> None:
    """Run a named block."""
    if generator.depth >= _DEEPEST:
        return
    operands = _operands(generator)
    generator.world.counts["block"] += 1
    (value,) = generator.block.subgraph_call(
        f"block_{generator.world.counts['block']}",
        [given.value for given in operands],
        _body(generator, operands, grow),
        results=[generator.world.matrix(DType.F32)],
    )
    _add_result(generator, value)


def while_loop(generator: BlockGenerator, grow: Grow) -> None:
    """Run a block at most a few times, counting in a tensor."""
    source = generator.pick_matrix(DType.F32)
    if generator.depth >= _DEEPEST or source is None:
        return
    cell = tensor("i64", ())
    begin = generator.draw(st.integers(0, _MOST_ITERATIONS))
    counter = generator.add(
        generator.block.extern("aten.full.default", (), begin, dtype=DType.I64, type=cell)
    )
    found = generator.pick(lambda t: t.memory.written)
    invariant: list[Given] = [*([found] if found is not None else []), *_pools(generator)]
    operands: list[Given] = [counter, source, *invariant]

    def condition(block: BlockBuilder, *parameters: Value) -> Operand:
        count = parameters[0]
        if generator.flip():
            return block.extern(
                "aten.lt.Scalar", count, _MOST_ITERATIONS, type=tensor("bool", ())
            )
        inner = _inner(generator, block, parameters, operands)
        symbol = inner.define_symbol(ItemOf(count.name), lower=0)
        return compare(ExprOp.LT, symbol, _MOST_ITERATIONS)

    def body(block: BlockBuilder, *parameters: Value) -> Sequence[Operand]:
        inner = _inner(generator, block, parameters, operands)
        for tracked in inner.tensors:
            tracked.memory.writable = False  # it would change what the loop began with
        grow(inner, 2)
        result = inner.fresh_matrix()
        following = block.extern("aten.add.Scalar", parameters[0], 1, type=cell)
        inner.free_all_but([result])
        return following, result

    results = generator.block.while_loop(
        [counter.value, source.value],
        condition,
        body,
        invariant=[given.value for given in invariant],
    )
    for value in results:
        _add_result(generator, value)
