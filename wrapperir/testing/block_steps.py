"""Steps that add lines with nested blocks, each filled by steps of its own."""

from collections.abc import Callable, Sequence

from attrs import evolve

from wrapperir.ir import (
    RECORDINGS,
    DType,
    ExprOp,
    ItemOf,
    SizeOf,
    SymbolDefinitionLine,
    TensorType,
    compare,
    tensor,
)
from wrapperir.ir.builder import BlockBuilder, KernelOperand, NamedValue, Operand
from wrapperir.testing.cell_kernels import below_kernel, count_kernel
from wrapperir.testing.generator import BlockGenerator, Tracked, indices
from wrapperir.testing.inputs import SMALLEST_NUMBER
from wrapperir.testing.pool_space import PoolSpace, TrackedMemory

Grow = Callable[[BlockGenerator, int], None]
"""Adds at most so many steps to a block."""

_DEEPEST = 2
_MOST_ITERATIONS = 3
_CELL = tensor("i64", ())
_BOOL = tensor("bool", ())

BlockOperand = Tracked | PoolSpace
"""An operand of a block: a tensor or a pool."""


def _operands(generator: BlockGenerator) -> list[BlockOperand]:
    matrix = generator.find_matrix(DType.F32)
    return [*([] if matrix is None else [matrix]), *_further_operands(generator)]


def _further_operands(generator: BlockGenerator) -> list[BlockOperand]:
    """Return any tensor that may be read, if there is one, and sometimes a pool."""
    found = generator.find(lambda t: t.memory.written)
    operands: list[BlockOperand] = [] if found is None else [found]
    if generator.pools and generator.flip():
        operands.append(generator.choose(generator.pools))
    return operands


def _inner(
    generator: BlockGenerator,
    block: BlockBuilder,
    parameters: Sequence[NamedValue],
    operands: Sequence[BlockOperand],
) -> BlockGenerator:
    """Return the generator of a block; parameters share memory where operands do."""
    inner = BlockGenerator(generator.draw, generator.world, block, generator.depth + 1)
    inner.symbols, inner.sizes = list(generator.symbols), list(generator.sizes)
    inner.recorded = generator.recorded
    memories: dict[int, TrackedMemory] = {}
    for parameter, operand in zip(parameters, operands, strict=True):
        if isinstance(operand, PoolSpace):
            inner.pools.append(operand.lent(parameter))
            continue
        # A value that a loop carries is where the body has put it, at any alignment.
        lent = evolve(operand.memory, lent=True, base=None, leaves=True, aligned=False)
        memory = memories.setdefault(id(operand.memory), lent)
        inner.add(parameter, memory, owned=False)
    return inner


def _add_results(generator: BlockGenerator, values: Sequence[NamedValue]) -> None:
    """Track the results of a block, which may be placed in a pool of its own."""
    for value in values:
        generator.add(value).memory.aligned = False


def _body(
    generator: BlockGenerator, operands: list[BlockOperand], grow: Grow
) -> Callable[..., Operand]:
    """Return the function that fills a block which returns one matrix."""

    def fill(block: BlockBuilder, *parameters: NamedValue) -> Operand:
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
    results = generator.block.conditional(
        _predicate(generator),
        [given.value for given in operands],
        _body(generator, operands, grow),
        _body(generator, operands, grow),
        results=[generator.world.matrix(DType.F32)],
    )
    _add_results(generator, results)


def _predicate(generator: BlockGenerator) -> KernelOperand:
    flag = generator.find(lambda t: t.type.size == () and t.type.dtype is DType.BOOL)
    cell = generator.find(lambda t: t.type.size == () and t.memory.written and t.plain)
    if generator.recorded:
        flag = cell = None  # no number that the host reads
    if not generator.world.operators:
        cell = None
    if flag is not None and generator.flip():
        return flag.value
    if cell is not None and generator.flip():
        return generator.call("aten.gt.Scalar", cell.value, 0, type=_BOOL).value
    operand = generator.choose([generator.world.rows, *generator.symbols])
    return compare(ExprOp.GT, operand, 3)


def subgraph_call(generator: BlockGenerator, grow: Grow) -> None:
    """Run a named block."""
    if generator.depth >= _DEEPEST:
        return
    operands = _operands(generator)
    generator.world.counts["block"] += 1
    results = generator.block.subgraph_call(
        f"block_{generator.world.counts['block']}",
        [given.value for given in operands],
        _body(generator, operands, grow),
        results=[generator.world.matrix(DType.F32)],
    )
    _add_results(generator, results)


def graph_region(generator: BlockGenerator, grow: Grow) -> None:
    """Run a block that may be recorded, which also writes a buffer that it is given."""
    if generator.depth >= _DEEPEST or generator.recorded:
        return
    operands = [item for item in _operands(generator) if isinstance(item, Tracked)]
    target = generator.find(lambda t: generator.fills(t) and generator.is_matrix(t))
    if target is not None and target not in operands:
        operands.append(target)
    written: list[TrackedMemory] = []

    def body(block: BlockBuilder, *parameters: NamedValue) -> Operand:
        inner = _inner(generator, block, parameters, operands)
        inner.recorded = True
        written.extend(tracked.memory for tracked in inner.tensors)
        grow(inner, 6)
        result = inner.fresh_matrix()
        inner.free_all_but([result])
        return result

    generator.world.counts["block"] += 1
    results = generator.block.graph_region(
        f"region_{generator.world.counts['block']}",
        [given.value for given in operands],
        body,
        results=[generator.world.matrix(DType.F32)],
        recordings=generator.choose((RECORDINGS, 1)),
    )
    for operand, memory in zip(operands, written, strict=True):
        operand.memory.written |= memory.written
    _add_results(generator, results)


def while_loop(generator: BlockGenerator, grow: Grow) -> None:
    """Run a block at most a few times, counting in a tensor."""
    source = generator.pick_matrix(DType.F32)
    if generator.depth >= _DEEPEST or generator.recorded:
        return
    operators = generator.world.operators
    counter = _first_count(generator)
    invariant = _further_operands(generator)
    operands: list[BlockOperand] = [counter, source, *invariant]

    def condition(block: BlockBuilder, *parameters: NamedValue) -> Operand:
        count = parameters[0]
        if generator.flip() or SymbolDefinitionLine not in generator.world.lines:
            return _is_below(generator, block, count)
        inner = _inner(generator, block, parameters, operands)
        symbol = inner.define_symbol(ItemOf(count.name), lower=SMALLEST_NUMBER)
        return compare(ExprOp.LT, symbol, _MOST_ITERATIONS)

    def body(block: BlockBuilder, *parameters: NamedValue) -> Sequence[Operand]:
        inner = _inner(generator, block, parameters, operands)
        for tracked in inner.tensors:
            tracked.memory.writable = False  # a write would change initial values
        grow(inner, 2)
        result = inner.fresh_matrix()
        following = _next_count(generator, block, parameters[0])
        inner.free_all_but([result])
        return following, result

    stacks: list[TensorType] = []
    count = generator.world.new_symbol()
    if operators and generator.flip():
        stacks = [tensor("i64", (count,)), tensor("f32", (count, *source.type.size))]
    results = generator.block.while_loop(
        [counter.value, source.value],
        condition,
        body,
        invariant=[given.value for given in invariant],
        stacks=stacks,
    )
    if stacks:
        *last, counts, stack = results
        generator.block.define_symbol(count.name, SizeOf(counts.name, 0), lower=1)
        type = tensor("f32", source.type.size)
        most = generator.block.extern("aten.amax.default", stack, (0,), type=type)
        generator.block.free(counts, stack)
        results = (*last, most)
    _add_results(generator, results)


def _first_count(generator: BlockGenerator) -> Tracked:
    """Return a new cell of the iterations before the first: 0 to 3, or an input's."""
    begin = generator.draw(indices(_MOST_ITERATIONS + 1))
    if generator.world.operators:
        full = generator.block.extern(
            "aten.full.default", (), begin, dtype=DType.I64, type=_CELL
        )
        return generator.add(full)
    source = generator.pick_input_cell()
    kernel = generator.world.define(count_kernel(generator.language()))
    target = generator.add(generator.block.allocate(_CELL))
    generator.block.call(kernel, source.value, target.value, begin)
    return target


def _next_count(
    generator: BlockGenerator, block: BlockBuilder, count: NamedValue
) -> NamedValue:
    if generator.world.operators:
        return block.extern("aten.add.Scalar", count, 1, type=_CELL)
    kernel = generator.world.define(count_kernel(generator.language()))
    following = block.allocate(_CELL)
    block.call(kernel, count, following, 1)
    return following


def _is_below(
    generator: BlockGenerator, block: BlockBuilder, count: NamedValue
) -> NamedValue:
    if generator.world.operators:
        return block.extern("aten.lt.Scalar", count, _MOST_ITERATIONS, type=_BOOL)
    kernel = generator.world.define(below_kernel(generator.language()))
    flag = block.allocate(_BOOL)
    block.call(kernel, count, flag, _MOST_ITERATIONS)
    return flag
