"""Programs as JSON: the same data as text, for tools; see ``docs/reference/json.md``."""

import json
import re
from json import JSONDecoder
from typing import NoReturn

from wrapperir.diagnostics import Code, DiagnosticError, LinePath, Position
from wrapperir.ir import SCHEMA_VERSION, Program
from wrapperir.text.json_classes import HEADER, record
from wrapperir.text.json_forms import Tables, get, is_object, wrong_type
from wrapperir.text.limits import MAX_DIAGNOSTICS, MAX_DIGITS, Malformed
from wrapperir.text.line_source import paused_collector


def format_json(program: Program) -> str:
    """Return a program as JSON; equal programs have equal JSON.

    Each input, symbol, constant, definition and line is on a line of its own.

    Raises:
        DiagnosticError: as :func:`wrapperir.text.format_program`.
    """
    try:
        return record(Program).write(program, Tables()) + "\n"
    except Malformed as error:
        raise DiagnosticError(error.written()) from None


def parse_json(text: str) -> Program:
    """Return the program that JSON holds.

    Raises:
        DiagnosticError: ``text`` is not JSON or not a program.  Each malformed line,
            input or definition is reported, up to 100 of them; ``path`` has the keys and
            positions that lead to the value, and ``position`` its place in ``text``.
    """
    tables = Tables()
    with paused_collector():
        program = _read_program(text, tables)
    if tables.errors:
        places = _Places(text)
        errors = tables.errors[:MAX_DIAGNOSTICS]
        raise DiagnosticError(*(e.written(places.find(e.path)) for e in errors))
    assert isinstance(program, Program)
    return program


def _read_program(text: str, tables: Tables) -> object:
    """Return the program, or ``None`` with the errors in ``tables``.

    The loaded document is freed on return, while the collector is paused.
    """
    try:
        document = _load(text)
        _check_header(document)
        return record(Program).read(document, tables)
    except Malformed as error:
        tables.errors.append(error)
    except RecursionError:
        _fail(Code.TOO_DEEP, "arrays and objects are nested too deep", text, 0)
    return None


def _check_header(document: object) -> None:
    if not is_object(document):
        raise wrong_type(document, "an object: a program")
    version = get(document, HEADER)
    if HEADER not in dict(document):
        raise Malformed(Code.BAD_HEADER, f"the object lacks the field `{HEADER}`")
    if type(version) is not int or version != SCHEMA_VERSION:
        raise Malformed(
            Code.UNKNOWN_VERSION,
            f"this release reads version {SCHEMA_VERSION} of the format only",
        ).within(HEADER)


def _load(text: str) -> object:
    try:
        document: object = json.loads(
            text, object_pairs_hook=tuple, parse_constant=_refuse_constant
        )
    except json.JSONDecodeError as error:
        _fail(Code.BAD_JSON, f"not JSON: {error.msg.lower()}", text, error.pos)
    except _NotJson as error:
        name = str(error)
        _fail(Code.BAD_JSON, f"`{name}` is not JSON", text, text.find(name))
    except ValueError:
        # Python refuses to convert integers of more than 4,300 digits.
        found = re.search(r"[0-9]{1000,}", text)
        at = found.start() if found else 0
        _fail(Code.BAD_NUMBER, f"an integer of more than {MAX_DIGITS} digits", text, at)
    return document


def _fail(code: Code, message: str, text: str, at: int) -> NoReturn:
    raise code.error(message, position=_position(text, at)) from None


class _NotJson(Exception):  # noqa: N818
    """The text has a constant that JSON does not have."""


def _refuse_constant(name: str) -> NoReturn:
    raise _NotJson(name)


def _position(text: str, at: int, length: int = 1) -> Position:
    start = text.rfind("\n", 0, at) + 1
    return Position(text.count("\n", 0, at) + 1, at - start + 1, max(1, length))


_SPACE = re.compile(r"[ \t\n\r]*")
_decode = JSONDecoder().raw_decode


class _Places:
    """Positions in one text, which must be JSON; scanned arrays and objects are cached."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._inside: dict[int, dict[int | str, int]] = {}

    def find(self, path: LinePath) -> Position:
        """Return the position of the value at ``path``, or of the nearest one around it."""
        text = self._text
        at = _skip_space(text, 0)
        for key in path:
            if at not in self._inside:
                self._inside[at] = self._scan(at)
            if key not in self._inside[at]:
                break
            at = self._inside[at][key]
        end = _decode(text, at)[1]
        newline = text.find("\n", at, end)
        return _position(text, at, (end if newline < 0 else newline) - at)

    def _scan(self, at: int) -> dict[int | str, int]:
        """Return where each item of the array or object at ``at`` begins."""
        text = self._text
        found: dict[int | str, int] = {}
        opening = text[at]
        if opening not in "[{":
            return found
        at = _skip_space(text, at + 1)
        while text[at] not in "]}":
            key: int | str = len(found)
            if opening == "{":
                key, at = _decode(text, at)
                at = _skip_space(text, _skip_space(text, at) + 1)
            found[key] = at
            at = _skip_space(text, _decode(text, at)[1])
            if text[at] == ",":
                at = _skip_space(text, at + 1)
        return found


def _skip_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()
