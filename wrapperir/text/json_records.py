"""The JSON forms of attrs classes, made from their fields.

A record is an object with a key for each field, left out where the value is the class's
default.  A class that is one of several in its place has a ``kind`` before its fields.
"""

from collections.abc import Callable
from enum import StrEnum
from operator import attrgetter
from types import UnionType
from typing import Union, get_args, get_origin

import attrs

from wrapperir.diagnostics import Code
from wrapperir.ir.expr import Expr
from wrapperir.ir.kernel import (
    BufferParameter,
    ConfigValue,
    Constant,
    ConstexprParameter,
    FirstChoice,
    ForcedChoice,
    ScalarParameter,
)
from wrapperir.ir.line import (
    KEYWORDS,
    Argument,
    Block,
    BodyLine,
    ExternKernelLine,
    ItemOf,
    KernelArgument,
    KernelDefinitionLine,
    OffsetOf,
    Provenance,
    SizeOf,
    SourceLocation,
    StrideOf,
    SymbolDefinitionLine,
    SymbolSource,
    ValueOf,
)
from wrapperir.ir.program import ConstantInput
from wrapperir.ir.types import (
    Device,
    LayoutValue,
    OpaqueType,
    ScalarType,
    TensorType,
    TupleType,
    ValueType,
    VendorLayout,
)
from wrapperir.text.json_arguments import (
    CONFIG_VALUE,
    CONSTANT,
    EXPRESSION,
    KERNEL_ARGUMENT,
    LAYOUT_VALUE,
    argument_form,
    one_of,
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
    Read,
    Schema,
    Tables,
    array,
    choice,
    duplicate_key,
    get,
    is_object,
    optional,
    pair,
    unknown_field,
    wrong_type,
)
from wrapperir.text.limits import MAX_BLOCK_DEPTH, MAX_LIST_DEPTH, MAX_RANK
from wrapperir.text.malformed import Malformed, quoted

KINDS: dict[type, str] = {
    **KEYWORDS,
    TensorType: "tensor",
    ScalarType: "scalar",
    TupleType: "tuple",
    OpaqueType: "opaque",
    BufferParameter: "buffer",
    ScalarParameter: "scalar",
    ConstexprParameter: "constexpr",
    FirstChoice: "first",
    ForcedChoice: "forced",
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
}
_FREE_TEXT_FIELDS = {"message", "text"}
_DOTTED = {(ExternKernelLine, "operator"), (VendorLayout, "name")}
_RENAMED: dict[tuple[type, str], str] = {(SymbolDefinitionLine, "kind"): "symbol_kind"}
_SYMBOLS = {(SymbolDefinitionLine, "symbol")}

# Shared by many lines, so written once for a program.
_SHARED = (TensorType, ScalarType, TupleType, OpaqueType, Provenance, Device)
_NESTING = {TupleType: MAX_LIST_DEPTH, Block: MAX_BLOCK_DEPTH}

_forms: dict[type, Form] = {}
_definitions: dict[str, Callable[[], Schema]] = {}


def record(kind: type) -> Form:
    """Return the form of an attrs class."""
    form = _forms.get(kind)
    if form is None:
        form = _forms[kind] = _Record(kind).form()
    return form


def definitions() -> dict[str, Schema]:
    """Return the schemas of the classes whose forms have been made, by class name."""
    found: dict[str, Schema] = {}
    while len(found) < len(_definitions):  # describing one may make the form of another
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


class _Field:
    def __init__(self, owner: type, attribute: "attrs.Attribute[object]") -> None:
        self.name = attribute.name
        self.key = _RENAMED.get((owner, attribute.name), attribute.name)
        self.get = attrgetter(attribute.name)
        self.form = _form_of(attribute.type, owner, attribute.name)
        self.prefix = f'"{self.key}":'
        self.required = attribute.default is attrs.NOTHING
        self.default: object = attribute.default
        if isinstance(self.default, attrs.Factory):  # type: ignore[arg-type]
            self.default = self.default.factory()  # type: ignore[attr-defined]


class _Record:
    """The form of one class; its fields are looked at when it is first used."""

    def __init__(self, kind: type) -> None:
        self._kind = kind
        self._tag = KINDS.get(kind)
        self._fields: tuple[_Field, ...] | None = None
        self._readers: dict[str, tuple[str, Read]] = {}
        self._required: frozenset[str] = frozenset()
        _definitions[kind.__name__] = self._schema

    def form(self) -> Form:
        form = Form(self._write, self._read, {"$ref": f"#/$defs/{self._kind.__name__}"})
        if self._kind in _NESTING:
            form = _nested(form, self._kind.__name__, _NESTING[self._kind])
        return _shared(form) if self._kind in _SHARED else form

    def _prepared(self) -> tuple[_Field, ...]:
        if self._fields is None:
            attributes = attrs.fields(self._kind)
            self._fields = tuple(_Field(self._kind, a) for a in _ordered(attributes))
        return self._fields

    def _write(self, value: object, tables: Tables) -> str:
        if type(value) is not self._kind:
            raise Malformed(
                Code.UNWRITABLE_VALUE, f"{quoted(repr(value)[:200])} is out of place"
            )
        parts = [] if self._tag is None else [f'"kind":"{self._tag}"']
        key = ""
        try:
            for item in self._fields or self._prepared():
                content = item.get(value)
                default = item.default
                if content is default or (
                    type(content) is type(default) and content == default
                ):
                    continue
                key = item.key
                parts.append(item.prefix + item.form.write(content, tables))
        except Malformed as error:
            raise error.within(key) from None
        return f"{{{','.join(parts)}}}"

    def _read(self, value: object, tables: Tables) -> object:
        if not is_object(value):
            raise wrong_type(value, f"an object: a {self._name()}")
        readers = self._readers or self._prepared_readers()
        values: dict[str, object] = {}
        key, kinds = "", 0
        unknown: str | None = None
        try:
            for key, content in value:
                reader = readers.get(key)
                if reader is not None:
                    name, read = reader
                    values[name] = read(content, tables)
                elif key != "kind" or self._tag is None:
                    unknown = key
                    break
                elif content != self._tag:
                    raise wrong_type(content, f"the kind `{self._tag}`")
                else:
                    kinds = 1
        except Malformed as error:
            raise error.within(key) from None
        if unknown is not None:
            raise self._unknown_field(unknown)
        if self._tag is not None and not kinds:
            raise Malformed(Code.MISSING_FIELD, "the object lacks the field `kind`")
        if len(values) + kinds != len(value):
            raise duplicate_key(value)
        if not self._required <= values.keys():
            missing = next(
                i.key for i in self._prepared() if i.required and i.name not in values
            )
            message = f"the {self._name()} lacks the field `{missing}`"
            raise Malformed(Code.MISSING_FIELD, message)
        return self._kind(**values)

    def _prepared_readers(self) -> "dict[str, tuple[str, Read]]":
        fields = self._prepared()
        self._required = frozenset(item.name for item in fields if item.required)
        self._readers = {item.key: (item.name, item.form.read) for item in fields}
        return self._readers

    def _name(self) -> str:
        return self._tag or self._kind.__name__

    def _unknown_field(self, key: str) -> Malformed:
        known = [item.key for item in self._prepared()]
        if self._tag is not None:
            known.insert(0, "kind")
        return unknown_field(key, known)

    def _schema(self) -> Schema:
        properties: dict[str, object] = {}
        if self._tag is not None:
            properties["kind"] = {"const": self._tag}
        properties.update({item.key: item.form.schema for item in self._prepared()})
        required = [item.key for item in self._prepared() if item.required]
        return {
            "type": "object",
            "properties": properties,
            "required": required if self._tag is None else ["kind", *required],
            "additionalProperties": False,
        }


def _ordered(
    attributes: "tuple[attrs.Attribute[object], ...]",
) -> "list[attrs.Attribute[object]]":
    return sorted(attributes, key=lambda attribute: attribute.name == "provenance")


def _shared(form: Form) -> Form:
    """Write each object of the program once, however many lines refer to it."""

    def write(value: object, tables: Tables) -> str:
        text = tables.texts.get(id(value))
        if text is None:
            text = tables.texts[id(value)] = form.write(value, tables)
        return text

    return Form(write, form.read, form.schema)


def _nested(form: Form, name: str, most: int) -> Form:
    """Refuse more than ``most`` of a class within one another."""

    def enter(tables: Tables) -> None:
        depth = tables.depths.get(name, 0)
        if depth == most:
            raise Malformed(Code.TOO_DEEP, f"more than {most} within one another")
        tables.depths[name] = depth + 1

    def write(value: object, tables: Tables) -> str:
        enter(tables)
        try:
            return form.write(value, tables)
        finally:
            tables.depths[name] -= 1

    def read(value: object, tables: Tables) -> object:
        enter(tables)
        try:
            return form.read(value, tables)
        finally:
            tables.depths[name] -= 1

    return Form(write, read, form.schema)


def _union(kinds: tuple[type, ...]) -> Form:
    """Return the form of one of several classes, told apart by ``kind``."""
    writers = {kind: record(kind).write for kind in kinds}
    readers = {KINDS[kind]: record(kind).read for kind in kinds}
    wanted = "an object whose `kind` is one of " + ", ".join(f"`{k}`" for k in readers)

    def write(value: object, tables: Tables) -> str:
        writer = writers.get(type(value))
        if writer is None:
            raise Malformed(
                Code.UNWRITABLE_VALUE, f"{quoted(repr(value)[:200])} is out of place"
            )
        return writer(value, tables)

    def read(value: object, tables: Tables) -> object:
        if not is_object(value):
            raise wrong_type(value, wanted)
        kind = get(value, "kind")
        reader = readers.get(kind) if type(kind) is str else None
        if reader is not None:
            return reader(value, tables)
        if kind is None:
            raise Malformed(Code.MISSING_FIELD, "the object lacks the field `kind`")
        if type(kind) is not str:
            raise wrong_type(kind, "a string, the `kind`").within("kind")
        raise Malformed(
            Code.UNKNOWN_WORD, f"{quoted(kind)} is no kind here", hint=f"expected {wanted}"
        ).within("kind")

    return Form(write, read, one_of(*(record(kind).schema for kind in kinds)))


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


def _simple_forms() -> tuple[tuple[object, Form], ...]:
    sources = (SizeOf, StrideOf, OffsetOf, ValueOf, ItemOf)
    return (
        (bool, BOOLEAN),
        (int, INTEGER),
        (float, NUMBER),
        (Expr, EXPRESSION),
        (KernelArgument, KERNEL_ARGUMENT),
        (Argument, argument_form(record(Device))),
        (SymbolSource, symbol_source_form(_union(sources))),
        (Constant, CONSTANT),
        (ConfigValue, CONFIG_VALUE),
        (LayoutValue, LAYOUT_VALUE),
    )
