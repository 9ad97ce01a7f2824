"""Writes a memory report as text: a summary, and the largest buffers at the peak."""

import math
import re
from collections.abc import Iterator, Sequence

from wrapperir.report.timeline import (
    GIVEN,
    BufferKind,
    MemoryReport,
    MemoryTimeline,
    ProgramTimeline,
    TimelineBuffer,
    TimelineValue,
    at_peak,
)

LARGEST = 10
"""How many buffers at the peak a report names."""

UNCOUNTED = "inputs, constants and kept workspaces"
"""The memory that exists before a call."""

_WIDEST = 100

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")

_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def visible(text: str) -> str:
    """Return text with escapes for control characters and characters that reorder text."""
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 case``, ``2 cases``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def format_bytes(count: int) -> str:
    """Return bytes in the largest unit of 1024s that leaves at least one: ``1.5 MiB``.

    A rounded number has three significant digits or more.
    """
    unit = min(max(0, (abs(count).bit_length() - 1) // 10), len(_UNITS) - 1)
    if unit == 0:
        return counted(count, "byte")
    value = count / 1024**unit
    digits = 2 if value < 10 else 1 if value < 100 else 0
    text = f"{math.floor(value * 10**digits + 0.5) / 10**digits:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {_UNITS[unit]}"


def format_report(report: MemoryReport) -> str:
    """Return the report as lines of text; control characters are shown escaped."""
    return "".join(f"{visible(line)}\n" for line in _report_lines(report))


def _report_lines(report: MemoryReport) -> Iterator[str]:
    yield f"memory of @{report.program} in {report.source}"
    for symbol in report.symbols:
        yield f"with {symbol.name} = {symbol.value} ({symbol.reason})"
    for version in report.versions:
        for memory in version.memories:
            yield ""
            yield f"{version.label}, {memory.memory}:"
            yield from _summary(version, memory)
            yield ""
            yield from _largest(version, memory)


def _summary(version: ProgramTimeline, memory: MemoryTimeline) -> Iterator[str]:
    for name, value in summary(version, memory):
        yield f"  {name:<14} {value}"


def summary(version: ProgramTimeline, memory: MemoryTimeline) -> list[tuple[str, str]]:
    """Return the figures of one memory, each with its name."""
    bound = memory.lower_bound
    pieces = counted(memory.allocations, "piece")
    ratio = f", {memory.peak / bound:.3f} of the lower bound" if bound else ""
    where = place(version, memory.peak_line)
    rows = [
        ("peak", f"{_exact(memory.peak)} at {where}{ratio}"),
        *_rise(version, memory),
        ("lower bound", f"{_exact(bound)}, the most that is live at a line"),
        (
            "allocations",
            f"{pieces} of memory from an allocator",
        ),
    ]
    if memory.pools:
        height = memory.pool_height
        count = sum(pool.pool is None for pool in memory.pools)
        rows.append(("pools", f"{_exact(height)} at most, in {counted(count, 'pool')}"))
        rows.append(("in pools", _share(memory)))
    else:
        rows.append(("in pools", "nothing, for there are none"))
    if uncounted := max(memory.uncounted, default=0):
        rows.append(("not counted", f"{_exact(uncounted)} of {UNCOUNTED}"))
    return rows


def _rise(version: ProgramTimeline, memory: MemoryTimeline) -> Iterator[tuple[str, str]]:
    """Yield the line that took most of the peak's bytes, if another one, and for what."""
    if not memory.peak:
        return
    line, bytes = memory.peak_rise
    taken = [b for b in memory.buffers if b.kind.counted and b.begin == line]
    largest = max(taken, key=lambda buffer: buffer.size, default=None)
    if largest is not None and largest.kind in GIVEN:
        given = f"{_exact(bytes)} given to the call, which frees it"
        origin = f", from {largest.provenance}" if largest.provenance else ""
        yield "most of it", f"{given}; the largest is %{largest.name}{origin}"
        return
    if line != memory.peak_line:
        taken_at = f"{_exact(bytes)} at {place(version, line)}"
        yield "took most", f"{taken_at}, since memory last fell"
    if largest is not None:
        value = largest.value_at(line)
        origin = f", from {value.provenance}" if value.provenance else ""
        yield "taken for", f"%{value.name}{origin}"


def _share(memory: MemoryTimeline) -> str:
    counted = [b for b in memory.buffers if b.kind.counted]
    placed = [b for b in counted if b.kind is BufferKind.PLACED]
    alive = at_peak(memory)
    at = [b for b in alive if b.kind is BufferKind.PLACED]
    return (
        f"{len(placed)} of {len(counted)} buffers, with {_percent(placed, counted)} of"
        f" their bytes; at the peak {_percent(at, alive)}"
    )


def _percent(part: Sequence[TimelineBuffer], whole: Sequence[TimelineBuffer]) -> str:
    bytes = sum(b.size for b in whole)
    return f"{sum(b.size for b in part) / bytes:.1%}" if bytes else "none"


def place(version: ProgramTimeline, index: int) -> str:
    """Return the number of a line in the program's text: ``line 7``."""
    if not version.lines:
        return "no line"
    return f"line {version.lines[index].number}"


def _largest(version: ProgramTimeline, memory: MemoryTimeline) -> Iterator[str]:
    alive = at_peak(memory)
    if not alive:
        return
    shown = alive[:LARGEST]
    what = "the largest buffer" if len(shown) == 1 else f"the {len(shown)} largest buffers"
    yield f"  {what} of {len(alive)} live at {place(version, memory.peak_line)}:"
    values = [buffer.value_at(memory.peak_line) for buffer in shown]
    rows = [
        (format_bytes(b.size), f"%{value.name}", value.type, lifetime(version, b))
        for b, value in zip(shown, values, strict=True)
    ]
    first, second, third, _ = (max(map(len, column)) for column in zip(*rows, strict=True))
    for b, value, (size, name, type, when) in zip(shown, values, rows, strict=True):
        yield f"  {size:>{first}}  {name:<{second}}  {type:<{third}}  {when}"
        for text in _origin(version, b, value):
            yield f"  {'':>{first}}    {text}"


def _origin(
    version: ProgramTimeline, buffer: TimelineBuffer, value: TimelineValue
) -> tuple[str, ...]:
    """Return the lines that make a value and first write it, and where they come from."""
    lines = (index for index in (value.line, value.writer) if index is not None)
    found = [f"{place(version, x)}: {shortened(version.lines[x].text)}" for x in lines]
    found = found or [buffer.kind.value]
    return (*found, f"from {value.provenance}") if value.provenance else tuple(found)


def lifetime(version: ProgramTimeline, buffer: TimelineBuffer) -> str:
    """Return the numbers of the lines at which a buffer is alive: ``lines 3-7``."""
    if buffer.begin >= buffer.end:
        return "no lines"
    first = version.lines[buffer.begin].number
    last = version.lines[buffer.end - 1].number
    return f"line {first}" if first == last else f"lines {first}-{last}"


def shortened(text: str) -> str:
    """Return text that is cut where it is long, after the name of what is called."""
    name = text.find("(") + 1
    return text if len(text) <= _WIDEST else f"{text[: max(_WIDEST - 3, name)]}..."


def _exact(count: int) -> str:
    text = format_bytes(count)
    return text if count < 1024 else f"{text} ({count:,} bytes)"
