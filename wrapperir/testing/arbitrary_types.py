"""Strategies for names, numbers, expressions and types that can be written.

They are drawn without regard for what a program means.
"""

import math

from hypothesis import strategies as st

from wrapperir.ir import (
    CPU,
    POOL_ALIGNMENT,
    RESERVED_SYMBOLS,
    VARIADIC,
    Device,
    DType,
    EventType,
    Expr,
    ExprOp,
    OpaqueType,
    Operation,
    PoolType,
    ScalarType,
    Symbol,
    TensorType,
    TupleType,
    ValueType,
    VendorLayout,
    accepts_arity,
    contiguous_stride,
)

_WORDS = (
    "allocate",
    "from",
    "size",
    "stride",
    "min",
    "f32",
    "nodes",
    "kind",
    "as",
    "in",
    "at",
    "e5",
)
names = st.sampled_from(("buf0", "x", "_", "A1", "q" * 255, *_WORDS, "true", "none"))
"""Identifiers, keywords of the text form among them."""

symbol_names = names.filter(lambda name: name not in RESERVED_SYMBOLS)
dotted_names = st.lists(names, min_size=2, max_size=3).map(".".join)
# The map keeps Hypothesis from replaying a dtype, which is a str, as a drawn text.
texts = st.text(
    st.characters(exclude_categories=["Cs"])
    | st.sampled_from('"\\\n\r\t\x00\x7f\x85\u2028\u202e%@#|{}'),
    max_size=12,
).map(str)
"""Any strings, with what is special to the text form drawn often."""

floats = st.floats().map(lambda x: x if x == x else math.nan)
"""Floats with the one NaN that readers return, which makes equal programs equal."""

integers = st.integers(-(2**70), 2**70) | st.integers(-3, 3)
numbers = integers | floats


symbols = symbol_names.map(Symbol)


def _count(op: ExprOp) -> tuple[int, int]:
    fewest = next(count for count in (1, 2, 3) if accepts_arity(op, count))
    return fewest, 3 if op in VARIADIC else fewest


_COUNTS = {op: _count(op) for op in ExprOp}
_leaves = symbols | integers | floats | st.booleans()


@st.composite
def _exprs(draw: st.DrawFn, depth: int = 3) -> Expr:
    if depth == 0 or draw(st.booleans()):
        return draw(_leaves)
    op = draw(st.sampled_from(ExprOp))
    count = draw(st.integers(*_COUNTS[op]))
    return Operation(op, tuple(draw(_exprs(depth - 1)) for _ in range(count)))


exprs: st.SearchStrategy[Expr] = _exprs()
"""Expressions of every operator, unfolded."""

sizes = st.lists(st.integers(0, 9) | exprs, max_size=3).map(tuple)
devices = st.just(CPU) | st.builds(
    Device, st.sampled_from(("cpu", "cuda")) | names, st.none() | st.integers(0, 9)
)
layouts = st.builds(
    VendorLayout, dotted_names, st.lists(integers | texts, max_size=2).map(tuple)
)


@st.composite
def tensor_types(draw: st.DrawFn) -> TensorType:
    """Draw a tensor's type; its strides are often row-major."""
    size = draw(sizes)
    stride = contiguous_stride(size) if draw(st.booleans()) else draw(sizes)
    return TensorType(
        dtype=draw(st.sampled_from(DType)),
        size=size,
        stride=stride,
        offset=draw(st.just(0) | exprs),
        device=draw(devices),
        space=draw(st.just("global") | names),
        pinned=draw(st.booleans()),
        alignment=draw(st.none() | integers),
        layout=draw(st.none() | layouts),
    )


pool_types = st.builds(
    PoolType,
    size=exprs,
    device=devices,
    space=st.just("global") | names,
    pinned=st.booleans(),
    alignment=st.just(POOL_ALIGNMENT) | integers,
)

value_types: st.SearchStrategy[ValueType] = st.recursive(
    tensor_types()
    | st.builds(ScalarType, st.sampled_from(DType))
    | st.builds(OpaqueType, texts)
    | pool_types
    | st.builds(EventType, devices),
    lambda children: st.lists(children, max_size=3).map(tuple).map(TupleType),
    max_leaves=3,
)
