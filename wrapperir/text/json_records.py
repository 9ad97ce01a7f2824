"""The JSON form of records: objects with a key for each field of a class.

Fields with default values are left out.
"""

from collections.abc import Callable, Sequence
from functools import cached_property

from attrs import NOTHING, frozen

from wrapperir.text.json_forms import (
    Form,
    JsonSchema,
    Read,
    Tables,
    Write,
    check_keys,
    is_object,
    object_schema,
    wrong_type,
)
from wrapperir.text.limits import WRITE_ERRORS, Malformed, placed, unwritable


@frozen
class RecordField:
    """A field: its name in the class, key in JSON, getter, form and default value.

    The name is empty for a key with a constant value, such as the kind of an object.
    """

    name: str
    key: str
    get: Callable[[object], object]
    form: Form
    default: object


def constant(key: str, value: int | str) -> RecordField:
    """Return the field of a key that has the same value in every object of a class."""
    written = f'"{key}":"{value}"' if isinstance(value, str) else f'"{key}":{value}'

    def read(found: object, tables: Tables) -> object:
        if type(found) is not type(value) or found != value:
            raise wrong_type(found, f"`{value}`")
        return found

    form = Form((), (), f"`{value}`", {"const": value}, lambda value, tables: written, read)
    return RecordField("", key, lambda _: value, form, NOTHING)


# Orders of a class's keys that are remembered; writers use few.
_MOST_PLANS = 64


class Record:
    """The form of one class; its fields are found at first use."""

    def __init__(
        self,
        kind: type,
        name: str,
        find_fields: Callable[[], Sequence[RecordField]],
        *,
        in_lines: bool = False,
    ) -> None:
        """Take a class, its name in errors, and a function that returns its fields.

        ``in_lines`` gives each field a line of its own.
        """
        self._kind = kind
        self._name = name
        self._find_fields = find_fields
        self._layout = (",\n", "{\n", "\n}") if in_lines else (",", "{", "}")
        self._plans: dict[tuple[str, ...], tuple[tuple[str, Read], ...]] = {}

    @cached_property
    def fields(self) -> Sequence[RecordField]:
        """The fields in the order of writing."""
        return self._find_fields()

    @cached_property
    def _constants(self) -> list[str]:
        return [f.form.write(None, Tables()) for f in self.fields if not f.name]

    @cached_property
    def _written(
        self,
    ) -> Sequence[tuple[str, Callable[[object], object], object, type, Write]]:
        return [
            (f.key, f.get, f.default, type(f.default), f.form.write)
            for f in self.fields
            if f.name
        ]

    def write(self, value: object, tables: Tables) -> str:
        """Write an object of the class."""
        if type(value) is not self._kind:
            raise unwritable(value, f"a {self._name}")
        parts = self._constants[:]
        key = ""
        try:
            for key, get, default, kind, write in self._written:
                content = get(value)
                if content is default or (type(content) is kind and content == default):
                    continue
                parts.append(f'"{key}":{write(content, tables)}')
        except WRITE_ERRORS as error:
            raise placed(error, key) from None
        separator, opening, closing = self._layout
        return f"{opening}{separator.join(parts)}{closing}"

    def read(self, value: object, tables: Tables) -> object:
        """Read an object of the class."""
        if not is_object(value):
            raise wrong_type(value, f"an object: a {self._name}")
        keys = tuple([key for key, _ in value])
        plan = self._plans.get(keys) or self._plan(keys)
        values: dict[str, object] = {}
        key = ""
        try:
            for item, (name, read) in zip(value, plan, strict=True):
                key, content = item
                values[name] = read(content, tables)
        except Malformed as error:
            raise error.within(key) from None
        values.pop("", None)
        return self._kind(**values)

    def _plan(self, keys: tuple[str, ...]) -> tuple[tuple[str, Read], ...]:
        """Check the keys of an object; return the field and reader of each."""
        readers = {field.key: (field.name, field.form.read) for field in self.fields}
        check_keys(keys, readers, self._required(), self._name)
        plan = tuple(readers[key] for key in keys)
        if len(self._plans) < _MOST_PLANS:
            self._plans[keys] = plan
        return plan

    def _required(self) -> list[str]:
        return [field.key for field in self.fields if field.default is NOTHING]

    def schema(self) -> JsonSchema:
        """Return the schema of the class's objects."""
        properties = {field.key: field.form.schema for field in self.fields}
        return object_schema(properties, self._required())
