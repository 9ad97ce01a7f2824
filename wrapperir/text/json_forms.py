"""The JSON forms of scalars, names and lists.

A form is a writer, a reader and a JSON Schema of one type.  Written values read back
exactly: an integer has no point or exponent, a float has one, and the floats that JSON
lacks are ``{"float": "inf"}``, ``"-inf"``, ``"nan"``.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import TypeAlias, TypeGuard

from attrs import field, frozen

from wrapperir.diagnostics import Code
from wrapperir.text.limits import MAX_DEVICE_INDEX, MAX_DIGITS, MAX_INTEGER
from wrapperir.text.literals import format_integer, format_string
from wrapperir.text.malformed import Malformed, quoted
from wrapperir.text.names import Names, device_index

Schema: TypeAlias = Mapping[str, object]


JsonObject: TypeAlias = tuple[tuple[str, object], ...]
"""An object of a loaded document: its keys and values in the order of the file.

Nothing else loads as a tuple.  Unlike a dictionary it keeps duplicate keys.
"""


@frozen
class Tables:
    """The state of writing or reading one program.

    ``texts`` maps the identity of an object of the program to its JSON.  ``objects`` maps
    the name of a class and the JSON read to the object.  ``depths`` maps the name of a
    class to the number of its objects that are open.
    """

    names: Names = field(factory=Names)
    texts: dict[int, str] = field(factory=dict[int, str])
    objects: dict[tuple[str, object], object] = field(
        factory=dict[tuple[str, object], object]
    )
    depths: dict[str, int] = field(factory=dict[str, int])


Write: TypeAlias = Callable[[object, Tables], str]
Read: TypeAlias = Callable[[object, Tables], object]


@frozen
class Form:
    """Writer, reader and schema of a type.  ``read`` raises :class:`Malformed`."""

    write: Write
    read: Read
    schema: Schema


def is_object(value: object) -> TypeGuard[JsonObject]:
    """Return whether a value of a loaded document is an object."""
    return type(value) is tuple


def get(value: JsonObject, key: str) -> object:
    """Return the value of a key, or ``None`` where the key is missing."""
    for found, content in value:
        if found == key:
            return content
    return None


def unknown_field(key: str, known: Iterable[str]) -> Malformed:
    """Return the error that an object has an unknown field."""
    return Malformed(
        Code.UNKNOWN_FIELD,
        f"unknown field {quoted(key)}",
        hint="the fields are " + ", ".join(f"`{name}`" for name in known),
    )


def duplicate_key(value: JsonObject) -> Malformed:
    """Return the error for an object with a duplicate key."""
    keys = [key for key, _ in value]
    twice = next(key for index, key in enumerate(keys) if key in keys[:index])
    return Malformed(Code.DUPLICATE_KEY, f"the key {quoted(twice)} is given twice")


def is_array(value: object) -> TypeGuard[list[object]]:
    """Return whether a value of a loaded document is an array."""
    return type(value) is list


def is_tuple(value: object) -> TypeGuard[tuple[object, ...]]:
    """Return whether a value of a program is a tuple."""
    return isinstance(value, tuple)


def wrong_type(value: object, wanted: str) -> Malformed:
    """Return the error that ``value`` has the wrong type."""
    if is_object(value) or is_array(value):
        shown = "an object" if is_object(value) else "an array"
    else:
        shown = quoted(json.dumps(value)[:60])
    return Malformed(Code.WRONG_TYPE, f"expected {wanted}, found {shown}")


def read_integer(value: object, tables: Tables) -> int:
    """Read an integer that text could spell."""
    if type(value) is not int:
        raise wrong_type(value, "an integer")
    if not -MAX_INTEGER <= value <= MAX_INTEGER:
        raise Malformed(Code.BAD_NUMBER, f"an integer of more than {MAX_DIGITS} digits")
    return value


def _write_integer(value: object, tables: Tables) -> str:
    assert isinstance(value, int)
    return format_integer(value)


INTEGER = Form(_write_integer, read_integer, {"type": "integer"})


def _write_device_index(value: object, tables: Tables) -> str:
    assert isinstance(value, int)
    return format_integer(device_index(value))


def _read_device_index(value: object, tables: Tables) -> int:
    return device_index(read_integer(value, tables))


DEVICE_INDEX = Form(
    _write_device_index,
    _read_device_index,
    {"type": "integer", "minimum": 0, "maximum": MAX_DEVICE_INDEX},
)


def write_number(value: object, tables: Tables) -> str:
    """Write a boolean, integer or float."""
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, int):
        return format_integer(value)
    assert isinstance(value, float)
    text = float.__repr__(value)
    return text if math.isfinite(value) else f'{{"float":"{text}"}}'


_SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def read_number(value: object, tables: Tables) -> int | float:
    """Read an integer or float."""
    if type(value) is float:
        if math.isinf(value):
            raise Malformed(Code.BAD_NUMBER, "a float too large for 64 bits")
        return value
    if is_object(value) and len(value) == 1:
        key, special = value[0]
        if key == "float" and isinstance(special, str) and special in _SPECIAL:
            return _SPECIAL[special]
    if type(value) is not int:
        raise wrong_type(value, "a number")
    return read_integer(value, tables)


_SPECIAL_SCHEMA: Schema = {
    "type": "object",
    "properties": {"float": {"enum": list(_SPECIAL)}},
    "required": ["float"],
    "additionalProperties": False,
}
NUMBER_SCHEMAS: tuple[Schema, ...] = ({"type": "number"}, _SPECIAL_SCHEMA)
NUMBER = Form(write_number, read_number, {"anyOf": list(NUMBER_SCHEMAS)})


def _write_boolean(value: object, tables: Tables) -> str:
    return "true" if value else "false"


def _read_boolean(value: object, tables: Tables) -> bool:
    if type(value) is not bool:
        raise wrong_type(value, "true or false")
    return value


BOOLEAN = Form(_write_boolean, _read_boolean, {"type": "boolean"})

_SURROGATE = re.compile("[\ud800-\udfff]")


def write_text(value: object, tables: Tables) -> str:
    """Write any string."""
    assert isinstance(value, str)
    return format_string(value)


def read_text(value: object, tables: Tables) -> str:
    """Read any string that UTF-8 can hold."""
    if type(value) is not str:
        raise wrong_type(value, "a string")
    if not value.isascii() and _SURROGATE.search(value):
        raise Malformed(Code.BAD_STRING, "a string with a lone surrogate")
    return value


TEXT = Form(write_text, read_text, {"type": "string"})


def _write_identifier(value: object, tables: Tables) -> str:
    assert isinstance(value, str)
    return f'"{tables.names.identifier(value)}"'


def read_identifier(value: object, tables: Tables) -> str:
    """Read the name of a value, kernel or parameter."""
    if type(value) is not str:
        raise wrong_type(value, "a name")
    return tables.names.identifier(value)


_IDENTIFIER_PATTERN = "^[A-Za-z_][A-Za-z0-9_]{0,254}$"
IDENTIFIER = Form(
    _write_identifier, read_identifier, {"type": "string", "pattern": _IDENTIFIER_PATTERN}
)


def _write_symbol(value: object, tables: Tables) -> str:
    assert isinstance(value, str)
    return f'"{tables.names.symbol(value)}"'


def read_symbol(value: object, tables: Tables) -> str:
    """Read the name of a symbol."""
    if type(value) is not str:
        raise wrong_type(value, "a symbol's name")
    return tables.names.symbol(value)


SYMBOL = Form(
    _write_symbol, read_symbol, {"type": "string", "pattern": _IDENTIFIER_PATTERN}
)


def _write_dotted(value: object, tables: Tables) -> str:
    assert isinstance(value, str)
    return f'"{tables.names.dotted(value)}"'


def _read_dotted(value: object, tables: Tables) -> str:
    if type(value) is not str:
        raise wrong_type(value, "a name such as `aten.mm.out`")
    return tables.names.dotted(value)


DOTTED = Form(
    _write_dotted,
    _read_dotted,
    {
        "type": "string",
        "pattern": r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)+$",
        "maxLength": 1000,
    },
)


def choice(kind: type[StrEnum]) -> Form:
    """Return the form of an enumeration: its values, as strings."""
    members: dict[object, StrEnum] = {member.value: member for member in kind}
    wanted = "one of " + ", ".join(f"`{member.value}`" for member in kind)

    def write(value: object, tables: Tables) -> str:
        assert isinstance(value, StrEnum)
        return f'"{value.value}"'

    def read(value: object, tables: Tables) -> object:
        found = members.get(value) if type(value) is str else None
        if found is None:
            if type(value) is not str:
                raise wrong_type(value, wanted)
            raise Malformed(Code.UNKNOWN_WORD, f"{quoted(value)} is not {wanted}")
        return found

    return Form(write, read, {"enum": [member.value for member in kind]})


def array(item: Form, most: int | None = None) -> Form:
    """Return the form of a tuple of any length, or of at most ``most`` items."""
    write_item, read_item = item.write, item.read

    def write(value: object, tables: Tables) -> str:
        assert is_tuple(value)
        if most is not None and len(value) > most:
            raise Malformed(Code.TOO_DEEP, f"more than {most} dimensions")
        texts: list[str] = []
        try:
            for element in value:
                texts.append(write_item(element, tables))
        except Malformed as error:
            raise error.within(len(texts)) from None
        return f"[{','.join(texts)}]"

    def read(value: object, tables: Tables) -> object:
        if not is_array(value):
            raise wrong_type(value, "an array")
        if most is not None and len(value) > most:
            raise Malformed(Code.TOO_DEEP, f"more than {most} dimensions")
        items: list[object] = []
        try:
            for element in value:
                items.append(read_item(element, tables))
        except Malformed as error:
            raise error.within(len(items)) from None
        return tuple(items)

    schema: dict[str, object] = {"type": "array", "items": item.schema}
    if most is not None:
        schema["maxItems"] = most
    return Form(write, read, schema)


def pair(key: Form, item: Form) -> Form:
    """Return the form of a name and a value: an array of two."""

    def write(value: object, tables: Tables) -> str:
        assert is_tuple(value)
        name, content = value
        return f"[{key.write(name, tables)},{item.write(content, tables)}]"

    def read(value: object, tables: Tables) -> object:
        if not is_array(value) or len(value) != 2:
            raise wrong_type(value, "an array of a name and a value")
        return key.read(value[0], tables), item.read(value[1], tables)

    schema = {
        "type": "array",
        "prefixItems": [key.schema, item.schema],
        "minItems": 2,
        "maxItems": 2,
    }
    return Form(write, read, schema)


def optional(item: Form) -> Form:
    """Return the form of a value that may be ``null``."""

    def write(value: object, tables: Tables) -> str:
        return "null" if value is None else item.write(value, tables)

    def read(value: object, tables: Tables) -> object:
        return None if value is None else item.read(value, tables)

    return Form(write, read, {"anyOf": [item.schema, {"type": "null"}]})


def one_of(*schemas: Schema) -> Schema:
    """Return the schema of a value that fits one of ``schemas``."""
    return {"anyOf": list(schemas)}


def tagged(key: str, content: Schema) -> Schema:
    """Return the schema of an object of one field."""
    return {
        "type": "object",
        "properties": {key: content},
        "required": [key],
        "additionalProperties": False,
    }
