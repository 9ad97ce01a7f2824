"""Steps that add lines with nested blocks, each filled by steps of its own."""

from collections.abc import Callable, Sequence

from hypothesis import strategies as st

from wrapperir.ir.builder import BlockBuilder, KernelOperand, Operand, Value
from wrapperir.ir.expr import ExprOp, compare
from wrapperir.ir.line import ItemOf
from wrapperir.ir.types import DType, TensorType, tensor
from wrapperir.testing.growing import Growing, Tracked
from wrapperir.testing.rooms import Memory, Room

Grow = Callable[[Growing, int], None]
"""Adds at most so many steps to a block."""

_DEEPEST = 2
_MOST_ITERATIONS = 3


Given = Tracked | Room
"""What a block is given: a tensor or a pool."""


def _operands(growing: Growing) -> list[Given]:
    chosen = [growing.pick_matrix(DType.F32), growing.pick(lambda t: t.memory.written)]
    return [*(t for t in chosen if t is not None), *_pools(growing)]


def _pools(growing: Growing) -> list[Given]:
    """Return a pool to lend, or none."""
    if growing.rooms and growing.flip():
        return [growing.choose(growing.rooms)]
    return []


def _inner(
    growing: Growing,
    block: BlockBuilder,
    parameters: Sequence[Value],
    operands: Sequence[Given],
) -> Growing:
    """Return the growing block; parameters share memory where their operands do."""
    inner = Growing(growing.draw, growing.world, block, growing.depth + 1)
    inner.symbols, inner.sizes = list(growing.symbols), list(growing.sizes)
    memories: dict[int, Memory] = {}
    for parameter, operand in zip(parameters, operands, strict=True):
        if isinstance(operand, Room):
            inner.rooms.append(operand.lent(parameter))
            continue
        outer = operand.memory
        memory = memories.setdefault(
            id(outer),
            Memory(
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


def _add_result(growing: Growing, value: Value) -> None:
    """Track what a block returned, which may be placed in a pool of its own."""
    assert isinstance(value.type, TensorType)
    growing.add(value, Memory(growing.numel(value.type), aligned=False))


def _body(growing: Growing, operands: list[Given], grow: Grow) -> Callable[..., Operand]:
    """Return what fills a block that returns one matrix."""

    def fill(block: BlockBuilder, *parameters: Value) -> Operand:
        inner = _inner(growing, block, parameters, operands)
        grow(inner, 4)
        result = inner.fresh_matrix()
        inner.free_all_but([result])
        return result

    return fill


def conditional(growing: Growing, grow: Grow) -> None:
    """Run one of two blocks."""
    if growing.depth >= _DEEPEST:
        return
    operands = _operands(growing)
    type = growing.world.matrix(DType.F32)
    (value,) = growing.block.conditional(
        _predicate(growing),
        [given.value for given in operands],
        _body(growing, operands, grow),
        _body(growing, operands, grow),
        results=[type],
    )
    _add_result(growing, value)


def _predicate(growing: Growing) -> KernelOperand:
    flag = growing.pick(lambda t: t.type.size == () and t.type.dtype is DType.BOOL)
    cell = growing.pick(lambda t: t.type.size == () and t.memory.written and t.plain)
    if flag is not None and growing.flip():
        return flag.value
    if cell is not None and growing.flip():
        bool_type = tensor("bool", ())
        flag = growing.add(
            growing.block.extern("aten.gt.Scalar", cell.value, 0, type=bool_type)
        )
        return flag.value
    operand = growing.choose([growing.world.rows, *growing.symbols])
    return compare(ExprOp.GT, operand, 3)


def subgraph_call(growing: Growing, grow: Grow) -> None:
    """Run a named block."""
    if growing.depth >= _DEEPEST:
        return
    operands = _operands(growing)
    growing.world.counts["block"] += 1
    (value,) = growing.block.subgraph_call(
        f"block_{growing.world.counts['block']}",
        [given.value for given in operands],
        _body(growing, operands, grow),
        results=[growing.world.matrix(DType.F32)],
    )
    _add_result(growing, value)


def while_loop(growing: Growing, grow: Grow) -> None:
    """Run a block at most a few times, counting in a tensor."""
    source = growing.pick_matrix(DType.F32)
    if growing.depth >= _DEEPEST or source is None:
        return
    cell = tensor("i64", ())
    begin = growing.draw(st.integers(0, _MOST_ITERATIONS))
    counter = growing.add(
        growing.block.extern("aten.full.default", (), begin, dtype=DType.I64, type=cell)
    )
    found = growing.pick(lambda t: t.memory.written)
    invariant: list[Given] = [*([found] if found is not None else []), *_pools(growing)]
    operands: list[Given] = [counter, source, *invariant]

    def condition(block: BlockBuilder, *parameters: Value) -> Operand:
        count = parameters[0]
        if growing.flip():
            return block.extern(
                "aten.lt.Scalar", count, _MOST_ITERATIONS, type=tensor("bool", ())
            )
        inner = _inner(growing, block, parameters, operands)
        symbol = inner.define_symbol(ItemOf(count.name), lower=0)
        return compare(ExprOp.LT, symbol, _MOST_ITERATIONS)

    def body(block: BlockBuilder, *parameters: Value) -> Sequence[Operand]:
        inner = _inner(growing, block, parameters, operands)
        for tracked in inner.tensors:
            tracked.memory.writable = False  # it would change what the loop began with
        grow(inner, 2)
        result = inner.fresh_matrix()
        following = block.extern("aten.add.Scalar", parameters[0], 1, type=cell)
        inner.free_all_but([result])
        return following, result

    results = growing.block.while_loop(
        [counter.value, source.value],
        condition,
        body,
        invariant=[given.value for given in invariant],
    )
    for value in results:
        _add_result(growing, value)
