"""The JSON forms of the IR's classes, derived from the annotations of their fields.

Numbers, booleans, strings and ``null`` are JSON's own; ``{"symbol": "s0"}`` is a symbol,
``{"op": "add", "args": [...]}`` an operation, ``{"buffer": "buf0"}`` a value,
``{"dtype": "f32"}``, ``{"device": {...}}``, ``{"complex": [1.0, 2.0]}`` and
``{"memory_format": "channels_last"}`` are the calls of the text form, and an array is a
list.
"""

import re
from collections.abc import Callable
from enum import StrEnum
from operator import attrgetter
from types import UnionType
from typing import Union, get_args, get_origin

import attrs

from wrapperir import ir
from wrapperir.diagnostics import Code
from wrapperir.ir import Expr, Operation, Program, Symbol, TorchEnum
from wrapperir.text.arguments import TORCH_ENUMS
from wrapperir.text.json_forms import (
    Form,
    JsonObject,
    JsonSchema,
    Tables,
    array,
    check_keys,
    get,
    is_array,
    is_object,
    nested,
    object_schema,
    one_of,
    pair,
    shared,
    tagged,
    wrong_type,
)
from wrapperir.text.json_records import Record, RecordField, constant
from wrapperir.text.json_scalars import (
    BOOLEAN,
    DEVICE_INDEX,
    DOTTED,
    IDENTIFIER,
    INTEGER,
    NULL,
    NUMBER,
    ORIGIN,
    SYMBOL,
    TEXT,
    TIME,
    choice,
)
from wrapperir.text.limits import (
    MAX_BLOCK_DEPTH,
    MAX_INTEGER,
    MAX_LIST_DEPTH,
    MAX_RANK,
    Malformed,
    quoted,
    unwritable,
)
from wrapperir.text.literals import format_integer

HEADER = "wrapperir"
"""The key of the schema's version."""

_UNIONS = (*get_args(ir.ValueType), *get_args(ir.Parameter), *get_args(ir.Selection))
_SOURCES = tuple(k for k in get_args(ir.SymbolSource) if k not in get_args(Expr))
KINDS: dict[type, str] = {
    **ir.KEYWORDS,
    **{
        kind: re.sub("(Type|Parameter|Choice|Of)$", "", kind.__name__).lower()
        for kind in (*_UNIONS, *_SOURCES)
    },
    ir.NearestChoice: "nearest_shape",
}
"""The ``kind`` of each class that has one: the class name in short."""

_FREE_TEXT = {
    (ir.NodeOrigin, "operator"),
    (ir.NodeOrigin, "module"),
    (ir.SourcePlace, "file"),
    (ir.SourcePlace, "function"),
    (ir.OpaqueType, "description"),
    (ir.KernelDefinitionLine, "metadata"),
    (ir.KernelDefinitionLine, "source"),
    (ir.Input, "path"),
    (ir.Input, "tied"),
    (ir.ConstantInput, "key"),
    (ir.ConstantInput, "tied"),
    (ir.CollectiveLine, "group"),
    (ir.ProcessGroup, "name"),
    (ir.RecordedChoice, "device"),
    (ir.ComputedChoice, "device"),
}
_FREE_TEXT_FIELDS = {"message", "text"}
_SCALARS: tuple[object, ...] = (int, float, str)
_SPECIAL_FIELDS: dict[tuple[type, str], Form] = {
    (ir.Device, "index"): DEVICE_INDEX,
    (ir.RecordedChoice, "microseconds"): TIME,
    (ir.ExternKernelLine, "operator"): DOTTED,
    (ir.VendorLayout, "name"): DOTTED,
    (ir.SymbolDefinitionLine, "symbol"): SYMBOL,
    (ir.Provenance, "origins"): ORIGIN,
    (ir.NodeOrigin, "name"): ORIGIN,
}
"""The forms of scalars in fields whose annotations do not say all."""

_OMITTED = ("groups", "places", "origins")
"""Fields of a program that are left out where they are empty."""

# Parts that many lines share, so they are written once per program.
_SHARED = {*get_args(ir.ValueType), ir.Provenance, ir.Device}
_NESTING = {
    ir.TupleType: ("tuple type", MAX_LIST_DEPTH),
    ir.Block: ("block", MAX_BLOCK_DEPTH),
}


# Classes

_forms: dict[type, Form] = {}
_records: dict[type, Record] = {}


def record(kind: type) -> Form:
    """Return the form of an attrs class."""
    form = _forms.get(kind)
    if form is None:
        name = kind.__name__
        tag = KINDS.get(kind)
        made = _records[kind] = Record(
            kind, tag or name, lambda: _fields_of(kind), in_lines=kind is Program
        )
        reference = {"$ref": f"#/$defs/{name}"}
        heads = (tuple,) if tag is None else (("kind", tag),)
        form = Form((kind,), heads, f"a {tag or name}", reference, made.write, made.read)
        if kind in _NESTING:
            form = nested(form, *_NESTING[kind])
        if kind in _SHARED:
            form = shared(form, name)
        _forms[kind] = form
    return form


def definitions() -> dict[str, JsonSchema]:
    """Return the schemas of the classes of programs, by class name."""
    record(Program)
    found: dict[type, JsonSchema] = {}
    while len(found) < len(_records):  # a schema may create further forms
        for kind, made in list(_records.items()):
            if kind not in found:
                found[kind] = made.schema()
    by_name = {kind.__name__: schema for kind, schema in found.items()}
    return {**_DEFINITIONS, **dict(sorted(by_name.items()))}


def _fields_of(owner: type) -> list[RecordField]:
    """Return the fields of a class, its kind first and its provenance last."""
    attributes: tuple[attrs.Attribute[object], ...] = attrs.fields(owner)
    ordered = sorted(attributes, key=lambda attribute: attribute.name == "provenance")
    found = [_field_of(owner, attribute) for attribute in ordered]
    if owner is Program:
        return [constant(HEADER, ir.SCHEMA_VERSION), *found]
    return [constant("kind", KINDS[owner]), *found] if owner in KINDS else found


def _field_of(owner: type, attribute: "attrs.Attribute[object]") -> RecordField:
    name = attribute.name
    default: object = attribute.default
    make: Callable[[], object] | None = getattr(default, "factory", None)
    default = default if make is None else make()
    key = "symbol_kind" if (owner, name) == (ir.SymbolDefinitionLine, "kind") else name
    form = _form_of(attribute.type, owner, name)
    is_needed = owner is Program and name not in _OMITTED
    return RecordField(
        name, key, attrgetter(name), form, attrs.NOTHING if is_needed else default
    )


def _form_of(annotation: object, owner: type, name: str) -> Form:
    """Return the form of a field's annotation, or of a part of it."""
    if isinstance(annotation, str):
        annotation = vars(ir)[annotation]
    if annotation in _SCALARS and (owner, name) in _SPECIAL_FIELDS:
        return _SPECIAL_FIELDS[owner, name]
    if annotation is str:
        is_text = (owner, name) in _FREE_TEXT or name in _FREE_TEXT_FIELDS
        return TEXT if is_text else IDENTIFIER
    if annotation == ir.Argument:
        return ARGUMENT
    if annotation in _FORMS:
        return _FORMS[annotation]
    args = get_args(annotation)
    if get_origin(annotation) is tuple:
        if args[1:] == (...,):
            most = MAX_RANK if owner is ir.TensorType else None
            field = name if owner is Program else None
            return array(_form_of(args[0], owner, name), most, field)
        first, second = (_form_of(arg, owner, name) for arg in args)
        return pair(first, second, "an array of a name and a value")
    if get_origin(annotation) in (Union, UnionType):
        return _union_form(args, owner, name)
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return choice(annotation)
    assert isinstance(annotation, type), annotation
    return record(annotation)


def _union_form(members: tuple[object, ...], owner: type, name: str) -> Form:
    forms: list[Form] = []
    if Symbol in members:
        forms.append(EXPRESSION)
        members = tuple(m for m in members if m not in get_args(Expr))
    if float in members:
        members = tuple(m for m in members if m is not int)
    is_text = len([m for m in members if m is not type(None)]) > 1
    forms += [TEXT if m is str and is_text else _form_of(m, owner, name) for m in members]
    return forms[0] if len(forms) == 1 else one_of(*forms)


# Expressions

_OPS = {op.value: op for op in ir.ExprOp}


def _check_operation(op: ir.ExprOp, count: int, depth: int) -> None:
    if depth == 0:
        raise Malformed(
            Code.TOO_DEEP, f"an expression more than {ir.MAX_DEPTH} operations deep"
        )
    if not ir.accepts_arity(op, count):
        raise Malformed(Code.BAD_ARITY, f"`{op.value}` does not take {count} operands")


def _write_expression(value: object, tables: Tables, depth: int = ir.MAX_DEPTH) -> str:
    if type(value) is int:  # first, as most are
        return format_integer(value)
    if isinstance(value, Symbol):
        return f'{{"symbol":"{tables.symbols[value.name]}"}}'
    if isinstance(value, bool):
        return BOOLEAN.write(value, tables)
    if isinstance(value, int | float):
        return NUMBER.write(value, tables)
    if not isinstance(value, Operation):
        raise unwritable(value, "an expression")
    _check_operation(value.op, len(value.args), depth)
    args = ",".join([_write_expression(arg, tables, depth - 1) for arg in value.args])
    return f'{{"op":"{value.op.value}","args":[{args}]}}'


def _read_expression(value: object, tables: Tables, depth: int = ir.MAX_DEPTH) -> Expr:
    if type(value) is int and -MAX_INTEGER <= value <= MAX_INTEGER:  # first, as most are
        return value
    if is_object(value):
        if len(value) == 1 and value[0][0] == "symbol":
            return Symbol(str(SYMBOL.read(value[0][1], tables)))
        if len(value) == 2:
            return _read_operation(value, tables, depth)
    elif type(value) is bool:
        return value
    number = NUMBER.read(value, tables)
    assert isinstance(number, int | float)
    return number


def _read_operation(value: JsonObject, tables: Tables, depth: int) -> Operation:
    fields = ("op", "args")
    check_keys([key for key, _ in value], fields, fields, "operation")
    op, args = get(value, "op"), get(value, "args")
    if type(op) is not str or op not in _OPS:
        raise Malformed(Code.UNKNOWN_WORD, "`op` is not an operator of expressions")
    if not is_array(args):
        raise wrong_type(args, "an array, the `args` of an operation")
    _check_operation(_OPS[op], len(args), depth)
    return Operation(
        _OPS[op], tuple([_read_expression(arg, tables, depth - 1) for arg in args])
    )


EXPRESSION = Form(
    (Symbol, Operation, *NUMBER.classes, bool),
    (tuple, int, float, bool),
    "an expression",
    {"$ref": "#/$defs/expression"},
    _write_expression,
    _read_expression,
)


# Arguments


def _write_torch_enum(value: object, tables: Tables) -> str:
    assert isinstance(value, TorchEnum)
    if value.kind not in TORCH_ENUMS:
        raise Malformed(
            Code.BAD_NAME, f"{quoted(value.kind)} is not a kind of torch constant"
        )
    return f'{{"{value.kind}":{IDENTIFIER.write(value.name, tables)}}}'


def _read_torch_enum(value: object, tables: Tables) -> object:
    assert is_object(value)
    kind, name = value[0]
    return TorchEnum(kind, str(IDENTIFIER.read(name, tables)))


_BUFFER = tagged(ir.BufferRef, "buffer", IDENTIFIER, lambda ref: ref.name, ir.BufferRef)
_TORCH_ENUM = Form(
    (TorchEnum,),
    TORCH_ENUMS,
    "a constant of torch",
    {"anyOf": [object_schema({kind: IDENTIFIER.schema}) for kind in TORCH_ENUMS]},
    _write_torch_enum,
    _read_torch_enum,
)
_ARGUMENT_SCHEMA = {"$ref": "#/$defs/argument"}
_LIST = array(
    Form(
        (),
        (),
        "an argument",
        _ARGUMENT_SCHEMA,
        lambda value, tables: ARGUMENT.write(value, tables),
        lambda value, tables: ARGUMENT.read(value, tables),
    )
)
_ANY_ARGUMENT = one_of(
    EXPRESSION,
    TEXT,
    NULL,
    _BUFFER,
    tagged(ir.DType, "dtype", choice(ir.DType)),
    tagged(ir.Device, "device", record(ir.Device)),
    tagged(
        ir.ComplexLiteral,
        "complex",
        pair(NUMBER, NUMBER, "an array of the real and the imaginary part"),
        lambda value: (value.real, value.imaginary),
        lambda parts: ir.ComplexLiteral(*parts),
    ),
    _TORCH_ENUM,
    nested(_LIST, "list", MAX_LIST_DEPTH),
    wanted="an argument",
)
ARGUMENT: Form = attrs.evolve(_ANY_ARGUMENT, schema=_ARGUMENT_SCHEMA)

_DEFINITIONS: dict[str, JsonSchema] = {
    "expression": {
        "anyOf": [
            BOOLEAN.schema,
            NUMBER.schema,
            object_schema({"symbol": SYMBOL.schema}),
            object_schema(
                {
                    "op": {"enum": list(_OPS)},
                    "args": {"type": "array", "items": EXPRESSION.schema, "minItems": 1},
                }
            ),
        ]
    },
    "argument": _ANY_ARGUMENT.schema,
}

_FORMS: dict[object, Form] = {
    bool: BOOLEAN,
    int: INTEGER,
    float: NUMBER,
    type(None): NULL,
    ir.BufferRef: _BUFFER,
}
"""The forms of the classes that are not records."""
