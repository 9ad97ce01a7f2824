"""Strategies for programs that can be written but need not be valid.

They draw every line kind with every field, names and types without regard for what the
program means, so that readers and printers meet more than valid programs.  They are made
from the annotations of the classes: a new line kind is drawn as well.  For valid programs
see :mod:`wrapperir.testing`.
"""

from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import attrs
from hypothesis import strategies as st

from wrapperir.ir import (
    BODY_LINES,
    DEFINITION_LINES,
    Argument,
    Block,
    BodyLine,
    BufferRef,
    ComplexLiteral,
    ComputedChoice,
    ConfigValue,
    Constant,
    ConstantInput,
    DefinitionLine,
    Device,
    DType,
    Expr,
    ExternKernelLine,
    KernelArgument,
    KernelDefinitionLine,
    KernelSize,
    OpaqueType,
    Operation,
    PlaceLine,
    PoolType,
    Program,
    Provenance,
    RecordedChoice,
    Selection,
    SourceLocation,
    Symbol,
    SymbolDefinitionLine,
    TensorType,
    TorchEnum,
    TupleType,
    ValueType,
    WorkspaceNeed,
)
from wrapperir.ir.blocks import BLOCK_FIELDS
from wrapperir.testing.arbitrary_types import (
    devices,
    dotted_names,
    exprs,
    floats,
    integers,
    names,
    numbers,
    pool_types,
    symbol_names,
    symbols,
    tensor_types,
    texts,
    value_types,
)

_constants = st.none() | st.booleans() | numbers | texts
_buffers = names.map(BufferRef)
_arguments: st.SearchStrategy[Argument] = st.recursive(
    st.none()
    | st.booleans()
    | texts
    | exprs
    | _buffers
    | st.sampled_from(DType)
    | devices
    | st.builds(TorchEnum, st.sampled_from(("layout", "memory_format")), names)
    | st.builds(ComplexLiteral, floats, floats),
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
    Expr: exprs,
    Symbol: symbols,
    Operation: exprs,
    Argument: _arguments,
    KernelArgument: _buffers | exprs,
    Constant: _constants,
    ConfigValue: st.booleans() | numbers | texts,
    Device: devices,
    TensorType: tensor_types(),
    PoolType: pool_types,
    TupleType: st.lists(value_types, max_size=2).map(tuple).map(TupleType),
    ValueType: value_types,
}
"""What is drawn for an annotation, unless its parts say it."""


def _tuples(elements: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(elements, max_size=3).map(tuple)


_OF_FIELDS: dict[tuple[type, str], st.SearchStrategy[Any]] = {
    (KernelDefinitionLine, "source"): texts | st.lists(texts, max_size=3).map("\n".join),
    (KernelDefinitionLine, "metadata"): _tuples(st.tuples(texts, _constants)),
    (ExternKernelLine, "operator"): dotted_names,
    (SymbolDefinitionLine, "symbol"): symbol_names,
    (PlaceLine, "offset"): st.integers(0, 4096) | exprs,
    (ConstantInput, "key"): texts,
    (OpaqueType, "description"): texts,
    (Provenance, "nodes"): _tuples(texts),
    (Provenance, "operator"): st.none() | texts,
    (SourceLocation, "file"): texts,
    (KernelSize, "parameter"): _positions,
    (WorkspaceNeed, "parameter"): _positions,
    (RecordedChoice, "microseconds"): _tuples(_times),
    (RecordedChoice, "device"): texts,
    (ComputedChoice, "device"): texts,
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


_simple_lines = st.one_of([_built(kind) for kind in BODY_LINES if kind not in BLOCK_FIELDS])


def _lines(depth: int) -> st.SearchStrategy[BodyLine]:
    """Return lines whose blocks nest up to ``depth``."""
    if depth == 0:
        return _simple_lines
    blocks = _built(Block, lines=st.lists(_lines(depth - 1), max_size=2).map(tuple))
    nesting = st.one_of(
        [
            _built(kind, **dict.fromkeys(names, blocks))
            for kind, names in BLOCK_FIELDS.items()
        ]
    )
    return st.integers(0, 15).flatmap(lambda n: nesting if n < 3 else _simple_lines)


body_lines: st.SearchStrategy[BodyLine] = _lines(2)
"""Lines of every kind that a body holds."""

selections: st.SearchStrategy[Selection] = _of(Selection)
"""Every selection policy; few pick a choice that exists."""

_definitions: st.SearchStrategy[DefinitionLine] = st.one_of(
    [_built(kind) for kind in DEFINITION_LINES]
)

programs: st.SearchStrategy[Program] = _built(
    Program,
    lines=st.lists(body_lines, max_size=4).map(tuple),
    definitions=st.lists(_definitions, max_size=2).map(tuple),
)
"""Programs that can be written; few are valid."""
