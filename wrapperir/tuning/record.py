"""The record of tuning as JSON, ``tuning.json`` in artifacts.

Its objects have the fields of the classes of :mod:`~wrapperir.tuning.report`.
"""

import json
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar, cast

from attrs import asdict, fields_dict

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.ir import Expr, ExprOp, Operation, symbols_in
from wrapperir.text import format_expr, parse_expr
from wrapperir.tuning.report import (
    CaseReport,
    FailureReport,
    KernelReport,
    TuningReport,
)

RECORD = "tuning.json"
"""The name of a record's file."""

VERSION = 1

_HEADER: Final = "wrapperir_tuning"

T = TypeVar("T")

_Read: TypeAlias = Callable[[str, object], object]
"""Returns the value of a field; takes its place in the record, for errors, and its JSON."""


def format_record(report: TuningReport) -> str:
    """Return the JSON of a report; equal reports have equal text."""
    record = {_HEADER: VERSION, **asdict(report, value_serializer=_serialized)}
    return json.dumps(record, indent=1, allow_nan=False) + "\n"


def _serialized(_owner: object, field: Any, value: Any) -> Any:
    name = None if field is None else field.name
    if name in ("symbols", "values"):
        return dict(value)
    return format_expr(value) if name == "chosen" and value is not None else value


def parse_record(text: str | bytes) -> TuningReport:
    """Return the report in the JSON that :func:`format_record` wrote; executes nothing.

    Raises:
        DiagnosticError: WIR714, it is not such a record; the message says where.
    """
    try:
        data: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _malformed("", f"it is not JSON: {error}") from None
    found = dict(_object("", data))
    if _HEADER not in found:
        raise _malformed("", f"it lacks {_HEADER!r}")
    version = _whole(_HEADER, found.pop(_HEADER))
    if version != VERSION:
        raise _malformed("", f"its version is {version!r:.50}, not {VERSION}")
    return _report(TuningReport, "", found)


def _report(kind: type[T], place: str, value: object) -> T:
    """Return a report of a class from an object that has exactly its fields."""
    found, names = _object(place, value), fields_dict(cast(Any, kind))
    for name in names:
        if name not in found:
            raise _malformed(place, f"it lacks {name!r}")
    for key in found:
        if key not in names:
            raise _malformed(place, f"it has a field {key!r:.50} that is unknown")
    return kind(**{name: _FIELDS[name](_at(place, name), found[name]) for name in names})


def _kernel(place: str, value: object) -> KernelReport:
    kernel = _report(KernelReport, place, value)
    choices = len(kernel.choices)
    for at, case in enumerate(kernel.cases):
        if len(case.microseconds) != choices:
            problem = f"it has {len(case.microseconds)} times of {choices} choices"
            raise _malformed(f"{place}/cases/{at}/microseconds", problem)
    if kernel.chosen is not None:
        _check_chosen(f"{place}/chosen", kernel.chosen, kernel)
    return kernel


def _check_chosen(place: str, chosen: Expr, kernel: KernelReport) -> None:
    choices = len(kernel.choices)
    if not _leads_to_choices(chosen, choices):
        problem = f"it is not one of the {choices} choices, or where(...) of two such"
        raise _malformed(place, problem)
    for case in kernel.cases:
        unknown = set(symbols_in(chosen)) - {name for name, _ in case.values}
        if unknown:
            raise _malformed(place, f"it uses {min(unknown)}, which a case lacks")


def _leads_to_choices(tree: Expr, choices: int) -> bool:
    if isinstance(tree, Operation) and tree.op is ExprOp.WHERE:
        return all(_leads_to_choices(branch, choices) for branch in tree.args[1:])
    return isinstance(tree, int) and 0 <= tree < choices


def _exactly(kind: type[T], wanted: str) -> Callable[[str, object], T]:
    def read(place: str, value: object) -> T:
        if type(value) is not kind:
            raise _wrong(place, value, wanted)
        return value

    return read


_text = _exactly(str, "a string")
_flag = _exactly(bool, "true or false")
_whole = _exactly(int, "a whole number")


def _number(place: str, value: object) -> int | float:
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise _wrong(place, value, "a number")
    return value


def _seconds(place: str, value: object) -> float:
    if isinstance(value, bool) or _number(place, value) < 0:
        raise _wrong(place, value, "a length of time")
    return float(_number(place, value))


def _time(place: str, value: object) -> float | None:
    return None if value is None else _seconds(place, value)


def _expression(place: str, value: object) -> Expr | None:
    if value is None:
        return None
    try:
        return parse_expr(_text(place, value))
    except DiagnosticError as error:
        if error.diagnostics[0].code is Code.INVALID_TUNING:
            raise
        raise _malformed(place, error.diagnostics[0].message) from None


def _object(place: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise _wrong(place, value, "an object")
    return cast(Mapping[str, object], value)


def _array(read: _Read) -> _Read:
    def read_all(place: str, value: object) -> tuple[object, ...]:
        if not isinstance(value, list):
            raise _wrong(place, value, "an array")
        items = cast(list[object], value)
        return tuple(read(_at(place, str(at)), item) for at, item in enumerate(items))

    return read_all


def _pairs(read: _Read) -> _Read:
    def read_all(place: str, value: object) -> tuple[tuple[str, object], ...]:
        found = _object(place, value)
        return tuple((key, read(_at(place, key), item)) for key, item in found.items())

    return read_all


_FIELDS: Mapping[str, _Read] = {
    **dict.fromkeys(("program", "emitter", "cache_problem", "kernel", "device"), _text),
    **dict.fromkeys(("reason", "choice"), _text),
    "cached": _flag,
    "call": _whole,
    "seconds": _seconds,
    "chosen": _expression,
    "choices": _array(_text),
    "microseconds": _array(_time),
    "kernels": _array(_kernel),
    "cases": _array(partial(_report, CaseReport)),
    "failures": _array(partial(_report, FailureReport)),
    "symbols": _pairs(_number),
    "values": _pairs(_whole),
}
"""How each field is read; a name has one meaning in all classes."""


def _at(place: str, key: str) -> str:
    return f"{place}/{key}" if place else key


def _wrong(place: str, value: object, wanted: str) -> DiagnosticError:
    return _malformed(place, f"{value!r:.50} is not {wanted}")


def _malformed(place: str, problem: str) -> DiagnosticError:
    where = f" at {place}" if place else ""
    return Code.INVALID_TUNING.error(
        f"the record of tuning is malformed{where}: {problem}",
        hint="wrapperir tune writes a new one",
    )
