"""The decisions about a program's collectives, as text."""

from collections.abc import Iterator, Mapping

from wrapperir.diagnostics import LinePath, Position
from wrapperir.ir import CollectiveLine, Program
from wrapperir.ir.blocks import walk_lines
from wrapperir.passes import BlockOverlap, Merged, OverlappedCollective, OverlapReport
from wrapperir.report import counted, visible
from wrapperir.report.text import format_bytes


def format_overlap(
    merged: Merged,
    report: OverlapReport,
    positions: Mapping[LinePath, Position] | None = None,
) -> str:
    """Return what was merged, and then moved, as lines of text.

    Lines are numbered as in the text that has the ``positions``, which is that of the
    program in which collectives are merged; without, from 1 in the program's own list.
    """
    lines = _lines(merged, report, positions or {})
    return "".join(f"{visible(line)}\n" for line in lines)


def _lines(
    merged: Merged, report: OverlapReport, positions: Mapping[LinePath, Position]
) -> Iterator[str]:
    starts = sum(len(block.collectives) for block in report.blocks)
    yield (
        f"@{report.program.name}: {counted(starts, 'collective')}, with the speeds of "
        f"{report.machine.name}"
    )
    if _has_run(report.program):
        before = "overlap_collectives has run on this program"
        yield f"  {before}: what it decided then is not shown"
    for each in merged.collectives:
        yield (
            f"  merged: {each.count} × {_name(each.line)}, {format_bytes(each.bytes)}: "
            f"{_time(each.seconds_before)} become {_time(each.seconds)}"
        )
    for block in report.blocks:
        yield from _block_lines(block, positions)


def _has_run(program: Program) -> bool:
    """Return whether the pass has moved lines of a program before."""
    provenances = (line.provenance for line in walk_lines(program.lines))
    return any("overlap_collectives" in x.passes for x in provenances if x is not None)


def _block_lines(
    block: BlockOverlap, positions: Mapping[LinePath, Position]
) -> Iterator[str]:
    where = "in a nested block: " if block.is_nested else ""
    yield (
        f"  {where}{_time(block.seconds_before)} become {_time(block.seconds)}, at least "
        f"{_time(block.bound)}"
    )
    yield (
        f"  {where}peak {format_bytes(block.peak_before)} becomes "
        f"{format_bytes(block.peak)}, at most {format_bytes(block.limit)}"
    )
    if block.kept:
        yield f"  {where}the lines stay: {block.kept}"
    for each in block.collectives:
        at = None if block.is_nested else positions.get(("lines", each.index))
        number = each.index + 1 if at is None else at.line
        what = f"{_name(each.line)}, {format_bytes(each.bytes)}"
        yield f"  line {number}, {what}: {_fate(each)}"


def _fate(each: OverlappedCollective) -> str:
    """Return how long a collective takes, and how much of that work hides."""
    hidden = each.seconds - min(each.seconds, each.stalls)
    was = each.seconds - min(each.seconds, each.stalled)
    return (
        f"{_time(each.seconds)}, hidden {_time(was)} → {_time(hidden)} by "
        f"{each.worked} → {counted(each.works, 'call')}"
    )


def _name(line: CollectiveLine) -> str:
    reduction = "" if line.reduction is None else f"({line.reduction.value})"
    return f'{line.operation.value}{reduction} "{line.group}"'


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} µs"
