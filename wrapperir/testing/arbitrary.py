"""Strategies for programs that can be written but need not be valid.

They draw every line kind with every field, names and types without regard for the
meaning of the program, so that readers and printers meet more than valid programs.  They
are made from the annotations of the classes: a new line kind is drawn as well.  For valid
programs see :mod:`wrapperir.testing`.
"""

import math
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import attrs
from hypothesis import strategies as st

from wrapperir import ir as wir
from wrapperir.ir.blocks import BLOCK_FIELDS

_WORDS = "allocate from size stride min f32 fused place kind as in at e5 true none"
names = st.sampled_from(("buf0", "x", "_", "A1", "q" * 255, *_WORDS.split(" ")))
"""Identifiers, keywords of the text form among them."""

symbol_names = names.filter(lambda name: name not in wir.RESERVED_SYMBOLS)
dotted_names = st.lists(names, min_size=2, max_size=3).map(".".join)
origin_names = names | dotted_names
# The map keeps Hypothesis from replaying a dtype, which is a str, as a drawn text.
texts = st.text(
    st.characters(exclude_categories=["Cs"])
    | st.sampled_from('"\\\n\r\t\x00\x7f\x85\u2028\u202e%@#|{}'),
    max_size=12,
).map(str)
"""Any strings; characters that are special in the text form are drawn often."""

floats = st.floats().map(lambda x: x if x == x else math.nan)
"""Floats with the one NaN that readers return, which makes equal programs equal."""

integers = st.integers(-(2**70), 2**70) | st.integers(-3, 3)
numbers = integers | floats


symbols = symbol_names.map(wir.Symbol)


def _count(op: wir.ExprOp) -> tuple[int, int]:
    fewest = next(count for count in (1, 2, 3) if wir.accepts_arity(op, count))
    return fewest, 3 if op in wir.VARIADIC else fewest


_leaves = symbols | integers | floats | st.booleans()
# Hypothesis validates a strategy once if it is made once, else in each draw.
_booleans, _operators = st.booleans(), st.sampled_from(wir.ExprOp)
_counts = {op: st.integers(*_count(op)) for op in wir.ExprOp}


@st.composite
def _exprs(draw: st.DrawFn) -> wir.Expr:
    def expr(depth: int) -> wir.Expr:
        if depth == 0 or draw(_booleans):
            return draw(_leaves)
        op = draw(_operators)
        count = draw(_counts[op])
        return wir.Operation(op, tuple(expr(depth - 1) for _ in range(count)))

    return expr(3)


exprs: st.SearchStrategy[wir.Expr] = _exprs()
"""Expressions of every operator, unfolded."""

sizes = st.lists(st.integers(0, 9) | exprs, max_size=3).map(tuple)
devices = st.just(wir.CPU) | st.builds(
    wir.Device, st.sampled_from(("cpu", "cuda")) | names, st.none() | st.integers(0, 9)
)
layouts = st.builds(
    wir.VendorLayout, dotted_names, st.lists(integers | texts, max_size=2).map(tuple)
)
_dtypes = st.sampled_from(wir.DType)
_offsets, _spaces = st.just(0) | exprs, st.just("global") | names
_alignments, _layouts = st.none() | integers, st.none() | layouts


@st.composite
def tensor_types(draw: st.DrawFn) -> wir.TensorType:
    """Draw a tensor's type; its strides are often row-major."""
    size = draw(sizes)
    stride = wir.contiguous_stride(size) if draw(_booleans) else draw(sizes)
    return wir.TensorType(
        dtype=draw(_dtypes),
        size=size,
        stride=stride,
        offset=draw(_offsets),
        device=draw(devices),
        space=draw(_spaces),
        pinned=draw(_booleans),
        alignment=draw(_alignments),
        layout=draw(_layouts),
    )


pool_types = st.builds(
    wir.PoolType,
    size=exprs,
    device=devices,
    space=_spaces,
    pinned=st.booleans(),
    alignment=st.just(wir.POOL_ALIGNMENT) | integers,
)

value_types: st.SearchStrategy[wir.ValueType] = st.recursive(
    tensor_types()
    | st.builds(wir.ScalarType, st.sampled_from(wir.DType))
    | st.builds(wir.OpaqueType, texts)
    | pool_types
    | st.builds(wir.EventType, devices),
    lambda children: st.lists(children, max_size=3).map(tuple).map(wir.TupleType),
    max_leaves=3,
)

_constants = st.none() | st.booleans() | numbers | texts
_buffers = names.map(wir.BufferRef)
_arguments: st.SearchStrategy[wir.Argument] = st.recursive(
    st.none()
    | st.booleans()
    | texts
    | exprs
    | _buffers
    | st.sampled_from(wir.DType)
    | devices
    | st.builds(wir.TorchEnum, st.sampled_from(tuple(wir.TORCH_ENUM_NAMES)), names)
    | st.builds(wir.ComplexLiteral, floats, floats),
    lambda children: st.lists(children, max_size=3).map(tuple),
    max_leaves=4,
)
_positions = st.integers(0, 2) | integers
_times = st.none() | st.integers(0, 2**70) | st.floats(0.0, allow_infinity=False).map(abs)

_OF_TYPES: dict[Any, st.SearchStrategy[Any]] = {
    str: names,
    int: integers,
    float: floats,
    bool: st.booleans(),
    NoneType: st.none(),
    wir.Expr: exprs,
    wir.Symbol: symbols,
    wir.Operation: exprs,
    wir.Argument: _arguments,
    wir.KernelArgument: _buffers | exprs,
    wir.Constant: _constants,
    wir.ConfigValue: st.booleans() | numbers | texts,
    wir.Device: devices,
    wir.TensorType: tensor_types(),
    wir.PoolType: pool_types,
    wir.TupleType: st.lists(value_types, max_size=2).map(tuple).map(wir.TupleType),
    wir.ValueType: value_types,
}
"""Strategies for annotations that are not made from their parts."""


def _tuples(elements: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(elements, max_size=3).map(tuple)


_OF_FIELDS: dict[tuple[type, str], st.SearchStrategy[Any]] = {
    (wir.KernelDefinitionLine, "source"): texts
    | st.lists(texts, max_size=3).map("\n".join),
    (wir.KernelDefinitionLine, "metadata"): _tuples(st.tuples(texts, _constants)),
    (wir.ExternKernelLine, "operator"): dotted_names,
    (wir.SymbolDefinitionLine, "symbol"): symbol_names,
    (wir.PlaceLine, "offset"): st.integers(0, 4096) | exprs,
    (wir.Input, "path"): st.none() | texts,
    (wir.Input, "tied"): _tuples(texts),
    (wir.ConstantInput, "key"): texts,
    (wir.ConstantInput, "tied"): _tuples(texts),
    (wir.CollectiveLine, "group"): texts,
    (wir.ProcessGroup, "name"): texts,
    (wir.OpaqueType, "description"): texts,
    (wir.Provenance, "origins"): st.lists(origin_names, max_size=6).map(tuple),
    (wir.NodeOrigin, "name"): origin_names,
    (wir.NodeOrigin, "operator"): st.none() | texts,
    (wir.NodeOrigin, "module"): st.none() | texts,
    (wir.SourcePlace, "file"): texts,
    (wir.SourcePlace, "function"): st.none() | texts,
    (wir.KernelSize, "parameter"): _positions,
    (wir.WorkspaceNeed, "parameter"): _positions,
    (wir.RecordedChoice, "microseconds"): _tuples(_times),
    (wir.RecordedChoice, "device"): texts,
    (wir.ComputedChoice, "device"): texts,
}
_TEXTS = ("message", "text")
"""Fields of any line that hold any text."""


def _of(annotation: Any) -> st.SearchStrategy[Any]:
    """Return the strategy for an annotation of the IR's classes."""
    known = _OF_TYPES.get(annotation)
    if known is not None:
        return known
    parts = get_args(annotation)
    if get_origin(annotation) in (Union, UnionType):
        return st.one_of([_of(part) for part in parts])
    if get_origin(annotation) is tuple:
        return _tuples(_of(parts[0])) if parts[-1] is ... else st.tuples(*map(_of, parts))
    if issubclass(annotation, Enum):
        return st.sampled_from(annotation)
    return _built(annotation)


def _built(kind: Any, **given: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return a strategy for objects of an attrs class, with some fields ``given``."""
    fields = {
        field.name: texts if field.name in _TEXTS else _of_field(kind, field)
        for field in attrs.fields(kind)
        if field.name not in given
    }
    return st.builds(kind, **fields, **given)


def _of_field(kind: Any, field: "attrs.Attribute[Any]") -> st.SearchStrategy[Any]:
    known = _OF_FIELDS.get((kind, field.name))
    if known is not None:
        return known
    return st.just(0) | integers if field.name == "stream" else _of(field.type)


_simple_lines = st.one_of(
    [_built(kind) for kind in wir.BODY_LINES if kind not in BLOCK_FIELDS]
)


def _lines(depth: int) -> st.SearchStrategy[wir.BodyLine]:
    """Return lines whose blocks nest up to ``depth``."""
    if depth == 0:
        return _simple_lines
    blocks = _built(wir.Block, lines=st.lists(_lines(depth - 1), max_size=2).map(tuple))
    nesting = st.one_of(
        [
            _built(kind, **dict.fromkeys(names, blocks))
            for kind, names in BLOCK_FIELDS.items()
        ]
    )
    return st.integers(0, 15).flatmap(lambda n: nesting if n < 3 else _simple_lines)


body_lines: st.SearchStrategy[wir.BodyLine] = _lines(2)
"""Lines of every kind that a body holds."""

selections: st.SearchStrategy[wir.Selection] = _of(wir.Selection)
"""Every selection policy; few pick a choice that exists."""

_definitions: st.SearchStrategy[wir.DefinitionLine] = st.one_of(
    [_built(kind) for kind in wir.DEFINITION_LINES]
)

programs: st.SearchStrategy[wir.Program] = _built(
    wir.Program,
    lines=st.lists(body_lines, max_size=4).map(tuple),
    definitions=st.lists(_definitions, max_size=2).map(tuple),
)
"""Programs that can be written; few are valid."""
