"""The trace, held against the trace event format and what Perfetto's importer reads."""

import json
import re
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.reports import buffer, hostile_report, large_report, small_report
from wrapperir.report import MemoryReport, format_perfetto
from wrapperir.report.perfetto import lanes

Event = dict[str, Any]


def check_format(text: str) -> list[Event]:
    """Return the events of a trace, each as the format has it."""
    assert not re.search(r"(?<!\\)(\\\\)*\\u", text)
    trace = json.loads(text)
    assert list(trace) == ["traceEvents", "otherData"]
    assert all(isinstance(value, str) for value in trace["otherData"].values())
    threads: dict[int, int] = {}
    for event in trace["traceEvents"]:
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert event["pid"] > 0
        match event["ph"]:
            case "M":
                assert event["name"] in {"process_name", "thread_name"}
                assert event["args"].keys() == {"name"}
                assert event["args"]["name"]
            case "C":
                assert event["ts"] >= 0
                assert all(isinstance(v, int) for v in event["args"].values())
            case "X":
                assert event["ts"] >= 0
                assert event["dur"] >= 0
                assert event["cat"]
                # A thread is of one process, and is not the process's own.
                assert threads.setdefault(event["tid"], event["pid"]) == event["pid"]
            case _:
                pytest.fail(f"no event has the phase {event['ph']}")
    assert not set(threads) & set(threads.values())
    return list(trace["traceEvents"])


def check_rows(events: list[Event]) -> None:
    """Slices of a thread follow each other, as Perfetto draws them in one row."""
    ends: dict[int, int] = defaultdict(int)
    for event in events:
        if event["ph"] == "X":
            assert event["ts"] >= ends[event["tid"]]
            ends[event["tid"]] = event["ts"] + event["dur"]


@pytest.mark.parametrize("report", [small_report(), hostile_report(), large_report(500)])
def test_a_trace_is_as_the_format_has_it(report: MemoryReport) -> None:
    events = check_format(format_perfetto(report))
    check_rows(events)
    names = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert len(names) == len(report.versions)
    for process, version in enumerate(report.versions, 1):
        own = [e for e in events if e["pid"] == process]
        slices = [e for e in own if e["ph"] == "X"]
        assert sum(e["cat"] == "line" for e in slices) == len(version.lines)
        (memory,) = version.memories
        assert sum(e["cat"] == "buffer" for e in slices) == len(memory.buffers)


def test_counters_are_the_curves() -> None:
    report = small_report()
    events = check_format(format_perfetto(report))
    for process, version in enumerate(report.versions, 1):
        (memory,) = version.memories
        for name, curve in (("cpu live", memory.live), ("cpu held", memory.held)):
            points = {
                e["ts"]: e["args"]["bytes"]
                for e in events
                if (e["ph"], e["pid"], e["name"]) == ("C", process, name)
            }
            value, values = 0, []
            for at in range(len(curve)):
                value = points.get(at, value)
                values.append(value)
            assert tuple(values) == curve
            assert points[len(curve)] == 0
    heights = [e for e in events if e["name"] == "cpu pool height" and e["pid"] == 2]
    assert [(e["ts"], e["args"]["bytes"]) for e in heights] == [(0, 8192), (5, 0)]


def test_what_is_there_before_the_call_has_tracks_of_its_own() -> None:
    events = check_format(format_perfetto(small_report()))
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    before = "cpu inputs, constants and kept workspaces 1"
    for process in (1, 2):
        slices = [e for e in events if (e["ph"], e["pid"]) == ("X", process)]
        tracks = {e["name"]: names[e["tid"]] for e in slices if e["cat"] == "buffer"}
        assert tracks["%x"] == before
        own = {name for buffer, name in tracks.items() if buffer != "%x"}
        assert own == {"cpu buffers 1", "cpu buffers 2"}


def test_a_slice_says_what_a_buffer_is() -> None:
    events = check_format(format_perfetto(small_report()))
    (placed,) = (e for e in events if e["name"] == "%c" and e["pid"] == 2)
    assert (placed["ts"], placed["dur"]) == (3, 2)
    assert placed["args"] == {
        "bytes": 6144,
        "type": "f32[1536]",
        "memory": "placed in a pool",
        "pool": "%p + 0",
        "made by": "line 5: %c = ...",
    }


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8))))
def test_lanes_are_as_few_as_can_be(lifetimes: list[tuple[int, int]]) -> None:
    buffers = [
        buffer(f"b{i}", 64, begin, begin + length)
        for i, (begin, length) in enumerate(lifetimes)
    ]
    rows = lanes(buffers)
    assert sorted(b.name for row in rows for b in row) == sorted(b.name for b in buffers)
    for row in rows:
        assert all(a.end <= b.begin for a, b in pairwise(row))
    most = max((sum(b.begin <= t < b.end for b in buffers) for t in range(40)), default=0)
    assert len(rows) == most
