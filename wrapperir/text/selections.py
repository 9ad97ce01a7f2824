"""Parsing and formatting of the parts of multi-kernels: sizes, choices, selection policies.

A parameter is written as its name, or as its position where an earlier one has that name.
"""

from collections.abc import Callable, Sequence

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
from wrapperir.text.line_syntax import ZERO_MODES
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

    def parse(self, cursor: Cursor) -> int:
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

    def format(self, position: int, part: PartPrinter) -> str:
        """Return the name of the parameter at ``position``, or the position."""
        name = self._names.get(position)
        return format_integer(position) if name is None else part.name(name)


def parse_size(cursor: Cursor, parameters: ParameterNames) -> KernelSize:
    """Take ``M = size(a, 0)``."""
    name = cursor.name("the name of a size")
    cursor.expect("=")
    cursor.expect("size")
    cursor.expect("(")
    parameter = parameters.parse(cursor)
    cursor.expect(",")
    dim = parse_integer(cursor)
    cursor.expect(")")
    return KernelSize(name, parameter, dim)


def format_size(part: PartPrinter, parameters: ParameterNames, size: KernelSize) -> str:
    """Return ``M = size(a, 0)``."""
    parameter = parameters.format(size.parameter, part)
    return f"{part.name(size.name)} = size({parameter}, {format_integer(size.dim)})"


def parse_choice(cursor: Cursor, parameters: ParameterNames) -> KernelChoice:
    """Take ``@mm_split(0, 1, 2)`` and the workspaces it needs.

    Each workspace is ``workspace(ws, 4096 * n, zero_on_call)``.
    """
    kernel = cursor.kernel()
    cursor.expect("(")
    arguments = cursor.listed(parse_integer, ")")
    needs: list[WorkspaceNeed] = []
    while cursor.accept("workspace"):
        cursor.expect("(")
        parameter = parameters.parse(cursor)
        cursor.expect(",")
        count = parse_expression(cursor)
        cursor.expect(",")
        mode = cursor.word(ZERO_MODES, "a zero mode")
        cursor.expect(")")
        needs.append(WorkspaceNeed(parameter, count, mode))
    return KernelChoice(kernel, arguments, tuple(needs))


def format_choice(
    part: PartPrinter, parameters: ParameterNames, choice: KernelChoice
) -> str:
    """Return ``@mm_split(0, 1, 2)`` and the workspaces it needs."""
    text = f"@{part.name(choice.kernel)}({_integers(choice.arguments)})"
    for need in choice.workspaces:
        parameter = parameters.format(need.parameter, part)
        count = part.expression(need.count)
        text += f" workspace({parameter}, {count}, {need.mode.value})"
    return text


def parse_selection(cursor: Cursor) -> Selection:
    """Take what follows ``select``."""
    return cursor.word(_PARSERS, "a selection policy")(cursor)


def format_selection(selection: Selection, part: PartPrinter) -> str:
    """Return what follows ``select``.

    Raises:
        Malformed: no text can spell this selection.
    """
    match selection:
        case FirstChoice():
            return "first"
        case BenchmarkChoice():
            return "benchmark"
        case ForcedChoice(index):
            return f"forced({format_integer(index)})"
        case RecordedChoice(index, microseconds, device):
            text = f"recorded({format_integer(index)})"
            if microseconds:
                text += f" microseconds({', '.join([_time(t) for t in microseconds])})"
            return text + _on(device)
        case NearestChoice(hints):
            shown = [f"{format_integer(h.choice)}: ({_integers(h.sizes)})" for h in hints]
            return f"nearest_shape({', '.join(shown)})"
        case ComputedChoice(index, device):
            return f"computed({part.expression(index)}){_on(device)}"
        case _:  # pyright: ignore[reportUnnecessaryComparison]
            raise Malformed(
                Code.UNWRITABLE_VALUE,
                f"{quoted(repr(selection)[:200])} where a selection belongs",
            )


def _integers(values: tuple[int, ...]) -> str:
    return ", ".join([format_integer(value) for value in values])


def _time(value: float | None) -> str:
    return "none" if value is None else format_number(checked_time(value))


def _on(device: str) -> str:
    return f" on {format_string(device)}" if device else ""


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


def _parse_on(cursor: Cursor) -> str:
    return parse_string(cursor) if cursor.accept("on") else ""


def _parse_forced(cursor: Cursor) -> Selection:
    return ForcedChoice(_parse_index(cursor))


def _parse_index(cursor: Cursor) -> int:
    cursor.expect("(")
    index = parse_integer(cursor)
    cursor.expect(")")
    return index


def _parse_recorded(cursor: Cursor) -> Selection:
    index = _parse_index(cursor)
    times: tuple[float | None, ...] = ()
    if cursor.accept("microseconds"):
        cursor.expect("(")
        times = cursor.listed(_parse_time, ")")
    return RecordedChoice(index, times, _parse_on(cursor))


def _parse_nearest(cursor: Cursor) -> Selection:
    cursor.expect("(")
    return NearestChoice(cursor.listed(_parse_hint, ")"))


def _parse_hint(cursor: Cursor) -> Hint:
    choice = parse_integer(cursor)
    cursor.expect(":")
    cursor.expect("(")
    return Hint(choice, cursor.listed(parse_integer, ")"))


def _parse_computed(cursor: Cursor) -> Selection:
    cursor.expect("(")
    index = parse_expression(cursor)
    cursor.expect(")")
    return ComputedChoice(index, _parse_on(cursor))


_PARSERS: dict[str, Callable[[Cursor], Selection]] = {
    "first": lambda _: FirstChoice(),
    "forced": _parse_forced,
    "benchmark": lambda _: BenchmarkChoice(),
    "recorded": _parse_recorded,
    "nearest_shape": _parse_nearest,
    "computed": _parse_computed,
}
