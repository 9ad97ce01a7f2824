"""The report of a partition: its parts, and the lines that fell back with the causes."""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping

from attrs import field, frozen

from wrapperir.diagnostics import Code, Diagnostic, LinePath, Position
from wrapperir.emit.partition.cut import Side
from wrapperir.ir import BodyLine, ExternKernelLine, OriginTable, Program
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.line_effects import LineEffects
from wrapperir.report import counted, visible
from wrapperir.text import format_line

logger = logging.getLogger("wrapperir.partition")

REPORT_FILE = "partition.txt"
"""The name of the report in an artifact of several parts."""

_LONGEST = 72
"""Characters of a line that the report shows."""

_CAUSES: Mapping[Code, str] = {
    Code.UNSUPPORTED_LINE: "line kind",
    Code.UNSUPPORTED_LANGUAGE: "language",
    Code.UNSUPPORTED_DEVICE: "device",
    Code.UNSUPPORTED_FEATURE: "feature",
}


@frozen(kw_only=True)
class PartSummary:
    """A part: the emitter's name, and how many calls and values it has."""

    emitter: str
    side: Side
    calls: int
    inputs: int
    outputs: int


@frozen(kw_only=True)
class PartitionReport:
    """The parts that a program was cut into, and why lines fell back.

    ``program`` is the program that was cut.  ``fell_back`` has the first cause of each of
    its lines that the chosen emitter lacks something for, by its number from 0.  Lines that
    name results of a call that fell back are left out.
    """

    program: Program
    chosen: str
    fallback: str
    parts: tuple[PartSummary, ...]
    fell_back: Mapping[int, Diagnostic] = field(factory=dict[int, Diagnostic])

    @property
    def calls(self) -> int:
        """The launches and operator calls of the program, in its blocks too."""
        return sum(part.calls for part in self.parts)

    @property
    def chosen_calls(self) -> int:
        """Those of them that run with the chosen emitter."""
        return sum(part.calls for part in self.parts if part.side is Side.CHOSEN)


def count_calls(program: Program) -> int:
    """Return the launches and operator calls of a program, in its blocks too."""
    effects = LineEffects(None)
    found = (effects.visit(line) for line in walk_lines(program.lines))
    return sum(each.launches and not each.blocks for each in found)


def cause_of(line: BodyLine, why: Diagnostic) -> str:
    """Return the kind of what a line lacks: ``operator``, ``language`` and so on."""
    if why.code is Code.UNSUPPORTED_FEATURE:
        for inner in walk_lines([line]):
            if isinstance(inner, ExternKernelLine) and inner.operator == why.subject:
                return "operator"
    return _CAUSES.get(why.code, "feature")


def log_partition(report: PartitionReport) -> None:
    """Log the report; a warning if nothing runs with the chosen emitter."""
    if report.chosen_calls:
        logger.info("%s", format_partition(report).rstrip())
    else:
        logger.warning(
            "nothing of @%s runs on %s, all of it on %s: %s",
            report.program.name,
            report.chosen,
            report.fallback,
            _reasons(report) or "it calls nothing",
        )


def format_partition(
    report: PartitionReport, positions: Mapping[LinePath, Position] | None = None
) -> str:
    """Return the report as lines of text.

    Lines of the program are numbered from 1 in its own list, or as in the text that has
    the ``positions``.
    """
    return "".join(f"{visible(line)}\n" for line in _report_lines(report, positions or {}))


def _report_lines(
    report: PartitionReport, positions: Mapping[LinePath, Position]
) -> Iterator[str]:
    calls, chosen = report.calls, report.chosen_calls
    share = f" ({100 * chosen / calls:.0f} %)" if calls else ""
    yield (
        f"@{report.program.name}: {chosen} of {counted(calls, 'call')}{share} on "
        f"{report.chosen}, {calls - chosen} on {report.fallback}; "
        f"{counted(len(report.parts), 'part')}"
    )
    for number, part in enumerate(report.parts):
        yield (
            f"  part {number}, {part.emitter}: {counted(part.calls, 'call')}, "
            f"{counted(part.inputs, 'value')} in, {part.outputs} out"
        )
    table = OriginTable(report.program)
    if report.fell_back:
        yield f"fell back: {_reasons(report)}"
    for index, why in sorted(report.fell_back.items()):
        position = positions.get(("lines", index))
        number = index + 1 if position is None else position.line
        line = report.program.lines[index]
        yield f"  line {number}, {cause_of(line, why)}: {why.message}"
        text = " ".join(format_line(line).split())
        yield f"    {text if len(text) <= _LONGEST else text[:_LONGEST] + '...'}"
        for place in filter(None, map(table.place, table.of(line.provenance)[:1])):
            yield f"    {place.file}:{place.line}"


def _reasons(report: PartitionReport) -> str:
    """Return what lines fell back for, the most frequent first."""
    found: Counter[str] = Counter()
    for index, why in report.fell_back.items():
        cause = cause_of(report.program.lines[index], why)
        found[f"{cause} {why.subject}" if why.subject else cause] += 1
    return ", ".join(f"{reason} ({count})" for reason, count in found.most_common())
