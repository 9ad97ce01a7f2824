"""Programs as JSON: the same data as text, for tools; see ``docs/reference/json.md``."""

import json
import re
from typing import NoReturn

import attrs

from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError, Position
from wrapperir.ir import SCHEMA_VERSION, Program
from wrapperir.text.json_classes import field_form, item_form
from wrapperir.text.json_forms import (
    Form,
    JsonObject,
    Tables,
    duplicate_key,
    get,
    is_array,
    is_object,
    is_tuple,
    unknown_field,
    wrong_type,
)
from wrapperir.text.json_places import JsonPlaces
from wrapperir.text.limits import MAX_DIAGNOSTICS, MAX_DIGITS
from wrapperir.text.malformed import ILL_TYPED, Malformed, ill_typed
from wrapperir.text.parse import paused_collector

HEADER = "wrapperir"
"""The key of the schema's version."""


def format_json(program: Program) -> str:
    """Return a program as JSON; equal programs have equal JSON.

    Each input, symbol, constant, definition and line is on a line of its own.

    Raises:
        DiagnosticError: as :func:`wrapperir.text.format_program`.
    """
    tables = Tables()
    parts = [f'"{HEADER}":{SCHEMA_VERSION}']
    key = ""
    try:
        for key in _KEYS:
            value: object = getattr(program, key)
            if is_tuple(value):
                lines = _write_items(value, item_form(Program, key), tables)
                parts.append(f'"{key}":[{_lines(lines)}]')
            else:
                parts.append(f'"{key}":{field_form(Program, key).write(value, tables)}')
    except Malformed as error:
        raise DiagnosticError(error.within(key).written()) from None
    except ILL_TYPED as error:
        raise DiagnosticError(ill_typed(error).within(key).written()) from None
    return "{" + _lines(parts) + "}\n"


_KEYS = tuple(attribute.name for attribute in attrs.fields(Program))


def _lines(items: list[str]) -> str:
    return "\n" + ",\n".join(items) + "\n" if items else ""


def _write_items(values: tuple[object, ...], form: Form, tables: Tables) -> list[str]:
    write = form.write
    texts: list[str] = []
    try:
        for value in values:
            texts.append(write(value, tables))
    except Malformed as error:
        raise error.within(len(texts)) from None
    except ILL_TYPED as error:
        raise ill_typed(error).within(len(texts)) from None
    return texts


def parse_json(text: str) -> Program:
    """Return the program that JSON holds.

    Raises:
        DiagnosticError: ``text`` is not JSON or not a program.  Each malformed line,
            input or definition is reported, up to 100 of them; ``path`` has the keys and
            positions that lead to the value, and ``position`` its place in ``text``.
    """
    with paused_collector():
        return _parse_json(text)


def _parse_json(text: str) -> Program:
    document = _load(text)
    tables = Tables()
    errors: list[Malformed] = []
    try:
        fields = _check_keys(document)
    except Malformed as error:
        raise DiagnosticError(_located(error, JsonPlaces(text))) from None
    values: dict[str, object] = {}
    for key, value in fields:
        try:
            if is_array(value) and key != "name":
                item = item_form(Program, key)
                values[key] = _read_items(value, item, tables, errors, key)
            else:
                values[key] = field_form(Program, key).read(value, tables)
        except Malformed as error:
            errors.append(error.within(key))
        if len(errors) >= MAX_DIAGNOSTICS:
            break
    if errors:
        places = JsonPlaces(text)
        raise DiagnosticError(*(_located(e, places) for e in errors[:MAX_DIAGNOSTICS]))
    return Program(**values)  # type: ignore[arg-type]


def _check_keys(document: object) -> JsonObject:
    """Check the header and keys of a document; return the program's fields."""
    if not is_object(document):
        raise wrong_type(document, "an object: a program")
    keys = [key for key, _ in document]
    if HEADER not in keys:
        raise Malformed(Code.BAD_HEADER, f"the object lacks the field `{HEADER}`")
    version = get(document, HEADER)
    if type(version) is not int or version != SCHEMA_VERSION:
        raise Malformed(
            Code.UNKNOWN_VERSION,
            f"this release reads version {SCHEMA_VERSION} of the format only",
        ).within(HEADER)
    known = (HEADER, *_KEYS)
    for key in keys:
        if key not in known:
            raise unknown_field(key, known)
    for key in _KEYS:
        if key not in keys:
            raise Malformed(Code.MISSING_FIELD, f"the program lacks the field `{key}`")
    if len(keys) != len(known):
        raise duplicate_key(document)
    return tuple((key, value) for key, value in document if key != HEADER)


def _read_items(
    values: list[object], form: Form, tables: Tables, errors: list[Malformed], key: str
) -> tuple[object, ...]:
    """Read the items of an array; a malformed one is reported and left out."""
    read = form.read
    items: list[object] = []
    for index, value in enumerate(values):
        try:
            items.append(read(value, tables))
        except Malformed as error:
            errors.append(error.within(key, index))
            tables.depths.clear()
            if len(errors) >= MAX_DIAGNOSTICS:
                break
    return tuple(items)


def _located(error: Malformed, places: JsonPlaces) -> Diagnostic:
    return attrs.evolve(error.written(), position=places.find(error.path))


# Loading


def _load(text: str) -> object:
    try:
        document: object = json.loads(
            text, object_pairs_hook=tuple, parse_constant=_constant
        )
    except json.JSONDecodeError as error:
        _fail(Code.BAD_JSON, f"not JSON: {error.msg.lower()}", text, error.pos)
    except RecursionError:
        _fail(Code.TOO_DEEP, "arrays and objects are nested too deep", text, 0)
    except _NotJson as error:
        name = str(error)
        _fail(Code.BAD_JSON, f"`{name}` is not JSON", text, text.find(name))
    except ValueError:
        # Python refuses to convert integers of more than 4,300 digits.
        match = re.search(r"[0-9]{1000,}", text)
        at = match.start() if match else 0
        _fail(Code.BAD_NUMBER, f"an integer of more than {MAX_DIGITS} digits", text, at)
    return document


class _NotJson(Exception):  # noqa: N818
    """The text has a constant that JSON does not have."""


def _constant(name: str) -> NoReturn:
    raise _NotJson(name)


def _fail(code: Code, message: str, text: str, at: int | None) -> NoReturn:
    position = None
    if at is not None:
        line = text.count("\n", 0, at)
        position = Position(line + 1, at - (text.rfind("\n", 0, at) + 1) + 1)
    raise code.error(message, position=position) from None
