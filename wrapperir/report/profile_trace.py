"""Writes one call of a profile as a trace that Perfetto and chrome://tracing open."""

from collections.abc import Iterator

from wrapperir.report.profile import HOST, Profile, Slice
from wrapperir.report.text import visible
from wrapperir.report.trace_events import TraceEvent, event, format_events, named

_PROCESS = 1


def format_profile_trace(profile: Profile) -> str:
    """Return the call as JSON text: a row for the host and for each stream of a GPU.

    The live bytes of the program are a counter.
    """
    facts = {
        "emitter": profile.emitter,
        "time without marks": f"{profile.unprofiled_ns / 1000} µs",
        "time with marks": f"{profile.profiled_ns / 1000} µs",
        **{name: str(value) for name, value in profile.symbols},
    }
    return format_events(_events(profile), facts)


def _events(profile: Profile) -> Iterator[TraceEvent]:
    title = f"@{profile.program} with {profile.emitter}"
    yield named("process", _PROCESS, _PROCESS, title)
    lanes = dict.fromkeys(each.lane for each in profile.slices)
    threads = {lane: thread for thread, lane in enumerate(lanes, _PROCESS + 1)}
    for lane, thread in threads.items():
        yield named("thread", _PROCESS, thread, lane)
    held = None
    for each in profile.slices:
        yield _interval(each, profile, threads[each.lane])
        if each.lane == HOST and each.line is not None:
            now = profile.lines[each.line].held_bytes
            if now is not None and now != held:
                held = now
                counter = event("C", "held bytes", _PROCESS, {"bytes": now})
                yield counter | {"ts": each.begin_ns / 1000}


def _interval(each: Slice, profile: Profile, thread: int) -> TraceEvent:
    place: TraceEvent = {"tid": thread, "ts": each.begin_ns / 1000, "dur": each.ns / 1000}
    if each.line is None:
        return event("X", "marks", _PROCESS, {}) | place | {"cat": "call"}
    line = profile.lines[each.line]
    arguments: TraceEvent = {}
    if line.number is not None:
        arguments["line"] = line.number
    if line.source is not None:
        arguments["source"] = visible(line.source)
    if line.nodes:
        arguments["from"] = visible(", ".join(line.nodes))
    if line.read_bytes is not None and line.written_bytes is not None and line.launches:
        arguments["read bytes"] = line.read_bytes
        arguments["written bytes"] = line.written_bytes
    kind = "work" if line.launches else "line"
    return event("X", line.text, _PROCESS, arguments) | place | {"cat": kind}
