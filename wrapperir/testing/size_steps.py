"""Steps that add tensors of further sizes: wider ones, and those that the data decide."""

from wrapperir.ir import DType, ItemOf, SizeOf, Symbol, mul, tensor
from wrapperir.testing.generator import BlockGenerator, Tracked

_LARGEST_ITEM = 8
_LARGEST_MATRIX = 48


def widen(generator: BlockGenerator) -> None:
    """Put two matrices beside each other."""
    world = generator.world
    left = generator.pick_matrix()
    if left is None:
        return
    right = generator.pick_matrix(left.type.dtype) or left
    type = tensor(left.type.dtype, (world.rows, world.columns * 2))
    operands = (left.value, right.value)
    if generator.flip():
        generator.add(generator.block.extern("aten.cat.default", operands, 1, type=type))
        return
    target = generator.buffer(type)
    generator.block.extern_out("aten.cat.out", operands, 1, out=target.value)
    target.memory.written = True


def elementwise(generator: BlockGenerator) -> None:
    """Call an operator on all elements of a tensor of any size."""
    source = generator.pick(_computable)
    if source is None:
        return
    type = tensor(source.type.dtype, source.type.size)
    name = generator.choose(["neg", "relu", "abs"])
    if generator.flip():
        value = generator.block.extern(f"aten.{name}.default", source.value, type=type)
        generator.add(value)
        return
    target = generator.buffer(type)
    generator.block.extern_out(f"aten.{name}.out", source.value, out=target.value)
    target.memory.written = True


def _computable(tracked: Tracked) -> bool:
    known = tracked.type.dtype in (DType.F32, DType.F64, DType.I64)
    return tracked.memory.written and tracked.dense and tracked.plain and known


def sized_by_item(generator: BlockGenerator) -> None:
    """Make a vector as long as an element of an input says."""
    if not generator.sizes or generator.flip():
        cell = generator.pick(
            lambda t: t.is_input and t.type.size == () and t.type.dtype is DType.I64
        )
        if cell is None:
            return
        source = ItemOf(cell.value.name)
        symbol = generator.define_symbol(source, lower=0, upper=_LARGEST_ITEM)
        generator.world.largest[symbol.name] = _LARGEST_ITEM
        generator.sizes.append(symbol)
    symbol = generator.choose(generator.sizes)
    numel = generator.choose([symbol, mul(symbol, generator.world.columns)])
    type = tensor("f32", (numel,))
    if generator.flip():
        full = generator.block.extern(
            "aten.full.default", (numel,), 2, dtype=DType.F32, type=type
        )
        generator.add(full)
        return
    target = generator.buffer(type)
    generator.block.extern_out("aten.fill_.Scalar", target.value, 1, writes=(target.value,))
    target.memory.written = True


def nonzero(generator: BlockGenerator) -> None:
    """Find where a matrix is not zero: as many rows as only the operator knows."""
    source = generator.pick_matrix()
    if source is None or generator.depth:  # a block's own sizes have no name outside
        return
    world = generator.world
    world.counts["symbol"] += 1
    symbol = Symbol(f"u{world.counts['symbol']}")
    type = tensor("i64", (symbol, 2), (1, symbol))
    value = generator.block.extern("aten.nonzero.default", source.value, type=type)
    generator.block.define_symbol(
        symbol.name, SizeOf(value.name, 0), lower=0, upper=_LARGEST_MATRIX
    )
    world.largest[symbol.name] = _LARGEST_MATRIX
    generator.symbols.append(symbol)
    generator.sizes.append(symbol)
    generator.add(value)


STEPS = (
    widen,
    elementwise,
    sized_by_item,
    nonzero,
)
"""The steps of this module; a step that is listed twice is drawn twice as often."""
