"""Steps that add tensors of further sizes: wider ones, and those that the data decide."""

from wrapperir.ir.expr import Symbol, mul
from wrapperir.ir.line import ItemOf, SizeOf
from wrapperir.ir.types import DType, tensor
from wrapperir.testing.growing import Growing, Tracked

_LARGEST_ITEM = 8
_LARGEST_MATRIX = 48


def widen(growing: Growing) -> None:
    """Put two matrices beside each other."""
    world = growing.world
    left = growing.pick_matrix()
    if left is None:
        return
    right = growing.pick_matrix(left.type.dtype) or left
    type = tensor(left.type.dtype, (world.rows, world.columns * 2))
    operands = (left.value, right.value)
    if growing.flip():
        growing.add(growing.block.extern("aten.cat.default", operands, 1, type=type))
        return
    target = growing.buffer(type)
    growing.block.extern_out("aten.cat.out", operands, 1, out=target.value)
    target.memory.written = True


def elementwise(growing: Growing) -> None:
    """Call an operator on all elements of a tensor of any size."""
    source = growing.pick(_computable)
    if source is None:
        return
    type = tensor(source.type.dtype, source.type.size)
    name = growing.choose(["neg", "relu", "abs"])
    if growing.flip():
        value = growing.block.extern(f"aten.{name}.default", source.value, type=type)
        growing.add(value)
        return
    target = growing.buffer(type)
    growing.block.extern_out(f"aten.{name}.out", source.value, out=target.value)
    target.memory.written = True


def _computable(tracked: Tracked) -> bool:
    known = tracked.type.dtype in (DType.F32, DType.F64, DType.I64)
    return tracked.memory.written and tracked.dense and tracked.plain and known


def sized_by_item(growing: Growing) -> None:
    """Make a vector as long as an element of an input says."""
    if not growing.sizes or growing.flip():
        cell = growing.pick(
            lambda t: t.is_input and t.type.size == () and t.type.dtype is DType.I64
        )
        if cell is None:
            return
        source = ItemOf(cell.value.name)
        symbol = growing.define_symbol(source, lower=0, upper=_LARGEST_ITEM)
        growing.world.largest[symbol.name] = _LARGEST_ITEM
        growing.sizes.append(symbol)
    symbol = growing.choose(growing.sizes)
    numel = growing.choose([symbol, mul(symbol, growing.world.columns)])
    type = tensor("f32", (numel,))
    if growing.flip():
        full = growing.block.extern(
            "aten.full.default", (numel,), 2, dtype=DType.F32, type=type
        )
        growing.add(full)
        return
    target = growing.buffer(type)
    growing.block.extern_out("aten.fill_.Scalar", target.value, 1, writes=(target.value,))
    target.memory.written = True


def nonzero(growing: Growing) -> None:
    """Find where a matrix is not zero: as many rows as only the operator knows."""
    source = growing.pick_matrix()
    if source is None or growing.depth:  # a block's own sizes have no name outside
        return
    world = growing.world
    world.counts["symbol"] += 1
    symbol = Symbol(f"u{world.counts['symbol']}")
    type = tensor("i64", (symbol, 2), (1, symbol))
    value = growing.block.extern("aten.nonzero.default", source.value, type=type)
    growing.block.define_symbol(
        symbol.name, SizeOf(value.name, 0), lower=0, upper=_LARGEST_MATRIX
    )
    world.largest[symbol.name] = _LARGEST_MATRIX
    growing.symbols.append(symbol)
    growing.sizes.append(symbol)
    growing.add(value)
