"""Times of the lines of a program in calls with marks, without those of the marks."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from attrs import define, field, frozen

from wrapperir import ir as wir
from wrapperir.diagnostics import LinePath
from wrapperir.ir.blocks import walk_places
from wrapperir.ir.line_effects import LineEffects
from wrapperir.profiling.marks import GPU
from wrapperir.profiling.recording import MarkedCall, TimedInterval


@define(eq=False)
class CallTimes:
    """Times of calls of a program as it is, with marks, and with marks on held streams."""

    plain: list[int] = field(factory=list[int])
    marked: list[MarkedCall] = field(factory=list[MarkedCall])
    held: list[MarkedCall] = field(factory=list[MarkedCall])
    allocator_peak: int | None = None


def median(values: Iterable[int]) -> int:
    """Return the median as a whole number."""
    return round(statistics.median(values))


@frozen
class MarkTime:
    """What a mark adds to the time of a line, and by how much marks in a row may differ.

    No line takes less than nothing, so that ``ns`` is the shortest interval of a call, as a
    median of calls.  Only a longer time than ``resolution`` is surely that of a line:
    three of four intervals between the marks at the start are shorter with a mark taken
    off.
    """

    ns: int
    resolution: int

    @classmethod
    def of(cls, calls: Iterable[Sequence[TimedInterval]]) -> "MarkTime":
        """Return the time of a mark in the intervals of calls."""
        found = [*calls]
        shortest = [min(each.ns for each in call) for call in found if call]
        starts = sorted(each.ns for call in found for each in call if each.path is None)
        if not starts:
            return cls(0, 0)
        ns = median(shortest)
        return cls(ns, max(starts[len(starts) * 3 // 4] - ns, 0))


@frozen(eq=False)
class LineTimes:
    """Medians of the times of each line in a call."""

    mark: MarkTime
    event: MarkTime
    counts: Mapping[LinePath, int]
    host: Mapping[LinePath, int]
    device: Mapping[LinePath, int]
    gaps: Mapping[LinePath, int]

    @classmethod
    def of(cls, program: wir.Program, times: CallTimes) -> "LineTimes":
        """Return the medians of calls."""
        marked = times.marked
        mark = MarkTime.of([*call.host()] for call in marked)
        event = MarkTime.of([*call.on_streams()] for call in times.held)
        mark_ns, event_ns = mark.ns, event.ns
        host = _medians(marked, lambda call: _lessened(call.host(), mark_ns))
        device = _medians(times.held, lambda call: _lessened(call.on_streams(), event_ns))
        without_marks = _medians(
            marked, lambda call: _without_marks(call.on_streams(), mark_ns, event_ns)
        )
        gaps = {path: max(without_marks[path] - ns, 0) for path, ns in device.items()}
        working = _on_host(program)
        gaps |= _medians(marked, lambda call: _idle_times(call, working, mark_ns))
        reached = (hit.mark for hit in marked[-1].hits if not hit.mark.enters)
        counts = Counter(mark.path for mark in reached if mark.path is not None)
        return cls(mark, event, counts, host, device, gaps)


def _medians(
    calls: Sequence[MarkedCall], intervals: Callable[[MarkedCall], Iterable[TimedInterval]]
) -> dict[LinePath, int]:
    """Return the median over calls of each line's time in a call."""
    totals: defaultdict[LinePath, list[int]] = defaultdict(lambda: [0] * len(calls))
    for number, call in enumerate(calls):
        for each in intervals(call):
            if each.path is not None:
                totals[each.path][number] += each.ns
    return {path: median(each) for path, each in totals.items()}


def _lessened(intervals: Iterable[TimedInterval], ns: int) -> Iterator[TimedInterval]:
    for each in intervals:
        yield TimedInterval(each.path, each.begin, max(each.ns - ns, 0), each.stream)


def _without_marks(
    intervals: Iterable[TimedInterval], mark_ns: int, event_ns: int
) -> Iterator[TimedInterval]:
    """Yield the times on streams that there are if the host reaches no marks."""
    for each in intervals:
        marks = each.hits_ns + each.hits * mark_ns + event_ns
        yield TimedInterval(each.path, each.begin, max(each.ns - marks, 0), each.stream)


def _on_host(program: wir.Program) -> frozenset[LinePath]:
    """Return the lines whose work is done by the time that they have run."""
    effects = LineEffects.of_program(program)
    found: set[LinePath] = set()
    for line, path in walk_places(program.lines):
        done = effects.visit(line)
        if done.launches and done.stream is not None and done.stream.device.kind != GPU:
            found.add(path)
    return frozenset(found)


def _idle_times(
    call: MarkedCall, working: frozenset[LinePath], mark_ns: int
) -> Iterator[TimedInterval]:
    """Yield the host's time between lines that work there, for the line after it."""
    idle = call.entry.ns
    for each in _lessened(call.host(), mark_ns):
        if each.path in working:
            yield TimedInterval(each.path, each.begin, idle)
            idle = 0
        else:
            idle += each.ns
