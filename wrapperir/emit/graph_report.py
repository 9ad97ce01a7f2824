"""The report of a capture of graph regions, as text and in the log."""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from wrapperir.diagnostics import LinePath, Position
from wrapperir.passes import CaptureReport
from wrapperir.passes.replay_cost import count_calls, replay_gain
from wrapperir.report import counted, visible
from wrapperir.text import format_line

logger = logging.getLogger("wrapperir.graphs")

REPORT_FILE = "graphs.txt"
"""The name of the report in a folder that a program is dumped to."""

_LONGEST = 72
"""Characters of a line that the report shows."""


def log_capture(report: CaptureReport) -> None:
    """Log the report; a warning with the reasons if nothing was captured."""
    if report.regions:
        logger.info("%s", format_capture(report).rstrip())
    else:
        logger.warning(
            "no graph region in @%s: %s; `wrapperir graphs` and the option dump_dir show "
            "each line",
            report.program.name,
            _reasons(report) or "it calls nothing",
        )


def write_capture(report: CaptureReport, folder: Path) -> None:
    """Write the report to a folder, which is made where it is missing.

    Raises:
        OSError: it cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / REPORT_FILE).write_text(format_capture(report), encoding="utf-8")


def format_capture(
    report: CaptureReport, positions: Mapping[LinePath, Position] | None = None
) -> str:
    """Return the report as lines of text.

    Lines of the program are numbered from 1 in its own list, or as in the text that has
    the ``positions``.
    """
    return "".join(f"{visible(line)}\n" for line in _report_lines(report, positions or {}))


def _report_lines(
    report: CaptureReport, positions: Mapping[LinePath, Position]
) -> Iterator[str]:
    def number(index: int) -> int:
        position = positions.get(("lines", index))
        return index + 1 if position is None else position.line

    calls = sum(count_calls(region.line) for region in report.regions)
    gain = sum(replay_gain(region.line) for region in report.regions)
    regions = counted(len(report.regions), "graph region")
    yield (
        f"@{report.program.name}: {regions} with {counted(calls, 'call')}; "
        f"replay saves about {gain:.0f} µs of host time"
    )
    for region in report.regions:
        line = region.line
        first, last = number(region.first), number(region.last)
        yield (
            f"  @{line.name}, lines {first} to {last}, on {line.device}: "
            f"{counted(count_calls(line), 'call')}, "
            f"{counted(len(line.operands), 'operand')}, "
            f"{counted(len(line.results), 'copied result')}, {replay_gain(line):.0f} µs"
        )
    if report.outside:
        yield f"outside: {_reasons(report)}"
    for index, why in sorted(report.outside.items()):
        text = " ".join(format_line(report.program.lines[index]).split())
        moved = "; moved before the region" if index in report.moved else ""
        yield f"  line {number(index)}, {why.reason}: {why.detail}{moved}"
        yield f"    {text if len(text) <= _LONGEST else text[:_LONGEST] + '...'}"


def _reasons(report: CaptureReport) -> str:
    """Return the reasons of the lines outside, the most frequent one first."""
    found = Counter(str(each.reason) for each in report.outside.values())
    return ", ".join(f"{reason} ({count})" for reason, count in found.most_common())
