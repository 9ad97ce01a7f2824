"""Parsing and formatting of the parts of multi-kernels: sizes, choices, selection policies.

A parameter is written as its name, or as its position where an earlier one has that name.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter

from wrapperir.diagnostics import Code
from wrapperir.ir import (
    BenchmarkChoice,
    ComputedChoice,
    FirstChoice,
    ForcedChoice,
    Hint,
    KernelChoice,
    KernelSize,
    NearestChoice,
    Parameter,
    RecordedChoice,
    Selection,
    WorkspaceNeed,
)
from wrapperir.text.cursor import Cursor, suggestion
from wrapperir.text.expressions import parse_expression
from wrapperir.text.limits import Malformed, quoted
from wrapperir.text.line_syntax import Part, parse_steps, parse_zero_mode, steps_of
from wrapperir.text.literals import (
    checked_time,
    format_integer,
    format_number,
    format_string,
    parse_integer,
    parse_signed_number,
    parse_string,
)
from wrapperir.text.part_printer import PartPrinter


class ParameterNames:
    """The parameters of a multi-kernel by name and position.

    ``known`` is false where the parameters did not parse; then any name is accepted.
    """

    def __init__(self, parameters: Sequence[Parameter], known: bool = True) -> None:
        """Take the parameters; a name stands for the first parameter that has it."""
        self._known = known
        self._positions: dict[str, int] = {}
        for position, parameter in enumerate(parameters):
            self._positions.setdefault(parameter.name, position)
        self._names = {position: name for name, position in self._positions.items()}

    def _parse(self, cursor: Cursor) -> int:
        """Take a parameter's name or position; return its position.

        Raises:
            Malformed: no parameter has that name.
        """
        if cursor.kind != "name":
            if cursor.kind != "number" and cursor.next != "-":
                raise cursor.unexpected("the name of a parameter")
            return parse_integer(cursor)
        found = self._positions.get(cursor.next)
        if found is None and "." not in cursor.next and self._known:
            hint = suggestion(cursor.next, self._positions) if self._positions else None
            message = f"{quoted(cursor.next)} is not a parameter of the multi-kernel"
            raise cursor.malformed(Code.UNKNOWN_WORD, message, hint)
        cursor.name("the name of a parameter")
        return found or 0

    def _format(self, part: PartPrinter, position: int) -> str:
        """Return the name of the parameter at ``position``, or the position."""
        name = self._names.get(position)
        return format_integer(position) if name is None else part.name(name)

    def parse_size(self, cursor: Cursor) -> KernelSize:
        """Take ``M = size(a, 0)``."""
        name = cursor.name("the name of a size")
        cursor.expect("=")
        cursor.expect("size")
        cursor.expect("(")
        parameter = self._parse(cursor)
        cursor.expect(",")
        return KernelSize(name, parameter, cursor.closed(parse_integer))

    def format_size(self, part: PartPrinter, size: KernelSize) -> str:
        """Return ``M = size(a, 0)``."""
        parameter = self._format(part, size.parameter)
        return f"{part.name(size.name)} = size({parameter}, {format_integer(size.dim)})"

    def parse_choice(self, cursor: Cursor) -> KernelChoice:
        """Take ``@mm_split(0, 1, 2)`` and the workspaces it needs.

        Each workspace is ``workspace(ws, 4096 * n, zero_on_call)``.
        """
        kernel = cursor.kernel()
        cursor.expect("(")
        arguments = cursor.listed(parse_integer, ")")
        needs: list[WorkspaceNeed] = []
        while cursor.accept("workspace"):
            cursor.expect("(")
            parameter = self._parse(cursor)
            cursor.expect(",")
            count = parse_expression(cursor)
            cursor.expect(",")
            mode = cursor.closed(parse_zero_mode)
            needs.append(WorkspaceNeed(parameter, count, mode))
        return KernelChoice(kernel, arguments, tuple(needs))

    def format_choice(self, part: PartPrinter, choice: KernelChoice) -> str:
        """Return ``@mm_split(0, 1, 2)`` and the workspaces it needs."""
        text = f"@{part.name(choice.kernel)}({_format_integers(choice.arguments)})"
        for need in choice.workspaces:
            parameter = self._format(part, need.parameter)
            count = part.expression(need.count)
            text += f" workspace({parameter}, {count}, {need.mode.value})"
        return text


def parse_selection(cursor: Cursor) -> Selection:
    """Take what follows ``select``."""
    kind, parts = cursor.word(_BY_WORD, "a selection policy")
    selection: Selection = kind(**parse_steps(cursor, steps_of(parts)))
    return selection


def format_selection(printer: PartPrinter, selection: Selection) -> str:
    """Return what follows ``select``.

    Raises:
        Malformed: no text can spell this selection.
    """
    text, parts = _SELECTIONS[type(selection)]
    for part in parts:
        value = attrgetter(*part.fields)(selection)
        if part.prefix or value:
            text += part.prefix + part.format(printer, value)
    return text


def _format_integers(values: tuple[int, ...]) -> str:
    return ", ".join([format_integer(value) for value in values])


def _parse_times(cursor: Cursor) -> tuple[float | None, ...]:
    if not cursor.accept("microseconds"):
        return ()
    cursor.expect("(")
    return cursor.listed(_parse_time, ")")


def _parse_time(cursor: Cursor) -> float | None:
    if cursor.accept("none"):
        return None
    start = cursor.start
    value = parse_signed_number(cursor)
    try:
        return checked_time(value)
    except Malformed as error:
        end = len(cursor.text[: cursor.start].rstrip())
        raise Malformed(error.code, error.message, start, end, error.hint) from None


def _format_times(_: PartPrinter, times: tuple[float | None, ...]) -> str:
    shown = ["none" if t is None else format_number(checked_time(t)) for t in times]
    return f" microseconds({', '.join(shown)})"


def _parse_hint(cursor: Cursor) -> Hint:
    choice = parse_integer(cursor)
    cursor.expect(":")
    cursor.expect("(")
    return Hint(choice, cursor.listed(parse_integer, ")"))


def _format_hints(_: PartPrinter, hints: tuple[Hint, ...]) -> str:
    shown = [f"{format_integer(h.choice)}: ({_format_integers(h.sizes)})" for h in hints]
    return f"{', '.join(shown)})"


_INDEX = Part(
    ("index",),
    "(",
    lambda cursor: cursor.closed(parse_integer),
    lambda _, index: f"{format_integer(index)})",
)
_ON = Part(
    ("device",),
    "",
    lambda cursor: parse_string(cursor) if cursor.accept("on") else "",
    lambda _, device: f" on {format_string(device)}",
)
_SELECTIONS: dict[type[Selection], tuple[str, tuple[Part, ...]]] = {
    FirstChoice: ("first", ()),
    ForcedChoice: ("forced", (_INDEX,)),
    BenchmarkChoice: ("benchmark", ()),
    RecordedChoice: (
        "recorded",
        (_INDEX, Part(("microseconds",), "", _parse_times, _format_times), _ON),
    ),
    NearestChoice: (
        "nearest_shape",
        (Part(("hints",), "(", lambda c: c.listed(_parse_hint, ")"), _format_hints),),
    ),
    ComputedChoice: (
        "computed",
        (
            Part(
                ("index",),
                "(",
                lambda cursor: cursor.closed(parse_expression),
                lambda part, index: f"{part.expression(index)})",
            ),
            _ON,
        ),
    ),
}
"""The word and the parts of each selection policy."""
_BY_WORD: dict[str, tuple[Callable[..., Selection], tuple[Part, ...]]] = {
    word: (kind, parts) for kind, (word, parts) in _SELECTIONS.items()
}
