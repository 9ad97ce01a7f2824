"""The record of tuning as JSON, ``tuning.json`` in artifacts."""

import json
import math
from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar, cast

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.ir import Expr, ExprOp, Number, Operation, symbols_in
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

T = TypeVar("T")

_Object: TypeAlias = Mapping[str, object]


def format_record(report: TuningReport) -> str:
    """Return the JSON of a report; equal reports have equal text."""
    record = {
        "wrapperir_tuning": VERSION,
        "program": report.program,
        "emitter": report.emitter,
        "seconds": report.seconds,
        "cache_problem": report.cache_problem,
        "kernels": [_kernel_form(kernel) for kernel in report.kernels],
    }
    return json.dumps(record, indent=1, allow_nan=False) + "\n"


def parse_record(text: str | bytes) -> TuningReport:
    """Return the report in the JSON that :func:`format_record` wrote; executes nothing.

    Raises:
        DiagnosticError: WIR714, it is not such a record; the message says where.
    """
    try:
        data: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _malformed("", f"it is no JSON: {error}") from None
    reader = _Reader("", data)
    version = reader.version()
    if version != VERSION:
        raise _malformed("", f"its version is {version!r:.50}, not {VERSION}")
    record = reader.record(
        "wrapperir_tuning", "program", "emitter", "seconds", "cache_problem", "kernels"
    )
    return TuningReport(
        program=record["program"].text(),
        emitter=record["emitter"].text(),
        kernels=record["kernels"].items(_read_kernel),
        seconds=record["seconds"].seconds(),
        cache_problem=record["cache_problem"].text(),
    )


def _kernel_form(kernel: KernelReport) -> dict[str, object]:
    return {
        "kernel": kernel.kernel,
        "device": kernel.device,
        "choices": list(kernel.choices),
        "chosen": None if kernel.chosen is None else format_expr(kernel.chosen),
        "reason": kernel.reason,
        "seconds": kernel.seconds,
        "failures": [
            {"choice": failure.choice, "reason": failure.reason}
            for failure in kernel.failures
        ],
        "cases": [
            {
                "call": case.call,
                "symbols": dict(case.symbols),
                "values": dict(case.values),
                "microseconds": list(case.microseconds),
                "cached": case.cached,
            }
            for case in kernel.cases
        ],
    }


class _Reader:
    """A value of the record, and its place."""

    def __init__(self, place: str, value: object) -> None:
        self.place = place
        self.value = value

    def record(self, *keys: str) -> "dict[str, _Reader]":
        """Return the fields of an object that has exactly these."""
        found = self._mapping()
        for key in keys:
            if key not in found:
                raise _malformed(self.place, f"it lacks {key!r}")
        for key in found:
            if key not in keys:
                raise _malformed(self.place, f"it has a field {key!r:.50} that is unknown")
        return {key: self._inner(key, found[key]) for key in keys}

    def version(self) -> int:
        """Return the version of a record, whatever else it holds."""
        found = self._mapping()
        if "wrapperir_tuning" not in found:
            raise _malformed(self.place, "it lacks 'wrapperir_tuning'")
        return self._inner("wrapperir_tuning", found["wrapperir_tuning"]).whole()

    def fields(self, read: "Callable[[_Reader], T]") -> tuple[tuple[str, T], ...]:
        """Return all fields of an object, in order."""
        return tuple(
            (key, read(self._inner(key, value))) for key, value in self._mapping().items()
        )

    def items(self, read: "Callable[[_Reader], T]") -> tuple[T, ...]:
        """Return the items of an array."""
        value = self.value
        if not isinstance(value, list):
            raise self.wrong("an array")
        items = cast("list[object]", value)
        return tuple(read(self._inner(str(at), item)) for at, item in enumerate(items))

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.wrong("a string")
        return self.value

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.wrong("true or false")
        return self.value

    def whole(self) -> int:
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            raise self.wrong("a whole number")
        return self.value

    def number(self) -> Number:
        if not isinstance(self.value, int | float) or not math.isfinite(self.value):
            raise self.wrong("a number")
        return self.value

    def seconds(self) -> float:
        if isinstance(self.value, bool) or self.number() < 0:
            raise self.wrong("a length of time")
        return float(self.number())

    def time(self) -> float | None:
        return None if self.value is None else self.seconds()

    def wrong(self, wanted: str) -> DiagnosticError:
        return _malformed(self.place, f"{self.value!r:.50} is not {wanted}")

    def _mapping(self) -> _Object:
        value = self.value
        if not isinstance(value, dict):
            raise self.wrong("an object")
        return cast(_Object, value)

    def _inner(self, key: str, value: object) -> "_Reader":
        return _Reader(f"{self.place}/{key}" if self.place else key, value)


def _read_kernel(reader: _Reader) -> KernelReport:
    fields = reader.record(
        *("kernel", "device", "choices", "chosen", "reason", "seconds", "failures"),
        "cases",
    )
    choices = fields["choices"].items(_Reader.text)
    cases = fields["cases"].items(lambda case: _read_case(case, len(choices)))
    chosen = fields["chosen"]
    return KernelReport(
        kernel=fields["kernel"].text(),
        choices=choices,
        chosen=None if chosen.value is None else _read_chosen(chosen, len(choices), cases),
        device=fields["device"].text(),
        reason=fields["reason"].text(),
        cases=cases,
        failures=fields["failures"].items(_read_failure),
        seconds=fields["seconds"].seconds(),
    )


def _read_case(reader: _Reader, choices: int) -> CaseReport:
    fields = reader.record("call", "symbols", "values", "microseconds", "cached")
    times = fields["microseconds"].items(_Reader.time)
    if len(times) != choices:
        place = fields["microseconds"].place
        raise _malformed(place, f"it has {len(times)} times of {choices} choices")
    return CaseReport(
        call=fields["call"].whole(),
        symbols=fields["symbols"].fields(_Reader.number),
        values=fields["values"].fields(_Reader.whole),
        microseconds=times,
        cached=fields["cached"].flag(),
    )


def _read_failure(reader: _Reader) -> FailureReport:
    fields = reader.record("choice", "reason")
    return FailureReport(choice=fields["choice"].text(), reason=fields["reason"].text())


def _read_chosen(reader: _Reader, choices: int, cases: tuple[CaseReport, ...]) -> Expr:
    try:
        chosen = parse_expr(reader.text())
    except DiagnosticError as error:
        raise _malformed(reader.place, error.diagnostics[0].message) from None
    if not _leads_to_choices(chosen, choices):
        message = f"it is not one of the {choices} choices, or where(...) of two such"
        raise _malformed(reader.place, message)
    for case in cases:
        unknown = set(symbols_in(chosen)) - {name for name, _ in case.values}
        if unknown:
            message = f"it goes by {min(unknown)}, of which a case has no value"
            raise _malformed(reader.place, message)
    return chosen


def _leads_to_choices(tree: Expr, choices: int) -> bool:
    if isinstance(tree, Operation) and tree.op is ExprOp.WHERE:
        return all(_leads_to_choices(branch, choices) for branch in tree.args[1:])
    return isinstance(tree, int) and 0 <= tree < choices


def _malformed(place: str, problem: str) -> DiagnosticError:
    where = f" at {place}" if place else ""
    return Code.INVALID_TUNING.error(
        f"the record of tuning is malformed{where}: {problem}",
        hint="wrapperir tune writes a new one",
    )
