"""JSON forms: how the values of a type are written, read and described by a schema.

Written values read back exactly: an integer has no point or exponent, a float has one, and
the floats that JSON lacks are ``{"float": "inf"}``, ``"-inf"``, ``"nan"``.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard, TypeVar, cast

from attrs import evolve, frozen

from wrapperir.diagnostics import Code, did_you_mean
from wrapperir.text.limits import (
    WRITE_ERRORS,
    Malformed,
    Names,
    placed,
    quoted,
    unwritable,
)

T = TypeVar("T")

JsonSchema: TypeAlias = Mapping[str, object]

JsonObject: TypeAlias = tuple[tuple[str, object], ...]
"""An object of a loaded document: its keys and values in the order of the file.

Nothing else loads as a tuple.  Unlike a dictionary it keeps duplicate keys.
"""


class Tables(Names):
    """The state of writing or reading one program.

    ``texts`` maps the identity of an object of the program to its JSON.  ``objects`` maps
    the name of a class and the ``repr`` of loaded JSON to the object read from it.
    ``depths`` counts the open objects of each kind that nests.  ``errors`` holds the errors
    of items that are left out of arrays.
    """

    def __init__(self) -> None:
        """Start empty."""
        super().__init__()
        self.texts: dict[int, str] = {}
        self.objects: dict[tuple[str, str], object] = {}
        self.depths: dict[str, int] = {}
        self.errors: list[Malformed] = []


Write: TypeAlias = Callable[[object, Tables], str]
Read: TypeAlias = Callable[[object, Tables], object]
Head: TypeAlias = type | str | tuple[str, str]


@frozen
class Form:
    """The writer, reader and schema of a type.

    A union of forms chooses a writer by ``classes``, the classes of the values, and a
    reader by ``heads``, which :func:`head` returns for their JSON.
    ``wanted`` describes the JSON in errors.
    ``write`` and ``read`` raise :class:`Malformed`.
    """

    classes: tuple[type, ...]
    heads: tuple[Head, ...]
    wanted: str
    schema: JsonSchema
    write: Write
    read: Read


def is_object(value: object) -> TypeGuard[JsonObject]:
    """Return whether a value of a loaded document is an object."""
    return type(value) is tuple


def is_array(value: object) -> TypeGuard[list[object]]:
    """Return whether a value of a loaded document is an array."""
    return type(value) is list


def is_tuple(value: object) -> TypeGuard[tuple[object, ...]]:
    """Return whether a value of a program is a tuple."""
    return isinstance(value, tuple)


def get(value: JsonObject, key: str) -> object:
    """Return the value of a key, or ``None`` where the key is missing."""
    for found, content in value:
        if found == key:
            return content
    return None


def head(value: object) -> Head:
    """Return the part of a loaded value that a union of forms chooses by.

    It is ``("kind", kind)`` for an object that has a kind, the key of an object with one
    key, and the class as which any other value loads.
    """
    if is_object(value):
        for key, content in value:
            if key == "kind" and type(content) is str:
                return key, content
        if len(value) == 1:
            return value[0][0]
    return type(value)


def wrong_type(value: object, wanted: str) -> Malformed:
    """Return the error that ``value`` has the wrong type."""
    if is_object(value) or is_array(value):
        shown = "an object" if is_object(value) else "an array"
    else:
        shown = quoted(json.dumps(value)[:60])
    return Malformed(Code.WRONG_TYPE, f"expected {wanted}, found {shown}")


def check_keys(
    keys: Sequence[str], known: Iterable[str], required: Iterable[str], name: str
) -> None:
    """Check the keys of an object; ``name`` describes the object in errors.

    Raises:
        Malformed: a key is unknown, missing or given twice.
    """
    known = list(known)
    for key in keys:
        if key not in known:
            raise Malformed(
                Code.UNKNOWN_FIELD,
                f"unknown field {quoted(key)}",
                hint=did_you_mean(key, known)
                or "the fields are " + ", ".join(f"`{name}`" for name in known),
            )
    for index, key in enumerate(keys):
        if key in keys[:index]:
            raise Malformed(Code.DUPLICATE_KEY, f"the key {quoted(key)} is given twice")
    for key in required:
        if key not in keys:
            raise Malformed(Code.MISSING_FIELD, f"the {name} lacks the field `{key}`")


# Objects with one key, arrays and unions


def tagged(
    kind: type[T],
    key: str,
    item: Form,
    get: Callable[[T], object] = lambda value: value,
    make: Callable[[Any], object] = lambda content: content,
) -> Form:
    """Return the form of an object with one key; a union must have found the key.

    ``get`` returns the content of a value, and ``make`` the value of a content.
    """
    write_item, getter = item.write, cast(Callable[[object], object], get)

    def write(value: object, tables: Tables) -> str:
        return f'{{"{key}":{write_item(getter(value), tables)}}}'

    def read(value: object, tables: Tables) -> object:
        assert is_object(value)
        return make(item.read(value[0][1], tables))

    return Form((kind,), (key,), f"`{key}`", object_schema({key: item.schema}), write, read)


def object_schema(
    properties: Mapping[str, object], required: Iterable[str] | None = None
) -> JsonSchema:
    """Return the schema of an object; by default every field is required."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties if required is None else required),
        "additionalProperties": False,
    }


def array(item: Form, most: int | None = None, field: str | None = None) -> Form:
    """Return the form of a tuple of any length, or of at most ``most`` items.

    Items of a program's ``field`` are each on a line of their own.  Malformed ones are
    left out, with their errors in :attr:`Tables.errors`.
    """
    separator, opening, closing = ",[]" if field is None else (",\n", "[\n", "\n]")
    write_item, read_item = item.write, item.read

    longest = sys.maxsize if most is None else most

    def too_long() -> Malformed:
        return Malformed(Code.TOO_DEEP, f"more than {most} dimensions")

    def write(value: object, tables: Tables) -> str:
        assert is_tuple(value)
        if len(value) > longest:
            raise too_long()
        texts: list[str] = []
        try:
            for element in value:
                texts.append(write_item(element, tables))
        except WRITE_ERRORS as error:
            raise placed(error, len(texts)) from None
        return f"{opening}{separator.join(texts)}{closing}" if texts else "[]"

    def read(value: object, tables: Tables) -> object:
        if not is_array(value):
            raise wrong_type(value, "an array")
        if len(value) > longest:
            raise too_long()
        items: list[object] = []
        for index, element in enumerate(value):
            try:
                items.append(read_item(element, tables))
            except Malformed as error:
                if field is None:
                    raise error.within(index) from None
                tables.errors.append(error.within(field, index))
        return tuple(items)

    schema: dict[str, object] = {"type": "array", "items": item.schema}
    if most is not None:
        schema["maxItems"] = most
    return Form((tuple,), (list,), "an array", schema, write, read)


def pair(first: Form, second: Form, wanted: str) -> Form:
    """Return the form of a tuple of two: an array."""

    def write(value: object, tables: Tables) -> str:
        assert is_tuple(value)
        left, right = value
        return f"[{first.write(left, tables)},{second.write(right, tables)}]"

    def read(value: object, tables: Tables) -> object:
        if not is_array(value) or len(value) != 2:
            raise wrong_type(value, wanted)
        return first.read(value[0], tables), second.read(value[1], tables)

    items = [first.schema, second.schema]
    schema = {"type": "array", "prefixItems": items, "minItems": 2, "maxItems": 2}
    return Form((tuple,), (list,), wanted, schema, write, read)


class _Writers(dict[type, Write]):
    """Writers by class; a subclass has the writer of its first base that has one."""

    def __missing__(self, kind: type) -> Write:
        found = next((self[base] for base in kind.__mro__ if base in self), _refuse)
        self[kind] = found
        return found


def _refuse(value: object, tables: Tables) -> str:
    raise unwritable(value, "another value")


def one_of(*forms: Form, wanted: str | None = None) -> Form:
    """Return the form of values that fit one of ``forms``."""
    writers = _Writers({kind: form.write for form in forms for kind in form.classes})
    readers = {head: form.read for form in forms for head in form.heads}
    kinds = [head[1] for head in readers if isinstance(head, tuple)]
    wanted = wanted or " or ".join(form.wanted for form in forms)
    if kinds:
        names = ", ".join(f"`{kind}`" for kind in kinds)
        wanted = f"an object whose `kind` is one of {names}"

    def write(value: object, tables: Tables) -> str:
        return writers[type(value)](value, tables)

    def read(value: object, tables: Tables) -> object:
        reader = readers.get(head(value) if is_object(value) else type(value))
        if reader is None:
            kind = get(value, "kind") if kinds and is_object(value) else None
            if kind is not None:
                raise _unknown_kind(kind, wanted)
            reader = readers.get(type(value))
        if reader is None:
            if kinds and is_object(value):
                raise Malformed(Code.MISSING_FIELD, "the object lacks the field `kind`")
            raise wrong_type(value, wanted)
        return reader(value, tables)

    classes = tuple(kind for form in forms for kind in form.classes)
    schema = {"anyOf": [form.schema for form in forms]}
    return Form(classes, tuple(readers), wanted, schema, write, read)


def _unknown_kind(kind: object, wanted: str) -> Malformed:
    if type(kind) is not str:
        return wrong_type(kind, "a string, the `kind`").within("kind")
    message = f"{quoted(kind)} is not a kind here"
    return Malformed(Code.UNKNOWN_WORD, message, hint=f"expected {wanted}").within("kind")


def shared(form: Form, name: str) -> Form:
    """Return a form that writes and reads repeated values once, such as types.

    Written values are found by identity, read values by the ``repr`` of their JSON, since
    equality does not distinguish 1, 1.0 and true.  ``name`` is the name of the class.
    """

    def write(value: object, tables: Tables) -> str:
        text = tables.texts.get(id(value))
        if text is None:
            text = tables.texts[id(value)] = form.write(value, tables)
        return text

    def read(value: object, tables: Tables) -> object:
        key = name, repr(value)
        found = tables.objects.get(key)
        if found is None:
            found = tables.objects[key] = form.read(value, tables)
        return found

    return evolve(form, write=write, read=read)


def nested(form: Form, name: str, most: int) -> Form:
    """Return a form that refuses values nested more than ``most`` deep."""

    def enter(tables: Tables) -> None:
        depth = tables.depths.get(name, 0)
        if depth == most:
            raise Malformed(Code.TOO_DEEP, f"more than {most} {name}s within one another")
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

    return evolve(form, write=write, read=read)
