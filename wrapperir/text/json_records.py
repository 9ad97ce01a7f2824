"""The JSON form of records: objects with a key for each field of a class.

Fields with default values are left out.  A class that is one of several alternatives
has a ``kind`` before its fields.
"""

from collections.abc import Callable, Mapping

from attrs import frozen

from wrapperir.diagnostics import Code
from wrapperir.text.json_forms import (
    Form,
    JsonObject,
    Read,
    Schema,
    Tables,
    duplicate_key,
    get,
    is_array,
    is_object,
    one_of,
    unknown_field,
    wrong_type,
)
from wrapperir.text.malformed import Malformed, quoted


@frozen
class RecordField:
    """A field: its name in the class, key in JSON, getter and form.

    Where the field has no default, ``default`` equals no value.
    """

    name: str
    key: str
    get: Callable[[object], object]
    form: Form
    required: bool
    default: object


# Orders of a class's keys that are remembered; writers use few.
_MOST_PLANS = 64


class Record:
    """The form of one class; its fields are inspected at first use."""

    def __init__(
        self, kind: type, tag: str | None, fields: Callable[[], tuple[RecordField, ...]]
    ) -> None:
        """Take a class, its ``kind`` if it has one, and how to find its fields."""
        self._kind = kind
        self._tag = tag
        self._find_fields = fields
        self._fields: tuple[RecordField, ...] | None = None
        self._plans: dict[tuple[str, ...], tuple[tuple[str, Read], ...]] = {}

    def form(self) -> Form:
        """Return the form."""
        return Form(self._write, self._read, {"$ref": f"#/$defs/{self._kind.__name__}"})

    def _prepared(self) -> tuple[RecordField, ...]:
        if self._fields is None:
            self._fields = self._find_fields()
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
                parts.append(f'"{key}":{item.form.write(content, tables)}')
        except Malformed as error:
            raise error.within(key) from None
        return f"{{{','.join(parts)}}}"

    def _read(self, value: object, tables: Tables) -> object:
        if not is_object(value):
            raise wrong_type(value, f"an object: a {self._name()}")
        fields = value if self._tag is None else self._without_kind(value)
        plan = self._plans.get(tuple([key for key, _ in fields]))
        if plan is None:
            plan = self._plan(fields)
        values: dict[str, object] = {}
        key = ""
        try:
            for item, (name, read) in zip(fields, plan, strict=True):
                key, content = item
                values[name] = read(content, tables)
        except Malformed as error:
            raise error.within(key) from None
        return self._kind(**values)

    def _without_kind(self, value: JsonObject) -> JsonObject:
        """Check the ``kind`` of an object; return its other fields."""
        if value and value[0][0] == "kind":
            kind, fields = value[0][1], value[1:]
        else:
            kind = get(value, "kind")
            fields = tuple(item for item in value if item[0] != "kind")
            if len(fields) == len(value):
                raise Malformed(Code.MISSING_FIELD, "the object lacks the field `kind`")
        if kind != self._tag:
            raise wrong_type(kind, f"the kind `{self._tag}`").within("kind")
        return fields

    def _plan(self, fields: JsonObject) -> "tuple[tuple[str, Read], ...]":
        """Check the keys of an object; return how to read what is under each."""
        readers = {i.key: (i.name, i.form.read) for i in self._prepared()}
        keys = tuple(key for key, _ in fields)
        for key in keys:
            if key not in readers:
                if key == "kind" and self._tag is not None:
                    raise duplicate_key((("kind", None), *fields))
                raise self._unknown_field(key)
        for item in self._prepared():
            if item.required and item.key not in keys:
                message = f"the {self._name()} lacks the field `{item.key}`"
                raise Malformed(Code.MISSING_FIELD, message)
        if len(set(keys)) != len(keys):
            raise duplicate_key(fields)
        plan = tuple(readers[key] for key in keys)
        if len(self._plans) < _MOST_PLANS:
            self._plans[keys] = plan
        return plan

    def _name(self) -> str:
        return self._tag or self._kind.__name__

    def _unknown_field(self, key: str) -> Malformed:
        known = [item.key for item in self._prepared()]
        if self._tag is not None:
            known.insert(0, "kind")
        return unknown_field(key, known)

    def schema(self) -> Schema:
        """Return the schema of the class's objects."""
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


def shared(form: Form, name: str) -> Form:
    """Return a form that writes and reads repeated values once, such as types.

    Written values are found by identity.  Read values are found by their JSON if it
    consists of strings and integers: floats and booleans can equal an integer of another
    type.  ``name`` is the name of the class.
    """

    def write(value: object, tables: Tables) -> str:
        text = tables.texts.get(id(value))
        if text is None:
            text = tables.texts[id(value)] = form.write(value, tables)
        return text

    def read(value: object, tables: Tables) -> object:
        try:
            key = (name, _frozen(value, _SHARED_DEPTH))
        except _NotShared:
            return form.read(value, tables)
        found = tables.objects.get(key)
        if found is None:
            found = tables.objects[key] = form.read(value, tables)
        return found

    return Form(write, read, form.schema)


_SHARED_DEPTH = 4


class _NotShared(Exception):  # noqa: N818 - a signal, not an error
    """A value cannot be a key: equality does not distinguish its parts, or it is deep."""


def _frozen(value: object, depth: int) -> object:
    """Return a value of a loaded document as a dictionary key."""
    if type(value) is str or type(value) is int:
        return value
    if depth == 0:
        raise _NotShared
    depth -= 1
    if is_object(value):
        return tuple([(key, _frozen(content, depth)) for key, content in value])
    if is_array(value):
        # Marked, as an array of pairs is not an object.
        return None, tuple([_frozen(item, depth) for item in value])
    raise _NotShared


def nested(form: Form, name: str, most: int) -> Form:
    """Return a form that refuses objects of a class nested more than ``most`` deep."""

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


def one_kind_of(forms: Mapping[type, tuple[str, Form]]) -> Form:
    """Return the form of one of several classes, which ``kind`` distinguishes.

    ``forms`` maps each class to its ``kind`` and form.
    """
    writers = {kind: form.write for kind, (_, form) in forms.items()}
    readers = {tag: form.read for tag, form in forms.values()}
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
            Code.UNKNOWN_WORD,
            f"{quoted(kind)} is not a kind here",
            hint=f"expected {wanted}",
        ).within("kind")

    return Form(write, read, one_of(*(form.schema for _, form in forms.values())))
