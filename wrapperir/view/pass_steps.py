"""What each pass of a pipeline changed: differences of the text, and the peak of memory."""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from wrapperir.diagnostics import Severity
from wrapperir.ir import Number, Program
from wrapperir.ir.line_effects import value_names
from wrapperir.passes import capture_graphs, capture_named, format_call
from wrapperir.pipelines import ChosenPass, run_passes
from wrapperir.report import MemoryChange, build_timeline, line_head, memory_changes
from wrapperir.text import format_program, format_with_positions
from wrapperir.verify import verify

CONTEXT = 3
"""Lines that are shown before and after a change."""

_PROVENANCE = re.compile(r"(?: from\([\w., ]+\))?(?: by\([\w., ]+\))?( \{)?$")
_KERNEL_SOURCE = re.compile(r" +\|")


@frozen(kw_only=True)
class DiffRow:
    """A line before or after a pass, or both, with its 1-based number in each text.

    A row without numbers stands for lines that did not change.
    """

    old: int | None = None
    new: int | None = None
    text: str = ""


@frozen(kw_only=True)
class OutsideLine:
    """A line that is in no graph region, the names of its nodes, and why."""

    text: str
    nodes: tuple[str, ...]
    reason: str


@frozen(kw_only=True)
class PassStep:
    """A pass that ran: its call, what it changed, and figures of the program after it.

    ``peaks`` has the most bytes held in each memory; it is empty if the program is not
    valid yet.  ``removed_values`` and ``added_values`` are the names that only the program
    before or after it has, and ``memory`` what it did to the memory of values.  ``outside``
    are the lines that a capture of graphs left out.
    """

    call: str
    rows: tuple[DiffRow, ...]
    added: int
    removed: int
    lines: int
    peaks: tuple[tuple[str, int], ...]
    removed_values: tuple[str, ...] = ()
    added_values: tuple[str, ...] = ()
    memory: tuple[MemoryChange, ...] = ()
    outside: tuple[OutsideLine, ...] = ()


class StepRecorder:
    """Records the step of each pass that it is called with, as an observer of passes."""

    def __init__(self, values: Mapping[str, Number]) -> None:
        """Take values of the symbols that bytes are counted with."""
        self._values = values
        self._steps: list[PassStep] = []

    @property
    def steps(self) -> tuple[PassStep, ...]:
        """The steps so far."""
        return tuple(self._steps)

    def __call__(self, ran: ChosenPass, old: Program, new: Program) -> None:
        """Add what a pass changed."""
        rows = tuple(diff_rows(_rows(old), _rows(new)))
        before, after = dict.fromkeys(value_names(old)), dict.fromkeys(value_names(new))
        self._steps.append(
            PassStep(
                call=format_call(ran.call),
                rows=rows,
                added=sum(row.new is not None and row.old is None for row in rows),
                removed=sum(row.old is not None and row.new is None for row in rows),
                lines=len(new.lines),
                peaks=_peaks(new, self._values),
                removed_values=tuple(name for name in before if name not in after),
                added_values=tuple(name for name in after if name not in before),
                memory=memory_changes(old, new, self._values),
                outside=tuple(_outside(ran, old)),
            )
        )


def run_steps(
    program: Program, passes: Sequence[ChosenPass], values: Mapping[str, Number]
) -> tuple[Program, tuple[PassStep, ...]]:
    """Return the program after passes, and the step of each.

    ``values`` are those of the symbols that bytes are counted with.

    Raises:
        DiagnosticError: as :func:`~wrapperir.pipelines.run_passes`.
    """
    record = StepRecorder(values)
    return run_passes(program, passes, after=record), record.steps


def _outside(ran: ChosenPass, program: Program) -> Iterator[OutsideLine]:
    """Yield the lines that the pass ``capture_graphs`` leaves out of graph regions."""
    if ran.name != capture_graphs.__name__ or not ran.is_built_in:
        return
    arguments: dict[str, Any] = dict(ran.arguments)
    for index, why in sorted(capture_named(program, **arguments).report.outside.items()):
        line = program.lines[index]
        nodes = () if line.provenance is None else line.provenance.origins
        reason = f"{why.reason}: {why.detail}"
        yield OutsideLine(text=line_head(line), nodes=nodes, reason=reason)


def _rows(program: Program) -> list[str]:
    """Return the lines of a program's text, without origins."""
    rows = format_program(program).split("\n")
    if "origins {" in rows:
        rows = rows[: rows.index("origins {")]
    return [
        row if _KERNEL_SOURCE.match(row) else _PROVENANCE.sub(r"\1", row) for row in rows
    ]


def _peaks(program: Program, values: Mapping[str, Number]) -> tuple[tuple[str, int], ...]:
    if any(each.severity is Severity.ERROR for each in verify(program)):
        return ()
    _, positions = format_with_positions(program)
    memories = build_timeline(program, positions, values, "").memories
    return tuple((memory.memory, memory.peak) for memory in memories)


def diff_rows(old: Sequence[str], new: Sequence[str]) -> Iterator[DiffRow]:
    """Yield what changed between two texts, with some unchanged lines around it."""
    matcher = difflib.SequenceMatcher(None, old, new)
    for group in matcher.get_grouped_opcodes(CONTEXT):
        yield DiffRow()
        for tag, old_begin, old_end, new_begin, new_end in group:
            if tag == "equal":
                for at in range(old_end - old_begin):
                    numbers = old_begin + at + 1, new_begin + at + 1
                    yield DiffRow(old=numbers[0], new=numbers[1], text=old[old_begin + at])
                continue
            for index in range(old_begin, old_end):
                yield DiffRow(old=index + 1, text=old[index])
            for index in range(new_begin, new_end):
                yield DiffRow(new=index + 1, text=new[index])
