"""Writes a memory report as a trace that Perfetto and chrome://tracing open.

A version of the program is a process, with counters of bytes and a slice a buffer.  One
line of the program is one microsecond.
"""

import heapq
from collections.abc import Iterator, Sequence
from itertools import count

from wrapperir.report.text import UNCOUNTED, visible
from wrapperir.report.timeline import (
    MemoryReport,
    MemoryTimeline,
    ProgramTimeline,
    TimelineBuffer,
    TimelineValue,
)
from wrapperir.report.trace_events import TraceEvent, event, format_events, named


def format_perfetto(report: MemoryReport) -> str:
    """Return the trace as JSON text."""
    events: list[TraceEvent] = []
    threads = count(len(report.versions) + 1)
    for process, version in enumerate(report.versions, 1):
        name = f"{report.program} of {report.source}, {version.label}"
        events.append(named("process", process, process, name))
        events += _version_events(version, process, threads)
    symbols = {each.name: f"{each.value} ({each.reason})" for each in report.symbols}
    return format_events(events, {"time": "1 us is a line of the program", **symbols})


def _version_events(
    version: ProgramTimeline, process: int, threads: Iterator[int]
) -> Iterator[TraceEvent]:
    thread = next(threads)
    yield named("thread", process, thread, "lines")
    for index, line in enumerate(version.lines):
        place: TraceEvent = {"cat": "line", "tid": thread, "ts": index, "dur": 1}
        yield event("X", line.text, process, {"line": line.number}) | place
    for memory in version.memories:
        yield from _counters(memory, process)
        for what, counted in (("buffers", True), (UNCOUNTED, False)):
            own = [buffer for buffer in memory.buffers if buffer.kind.counted is counted]
            for lane, buffers in enumerate(lanes(own), 1):
                thread = next(threads)
                yield named("thread", process, thread, f"{memory.memory} {what} {lane}")
                for b in buffers:
                    arguments = _arguments(b, version)
                    place = {"cat": "buffer", "tid": thread}
                    place |= {"ts": b.begin, "dur": b.end - b.begin}
                    yield event("X", f"%{b.name}", process, arguments) | place


def lanes(buffers: Sequence[TimelineBuffer]) -> list[list[TimelineBuffer]]:
    """Return the buffers in as few rows as can be, none overlapping in time in a row.

    Greedy colouring of intervals by their beginnings (Kleinberg and Tardos, Algorithm
    Design, 4.1).
    """
    rows: list[list[TimelineBuffer]] = []
    free: list[tuple[int, int]] = []  # when a row is free again, and which it is
    for buffer in sorted(buffers, key=lambda b: (b.begin, -b.end)):
        if free and free[0][0] <= buffer.begin:
            _, row = heapq.heappop(free)
        else:
            row = len(rows)
            rows.append([])
        rows[row].append(buffer)
        heapq.heappush(free, (buffer.end, row))
    return rows


def _counters(memory: MemoryTimeline, process: int) -> Iterator[TraceEvent]:
    series = {"live": memory.live, "held": memory.held, "pool height": memory.pool_bytes}
    for name, values in series.items():
        previous = None
        for index, value in enumerate([*values, 0]):
            if value != previous:
                change = event("C", f"{memory.memory} {name}", process, {"bytes": value})
                yield change | {"ts": index}
            previous = value


def _arguments(buffer: TimelineBuffer, version: ProgramTimeline) -> TraceEvent:
    arguments: dict[str, str] = {"type": buffer.type}
    arguments["memory"] = buffer.kind.value
    if buffer.pool is not None and buffer.offset is not None:
        arguments["pool"] = f"%{buffer.pool} + {buffer.offset}"
    if buffer.aliases:
        arguments["also"] = ", ".join(f"%{name}" for name in buffer.aliases)
    for number, value in enumerate((buffer.value_at(-1), *buffer.reuses)):
        arguments.update(_making(value, version, f", reuse {number}" if number else ""))
    texts: TraceEvent = {key: visible(value) for key, value in arguments.items()}
    return {"bytes": buffer.size, **texts}


def _making(
    value: TimelineValue, version: ProgramTimeline, of: str
) -> Iterator[tuple[str, str]]:
    """Yield which lines make and first write a value, and where they came from."""
    for word, index in (("made by", value.line), ("written by", value.writer)):
        if index is not None:
            line = version.lines[index]
            yield word + of, f"line {line.number}: {line.text}"
    if value.provenance:
        yield f"from{of}", value.provenance
