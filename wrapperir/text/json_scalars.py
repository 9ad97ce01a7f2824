"""The JSON forms of numbers, strings, names and enumerations."""

import math
from collections.abc import Callable
from enum import StrEnum
from operator import attrgetter
from typing import TypeVar, cast

from attrs import evolve

from wrapperir.diagnostics import Code
from wrapperir.text.json_forms import (
    Form,
    JsonSchema,
    Tables,
    Write,
    is_object,
    object_schema,
    one_of,
    wrong_type,
)
from wrapperir.text.limits import (
    MAX_DEVICE_INDEX,
    MAX_DIGITS,
    MAX_INTEGER,
    Checked,
    Malformed,
    device_index,
    quoted,
)
from wrapperir.text.literals import (
    checked_text,
    checked_time,
    format_integer,
    format_string,
)

T = TypeVar("T")


def _scalar(
    kind: type[T],
    wanted: str,
    schema: JsonSchema,
    write: Callable[[T, Tables], str],
    check: Callable[[T, Tables], T],
) -> Form:
    """Return the form of values that JSON has; ``check`` returns its argument."""

    def read(value: object, tables: Tables) -> object:
        if type(value) is not kind:
            raise wrong_type(value, wanted)
        return check(value, tables)

    return Form((kind,), (kind,), wanted, schema, cast(Write, write), read)


def _check_integer(value: int, tables: Tables) -> int:
    if not -MAX_INTEGER <= value <= MAX_INTEGER:
        raise Malformed(Code.BAD_NUMBER, f"an integer of more than {MAX_DIGITS} digits")
    return value


BOOLEAN = _scalar(
    bool,
    "true or false",
    {"type": "boolean"},
    lambda value, tables: "true" if value else "false",
    lambda value, tables: value,
)
INTEGER = _scalar(
    int,
    "an integer",
    {"type": "integer"},
    lambda value, tables: format_integer(value),
    _check_integer,
)
DEVICE_INDEX = _scalar(
    int,
    "an integer",
    {"type": "integer", "minimum": 0, "maximum": MAX_DEVICE_INDEX},
    lambda value, tables: format_integer(device_index(value)),
    lambda value, tables: device_index(value),
)
TEXT = _scalar(
    str,
    "a string",
    {"type": "string"},
    lambda value, tables: format_string(value),
    lambda value, tables: checked_text(value),
)


def _name(wanted: str, schema: JsonSchema, checked: Callable[[Tables], Checked]) -> Form:
    def write(value: object, tables: Tables) -> str:
        assert isinstance(value, str)
        return f'"{checked(tables)[value]}"'

    def read(value: object, tables: Tables) -> object:
        if type(value) is not str:
            raise wrong_type(value, wanted)
        return checked(tables)[value]

    return Form((str,), (str,), wanted, schema, write, read)


_PATTERN = "[A-Za-z_][A-Za-z0-9_]"
_IDENTIFIER = {"type": "string", "pattern": f"^{_PATTERN}{{0,254}}$"}
_DOTTED = {
    "type": "string",
    "pattern": rf"^{_PATTERN}*(\.{_PATTERN}*)+$",
    "maxLength": 1000,
}
IDENTIFIER = _name("a name", _IDENTIFIER, attrgetter("identifiers"))
SYMBOL = _name("a symbol's name", _IDENTIFIER, attrgetter("symbols"))
ORIGIN = _name(
    "the name of an origin",
    {"anyOf": [_IDENTIFIER, _DOTTED]},
    attrgetter("origin_names"),
)
DOTTED = _name("a name such as `aten.mm.out`", _DOTTED, attrgetter("dotted"))


def choice(kind: type[StrEnum]) -> Form:
    """Return the form of an enumeration: its values, as strings."""
    members = {member.value: member for member in kind}
    texts: dict[object, str] = {member: f'"{value}"' for value, member in members.items()}
    wanted = "one of " + ", ".join(f"`{value}`" for value in members)

    def read(value: object, tables: Tables) -> object:
        if type(value) is not str:
            raise wrong_type(value, wanted)
        if value not in members:
            raise Malformed(Code.UNKNOWN_WORD, f"{quoted(value)} is not {wanted}")
        return members[value]

    schema = {"enum": list(members)}
    return Form((kind,), (str,), wanted, schema, lambda value, _: texts[value], read)


_SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def _write_float(value: object, tables: Tables) -> str:
    assert isinstance(value, float)
    text = float.__repr__(value)
    return text if math.isfinite(value) else f'{{"float":"{text}"}}'


def _read_float(value: object, tables: Tables) -> object:
    if is_object(value):
        found = value[0][1]
        if type(found) is str and found in _SPECIAL:
            return _SPECIAL[found]
        raise wrong_type(found, "`inf`, `-inf` or `nan`").within("float")
    assert isinstance(value, float)
    if math.isinf(value):
        raise Malformed(Code.BAD_NUMBER, "a float too large for 64 bits")
    return value


_FLOAT = Form(
    (float,),
    (float, "float"),
    "a float",
    {"anyOf": [{"type": "number"}, object_schema({"float": {"enum": list(_SPECIAL)}})]},
    _write_float,
    _read_float,
)
NUMBER = evolve(one_of(INTEGER, _FLOAT, wanted="a number"), schema=_FLOAT.schema)
TIME = Form(
    NUMBER.classes,
    NUMBER.heads,
    NUMBER.wanted,
    {"type": "number", "minimum": 0},
    lambda value, tables: NUMBER.write(checked_time(value), tables),
    lambda value, tables: checked_time(NUMBER.read(value, tables)),
)
NULL = Form(
    (type(None),),
    (type(None),),
    "`null`",
    {"type": "null"},
    lambda value, tables: "null",
    lambda value, tables: None,
)
