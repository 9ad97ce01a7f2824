"""Builds a profile from the times of calls."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from attrs import define, field, frozen

from wrapperir import ir as wir
from wrapperir.analysis import analyze_memory
from wrapperir.analysis.line_traffic import LineTraffic, line_traffic
from wrapperir.diagnostics import LinePath, Position
from wrapperir.ir.blocks import walk_places
from wrapperir.ir.line_effects import LineEffects, value_types
from wrapperir.profiling.marks import GPU, MarkedProgram
from wrapperir.profiling.recording import MarkedCall, TimedInterval
from wrapperir.report import (
    LineProfile,
    Profile,
    Slice,
    equal_lines,
    line_head,
    line_module,
    shown_symbols,
)
from wrapperir.report.profile import HOST


@define(eq=False)
class CallTimes:
    """Times of calls of a program as it is, with marks, and with marks on held streams."""

    plain: list[int] = field(factory=list[int])
    marked: list[MarkedCall] = field(factory=list[MarkedCall])
    held: list[MarkedCall] = field(factory=list[MarkedCall])
    allocator_peak: int | None = None


def build_profile(
    program: wir.Program,
    marked: MarkedProgram,
    times: CallTimes,
    *,
    emitter: str,
    positions: Mapping[LinePath, Position],
    opened_regions: bool,
) -> Profile:
    """Return the profile of a program without graph regions."""
    found = _LineTimes.of(program, times)
    calls = times.marked
    symbols = calls[-1].symbols
    facts = _ProgramFacts(program, symbols)
    paths = {mark.path for mark in marked.marks}
    lines = tuple(
        facts.profile(line, path, found, positions.get(path))
        for line, path in walk_places(program.lines)
        if path in paths
    )
    typical = sorted(calls, key=lambda call: call.ns)[len(calls) // 2]
    return Profile(
        program=program.name,
        emitter=emitter,
        repeats=len(calls),
        symbols=tuple((x, symbols[x]) for x in shown_symbols(program) if x in symbols),
        unprofiled_ns=_median(times.plain),
        profiled_ns=_median(call.ns for call in calls),
        mark_ns=found.mark_ns,
        marks=len(calls[-1].hits),
        opened_regions=opened_regions,
        entry_ns=_median(call.entry.ns for call in calls),
        return_ns=_median(call.return_.ns for call in calls),
        peak_bytes=facts.memory.peak,
        allocator_peak_bytes=times.allocator_peak,
        lines=lines,
        slices=tuple(_slices(typical, lines)),
    )


def _median(values: Iterable[int]) -> int:
    return round(statistics.median(values))


@frozen(eq=False)
class _LineTimes:
    """Medians of the times of each line in a call."""

    mark_ns: int
    counts: Mapping[LinePath, int]
    host: Mapping[LinePath, int]
    device: Mapping[LinePath, int]
    gaps: Mapping[LinePath, int]

    @classmethod
    def of(cls, program: wir.Program, times: CallTimes) -> "_LineTimes":
        """Return the medians of calls."""
        marked = times.marked
        mark_ns = _between_starts(call.host() for call in marked)
        host = _medians(marked, lambda call: _lessened(call.host(), mark_ns))
        event_ns = _between_starts(call.on_streams() for call in times.held)
        device = _medians(times.held, lambda call: _lessened(call.on_streams(), event_ns))
        without_marks = _medians(
            marked, lambda call: _without_marks(call.on_streams(), mark_ns, event_ns)
        )
        gaps = {path: max(without_marks[path] - ns, 0) for path, ns in device.items()}
        working = _on_host(program)
        gaps |= _medians(marked, lambda call: _idle_times(call, working, mark_ns))
        reached = (hit.mark for hit in marked[-1].hits if not hit.mark.enters)
        counts = Counter(mark.path for mark in reached if mark.path is not None)
        return cls(mark_ns, counts, host, device, gaps)


def _between_starts(calls: Iterable[Iterable[TimedInterval]]) -> int:
    """Return the median time between marks in a row at the start."""
    found = [each.ns for call in calls for each in call if each.path is None]
    return _median(found) if found else 0


def _medians(
    calls: Sequence[MarkedCall], intervals: Callable[[MarkedCall], Iterable[TimedInterval]]
) -> dict[LinePath, int]:
    """Return the median over calls of each line's time in a call."""
    totals: defaultdict[LinePath, list[int]] = defaultdict(lambda: [0] * len(calls))
    for number, call in enumerate(calls):
        for each in intervals(call):
            if each.path is not None:
                totals[each.path][number] += each.ns
    return {path: _median(each) for path, each in totals.items()}


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


class _ProgramFacts:
    """What is known of lines without running them."""

    def __init__(self, program: wir.Program, symbols: Mapping[str, wir.Number]) -> None:
        """Find the effects, types and memory of a program for values of its symbols."""
        self.memory = analyze_memory(program, symbols)
        self._symbols = symbols
        self._effects = LineEffects.of_program(program)
        self._types = value_types(program)
        self._origins = wir.OriginTable(program)
        places = tuple(walk_places(program.lines))
        equal = equal_lines([line for line, _ in places], self._origins)
        paths = [path for _, path in places]
        self._equal = {path: paths[first] for path, first in zip(paths, equal, strict=True)}

    def profile(
        self,
        line: wir.BodyLine,
        path: LinePath,
        times: _LineTimes,
        position: Position | None,
    ) -> LineProfile:
        """Return the profile of the line at a path."""
        done = self._effects.visit(line)
        launches = done.launches and done.stream is not None
        count = times.counts.get(path, 0)
        traffic = self._traffic(line)
        *block, _, index = path
        assert isinstance(index, int)
        return LineProfile(
            path=path,
            number=None if position is None else position.line,
            text=line_head(line),
            kernel=line.kernel if isinstance(line, wir.KernelCallLine) else None,
            operator=line.operator if isinstance(line, wir.ExternKernelLine) else None,
            device=str(done.device) if launches else None,
            count=count,
            host_ns=times.host.get(path, 0),
            device_ns=times.device.get(path),
            gap_ns=times.gaps.get(path, 0) if launches else None,
            read_bytes=None if traffic is None else traffic.read * count,
            written_bytes=None if traffic is None else traffic.written * count,
            live_bytes=self.memory.blocks[tuple(block)].live[index],
            nodes=() if line.provenance is None else line.provenance.origins,
            source=self._origins.source_of(path),
            module=line_module(line, self._origins),
            equal_to=self._equal[path],
        )

    def _traffic(self, line: wir.BodyLine) -> LineTraffic | None:
        try:
            return line_traffic(self._effects.visit(line), self._types, self._symbols)
        except wir.EvaluationError:
            return None


def _slices(call: MarkedCall, lines: Sequence[LineProfile]) -> Iterator[Slice]:
    """Yield the intervals of one call from its beginning.

    A stream may have been idle at first in an interval: its work is drawn at the end.
    """
    numbers = {line.path: number for number, line in enumerate(lines)}
    for each in (call.entry, *call.host(), call.return_):
        index = None if each.path is None else numbers[each.path]
        begin = each.begin - call.begin
        yield Slice(lane=HOST, line=index, begin_ns=begin, ns=each.ns)
    for each in call.on_streams():
        if each.path is None or each.stream is None:
            continue
        line = lines[numbers[each.path]]
        ns = min(each.ns, (line.device_ns or 0) // max(line.count, 1))
        lane = f"{each.stream.device} stream {each.stream.number}"
        end = each.begin + each.ns - call.begin
        yield Slice(lane=lane, line=numbers[each.path], begin_ns=end - ns, ns=ns)
