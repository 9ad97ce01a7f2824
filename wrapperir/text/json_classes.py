"""The JSON forms of the IR's classes, derived from the annotations of their fields."""

from collections.abc import Callable
from enum import StrEnum
from functools import cache
from operator import attrgetter
from types import UnionType
from typing import Union, get_args, get_origin

import attrs

from wrapperir.ir import (
    KEYWORDS,
    Argument,
    BenchmarkChoice,
    Block,
    BodyLine,
    BufferParameter,
    ComputedChoice,
    ConfigValue,
    Constant,
    ConstantInput,
    ConstexprParameter,
    DescriptorParameter,
    Device,
    EventType,
    Expr,
    ExternKernelLine,
    FirstChoice,
    ForcedChoice,
    ItemOf,
    KernelArgument,
    KernelDefinitionLine,
    LayoutValue,
    NearestChoice,
    OffsetOf,
    OpaqueType,
    PoolType,
    Provenance,
    RecordedChoice,
    ScalarParameter,
    ScalarType,
    SizeOf,
    SourceLocation,
    StrideOf,
    SymbolDefinitionLine,
    SymbolSource,
    TensorType,
    TupleType,
    ValueOf,
    ValueType,
    VendorLayout,
)
from wrapperir.text.json_arguments import (
    CONFIG_VALUE,
    CONSTANT,
    EXPRESSION,
    KERNEL_ARGUMENT,
    LAYOUT_VALUE,
    TIME,
    argument_form,
    symbol_source_form,
)
from wrapperir.text.json_forms import (
    BOOLEAN,
    DEVICE_INDEX,
    DOTTED,
    IDENTIFIER,
    INTEGER,
    NUMBER,
    SYMBOL,
    TEXT,
    Form,
    Schema,
    array,
    choice,
    optional,
    pair,
)
from wrapperir.text.json_records import Record, RecordField, nested, one_kind_of, shared
from wrapperir.text.limits import MAX_BLOCK_DEPTH, MAX_LIST_DEPTH, MAX_RANK

KINDS: dict[type, str] = {
    **KEYWORDS,
    TensorType: "tensor",
    ScalarType: "scalar",
    TupleType: "tuple",
    OpaqueType: "opaque",
    PoolType: "pool",
    EventType: "event",
    BufferParameter: "buffer",
    DescriptorParameter: "descriptor",
    ScalarParameter: "scalar",
    ConstexprParameter: "constexpr",
    FirstChoice: "first",
    ForcedChoice: "forced",
    RecordedChoice: "recorded",
    BenchmarkChoice: "benchmark",
    NearestChoice: "nearest_shape",
    ComputedChoice: "computed",
    SizeOf: "size",
    StrideOf: "stride",
    OffsetOf: "offset",
    ValueOf: "value",
    ItemOf: "item",
}
"""The ``kind`` of each class that has one."""

_FREE_TEXT = {
    (Provenance, "nodes"),
    (Provenance, "operator"),
    (SourceLocation, "file"),
    (OpaqueType, "description"),
    (KernelDefinitionLine, "metadata"),
    (KernelDefinitionLine, "source"),
    (ConstantInput, "key"),
    (RecordedChoice, "device"),
    (ComputedChoice, "device"),
}
_FREE_TEXT_FIELDS = {"message", "text"}
_DOTTED = {(ExternKernelLine, "operator"), (VendorLayout, "name")}
_RENAMED: dict[tuple[type, str], str] = {(SymbolDefinitionLine, "kind"): "symbol_kind"}
_SYMBOLS = {(SymbolDefinitionLine, "symbol")}

# Shared by many lines, so written once per program.
_SHARED = (
    TensorType,
    ScalarType,
    TupleType,
    OpaqueType,
    PoolType,
    EventType,
    Provenance,
    Device,
)
_NESTING = {TupleType: MAX_LIST_DEPTH, Block: MAX_BLOCK_DEPTH}

_SOURCES = (SizeOf, StrideOf, OffsetOf, ValueOf, ItemOf)

_forms: dict[type, Form] = {}
_definitions: dict[str, Callable[[], Schema]] = {}


def record(kind: type) -> Form:
    """Return the form of an attrs class."""
    form = _forms.get(kind)
    if form is None:
        made = Record(kind, KINDS.get(kind), lambda: _fields_of(kind))
        _definitions[kind.__name__] = made.schema
        form = made.form()
        if kind in _NESTING:
            form = nested(form, kind.__name__, _NESTING[kind])
        if kind in _SHARED:
            form = shared(form, kind.__name__)
        _forms[kind] = form
    return form


def definitions() -> dict[str, Schema]:
    """Return the schemas of the classes whose forms exist, by class name."""
    found: dict[str, Schema] = {}
    while len(found) < len(_definitions):  # a description may create further forms
        for name, describe in list(_definitions.items()):
            if name not in found:
                found[name] = describe()
    return found


def field_form(owner: type, name: str) -> Form:
    """Return the form of a field."""
    form = _fields.get((owner, name))
    if form is None:
        annotation: object = getattr(attrs.fields(owner), name).type
        form = _fields[owner, name] = _form_of(annotation, owner, name)
    return form


def item_form(owner: type, name: str) -> Form:
    """Return the form of the items of a field that holds a tuple."""
    form = _items.get((owner, name))
    if form is None:
        annotation: object = getattr(attrs.fields(owner), name).type
        form = _items[owner, name] = _form_of(get_args(annotation)[0], owner, name)
    return form


_fields: dict[tuple[type, str], Form] = {}
_items: dict[tuple[type, str], Form] = {}


def _fields_of(owner: type) -> tuple[RecordField, ...]:
    """Return the fields of a class, its provenance last."""
    attributes: tuple[attrs.Attribute[object], ...] = attrs.fields(owner)
    ordered = sorted(attributes, key=lambda attribute: attribute.name == "provenance")
    return tuple(_field_of(owner, attribute) for attribute in ordered)


def _field_of(owner: type, attribute: "attrs.Attribute[object]") -> RecordField:
    default: object = attribute.default
    make: Callable[[], object] | None = getattr(default, "factory", None)
    if make is not None:
        default = make()
    return RecordField(
        name=attribute.name,
        key=_RENAMED.get((owner, attribute.name), attribute.name),
        get=attrgetter(attribute.name),
        form=_form_of(attribute.type, owner, attribute.name),
        required=default is attrs.NOTHING,
        default=default,
    )


def _union(kinds: tuple[type, ...]) -> Form:
    return one_kind_of({kind: (KINDS[kind], record(kind)) for kind in kinds})


_FORWARD: dict[str, object] = {
    "Argument": Argument,
    "BodyLine": BodyLine,
    "Expr": Expr,
    "ValueType": ValueType,
}


def _form_of(annotation: object, owner: type, name: str) -> Form:
    """Return the form of a field's annotation."""
    if isinstance(annotation, str):
        annotation = _FORWARD[annotation]
    if annotation is str:
        return _string_form(owner, name)
    if (owner, name) == (Device, "index"):
        return optional(DEVICE_INDEX)
    if annotation is float and (owner, name) == (RecordedChoice, "microseconds"):
        return TIME
    for kind, form in _simple_forms():
        if annotation == kind:
            return form
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return choice(annotation)
    args = get_args(annotation)
    if get_origin(annotation) is tuple:
        if args[1:] == (...,):
            most = MAX_RANK if owner is TensorType else None
            return array(_form_of(args[0], owner, name), most)
        key = TEXT if (owner, name) in _FREE_TEXT else IDENTIFIER
        return pair(key, _form_of(args[1], owner, name))
    if get_origin(annotation) in (Union, UnionType):
        if type(None) in args:
            rest = tuple(arg for arg in args if arg is not type(None))
            return optional(_form_of(Union[rest], owner, name))
        return _union(args)
    assert isinstance(annotation, type), annotation
    return record(annotation)


def _string_form(owner: type, name: str) -> Form:
    if (owner, name) in _FREE_TEXT or name in _FREE_TEXT_FIELDS:
        return TEXT
    if (owner, name) in _DOTTED:
        return DOTTED
    return SYMBOL if (owner, name) in _SYMBOLS else IDENTIFIER


@cache
def _simple_forms() -> tuple[tuple[object, Form], ...]:
    return (
        (bool, BOOLEAN),
        (int, INTEGER),
        (float, NUMBER),
        (Expr, EXPRESSION),
        (KernelArgument, KERNEL_ARGUMENT),
        (Argument, argument_form(record(Device))),
        (SymbolSource, symbol_source_form(_union(_SOURCES))),
        (Constant, CONSTANT),
        (ConfigValue, CONFIG_VALUE),
        (LayoutValue, LAYOUT_VALUE),
    )
