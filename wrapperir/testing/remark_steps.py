"""Steps that add lines which compute nothing: symbols, asserts, comments."""

from hypothesis import strategies as st

from wrapperir.ir.expr import ExprOp, compare, minimum, mul
from wrapperir.ir.line import (
    ItemOf,
    OffsetOf,
    Provenance,
    SizeOf,
    SourceLocation,
    StrideOf,
    SymbolSource,
)
from wrapperir.ir.types import DType
from wrapperir.testing.growing import Growing

_TEXTS = st.sampled_from(
    ["a remark", "", 'it\'s "quoted"', "back\\slash", "%buf0 = allocate", "tab\tand → ø"]
)


def symbol_of_tensor(growing: Growing) -> None:
    """Define a symbol from what a tensor is: a size, a stride or its offset."""
    tracked = growing.pick(lambda t: len(t.type.size) > 0)
    if tracked is not None:
        name = tracked.value.name
        dim = growing.choose(range(len(tracked.type.size)))
        sources: list[SymbolSource] = [
            SizeOf(name, dim),
            StrideOf(name, dim),
            OffsetOf(name),
        ]
        growing.define_symbol(growing.choose(sources), lower=0)


def symbol_computed(growing: Growing) -> None:
    """Define a symbol from others."""
    numel = growing.world.numel
    options = [mul(numel, 2), numel + 1, minimum(numel, 7), numel // 2, numel % 3]
    growing.define_symbol(growing.choose(options))


def symbol_of_item(growing: Growing) -> None:
    """Define a symbol from the element of a one-element tensor that holds an integer.

    Such tensors are inputs; the values of example inputs are within the bounds.
    """
    tracked = growing.pick(
        lambda t: t.is_input and t.type.size == () and t.type.dtype is DType.I64
    )
    if tracked is not None:
        growing.define_symbol(ItemOf(tracked.value.name), lower=0, upper=100)


def assert_layout(growing: Growing) -> None:
    """Check what a tensor is declared to be."""
    tracked = growing.pick(lambda _: True)
    if tracked is not None:
        type = tracked.type
        growing.block.assert_size_stride(
            tracked.value, type.size, type.stride, growing.draw(_TEXTS)
        )


def assert_aligned(growing: Growing) -> None:
    """Check an alignment that every tensor of the dtype has."""
    tracked = growing.pick(lambda _: True)
    if tracked is not None:
        growing.block.assert_alignment(tracked.value, tracked.type.dtype.itemsize)


def assert_condition(growing: Growing) -> None:
    """Check a condition on symbols."""
    if growing.symbols:
        symbol = growing.choose(growing.symbols)
        condition = compare(ExprOp.GE, symbol, 0)
        growing.block.assert_scalar(condition, growing.draw(_TEXTS))


def assert_finite(growing: Growing) -> None:
    """Check that a tensor holds no NaN."""
    tracked = growing.pick(lambda t: t.memory.written)
    if tracked is not None:
        growing.block.assert_not_nan(tracked.value)


def comment(growing: Growing) -> None:
    """Leave a remark, with what needs care when it is escaped."""
    growing.block.comment(growing.draw(_TEXTS))


def provenance(growing: Growing) -> None:
    """Give the lines that follow a provenance, or none."""
    options = [
        None,
        Provenance(nodes=("add", "relu"), operator="aten.add.Tensor"),
        Provenance(nodes=('odd "name"',), location=SourceLocation("dir/model.py", 12)),
    ]
    growing.block.at(growing.choose(options))
