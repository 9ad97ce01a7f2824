"""Builds a profile from the times of calls."""

from collections.abc import Iterator, Mapping, Sequence

from wrapperir import ir as wir
from wrapperir.analysis import analyze_memory
from wrapperir.analysis.line_traffic import KernelTraffic, LineTraffic, line_traffic
from wrapperir.diagnostics import LinePath, Position
from wrapperir.ir.blocks import walk_places
from wrapperir.ir.line_effects import LineEffects, value_types
from wrapperir.profiling.line_times import CallTimes, LineTimes, median
from wrapperir.profiling.marks import MarkedProgram
from wrapperir.profiling.recording import MarkedCall
from wrapperir.report import (
    LineProfile,
    MemoryPeak,
    Profile,
    Slice,
    build_timeline,
    equal_lines,
    line_head,
    line_modules,
    shown_symbols,
)
from wrapperir.report.profile import HOST


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
    found = LineTimes.of(program, times)
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
        unprofiled_ns=median(times.plain),
        profiled_ns=median(call.ns for call in calls),
        mark_ns=found.mark.ns,
        marks=len(calls[-1].hits),
        opened_regions=opened_regions,
        entry_ns=median(call.entry.ns for call in calls),
        return_ns=median(call.return_.ns for call in calls),
        peak_bytes=facts.memory.peak,
        peaks=tuple(_peaks(program, symbols, positions)),
        allocator_peak_bytes=times.allocator_peak,
        lines=lines,
        slices=tuple(_slices(typical, lines)),
    )


def _peaks(
    program: wir.Program,
    symbols: Mapping[str, wir.Number],
    positions: Mapping[LinePath, Position],
) -> Iterator[MemoryPeak]:
    """Yield the peak of each memory, as the memory report has it."""
    paths = [path for _, path in walk_places(program.lines)]
    indices = {path: Position(index, 1) for index, path in enumerate(paths)}
    for memory in build_timeline(program, indices, symbols, "").memories:
        if paths:
            path = paths[memory.peak_line]
            at = positions.get(path)
            number = None if at is None else at.line
            yield MemoryPeak(
                memory=memory.memory, bytes=memory.peak, path=path, number=number
            )


class _ProgramFacts:
    """What is known of lines without running them."""

    def __init__(self, program: wir.Program, symbols: Mapping[str, wir.Number]) -> None:
        """Find the effects, types and memory of a program for values of its symbols."""
        self.memory = analyze_memory(program, symbols)
        self._symbols = symbols
        self._effects = LineEffects.of_program(program)
        self._types = value_types(program)
        self._kernels = KernelTraffic(program)
        self._origins = wir.OriginTable(program)
        places = tuple(walk_places(program.lines))
        equal = equal_lines([line for line, _ in places], self._origins)
        paths = [path for _, path in places]
        self._equal = {path: paths[first] for path, first in zip(paths, equal, strict=True)}

    def profile(
        self,
        line: wir.BodyLine,
        path: LinePath,
        times: LineTimes,
        position: Position | None,
    ) -> LineProfile:
        """Return the profile of the line at a path."""
        done = self._effects.visit(line)
        launches = done.launches and done.stream is not None
        count = times.counts.get(path, 0)
        traffic = self._traffic(line)
        mark = times.event if path in times.device else times.mark
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
            touched=traffic is not None and traffic.touched,
            held_bytes=self.memory.blocks[tuple(block)].live[index],
            nodes=() if line.provenance is None else line.provenance.origins,
            source=self._origins.source_of(path),
            modules=line_modules(line, self._origins),
            equal_to=self._equal[path],
            resolution_ns=count * mark.resolution,
        )

    def _traffic(self, line: wir.BodyLine) -> LineTraffic | None:
        try:
            touched = self._kernels.of(line, self._types, self._symbols)
            if touched is not None:
                return touched
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
