r"""Events of Chrome's JSON trace format, which Perfetto and chrome://tracing open.

"Trace Event Format", by the Chromium authors.  Perfetto's own importer is stricter than
the format: it tells threads apart by their numbers alone, and reads no ``\u`` escapes.
Times are in microseconds.
"""

import json
from collections.abc import Iterable, Mapping
from typing import TypeAlias, Union

from wrapperir.report.text import visible

Json: TypeAlias = Union[str, int, float, list["Json"], dict[str, "Json"]]
TraceEvent: TypeAlias = dict[str, Json]


def format_events(events: Iterable[TraceEvent], facts: Mapping[str, str]) -> str:
    """Return a trace as JSON text; ``facts`` are texts that are shown about it."""
    trace: Json = {
        "traceEvents": list[Json](events),
        "otherData": {visible(name): visible(text) for name, text in facts.items()},
    }
    return json.dumps(trace, separators=(",", ":"), ensure_ascii=False) + "\n"


def named(kind: str, process: int, thread: int, name: str) -> TraceEvent:
    """Return the event that names a ``"process"`` or a ``"thread"``."""
    return event("M", f"{kind}_name", process, {"name": visible(name)}) | {"tid": thread}


def event(phase: str, name: str, process: int, arguments: TraceEvent) -> TraceEvent:
    """Return an event of a phase: ``X`` for an interval, ``C`` for a counter."""
    return {"name": visible(name), "ph": phase, "pid": process, "args": arguments}
