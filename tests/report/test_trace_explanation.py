"""The kernels in traces of torch.profiler, and the lines that they are of."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from wrapperir.ir import Program
from wrapperir.report import (
    TraceExplanation,
    explain,
    explain_trace,
    format_trace_explanation,
    format_trace_explanation_json,
)
from wrapperir.report.traced_kernels import ProfiledNames, kernels_of_trace
from wrapperir.testing.programs import programs
from wrapperir.text import format_with_positions, parse_with_positions

KERNEL = """\
kernel_definition @{name} {language}(x: read f32*, y: write f32*) {{
  grid = (1, 1, 1)
  entry = {entry}
  source {{
    |
  }}
}}

"""
KERNELS = "".join(
    KERNEL.format(name=name, language=language, entry=entry)
    for name, language, entry in (
        ("triton_poi_fused_add_0", "triton", "triton_poi_fused_add_0"),
        ("scale", "triton", "scale_kernel"),
        ("small", "triton", "shared"),
        ("large", "triton", "shared"),
        ("cpp_fused_add_1", "cpp", "kernel"),
        ("unused", "cpp", "kernel"),
    )
)
TEXT = f"""\
wrapperir 1

{KERNELS}multi_kernel @either(x: read f32*, y: write f32*) {{
  choice @small(0, 1)
  choice @large(0, 1)
  select first
}}

program @main(%x: f32[8], %y: mutated f32[8]) {{
  kernel_call @triton_poi_fused_add_0(%x, %y) from(add)
  kernel_call @scale(%x, %y) from(mul)
  kernel_call @either(%x, %y) from(sub)
  kernel_call @cpp_fused_add_1(%x, %y) from(add_1)
  return
}}

origins {{
  place 0: "model.py" 12 "forward"
  add: aten.add.Tensor in "layers.0" at 0
  mul, sub, add_1: aten.mul.Tensor
}}
"""
FIRST = TEXT.split("\n").index("  kernel_call @scale(%x, %y) from(mul)")


def host(name: str, ts: float = 0, dur: float = 1, **others: object) -> dict[str, object]:
    event = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 2}
    return {**event, "ts": ts, "dur": dur, **others}


def device(name: str, dur: float = 1) -> dict[str, object]:
    return host(name, dur=dur, cat="kernel", pid=0, tid=7)


def explained(*events: Mapping[str, object]) -> TraceExplanation:
    parsed = parse_with_positions(TEXT)
    trace = json.dumps({"schemaVersion": 1, "traceEvents": events})
    return explain_trace(parsed.program, parsed.positions, trace)


@pytest.mark.parametrize(
    ("event", "kernels"),
    [
        ("triton_poi_fused_add_0", ["triton_poi_fused_add_0"]),
        ("triton_poi_fused_add_0_0d1d2de", ["triton_poi_fused_add_0"]),
        ("triton_poi_fused_add_0d1d2de", []),
        ("triton_poi_fused_add_0_1", []),
        ("scale_kernel", ["scale"]),
        ("scale_kernel_0d1d2d3c", ["scale"]),
        ("scale", ["scale"]),
        ("shared", ["small", "large"]),
        ("small", ["small"]),
        ("either", ["either"]),
        ("graph_0_cpp_fused_add_1", ["cpp_fused_add_1"]),
        ("graph_12_cpp_fused_add_1", ["cpp_fused_add_1"]),
        ("kernel", []),  # of C++, whose functions are not in traces
        ("aten::add", []),
        ("graph_0_", []),
        ("", []),
    ],
)
def test_an_event_has_the_name_of_kernels(event: str, kernels: list[str]) -> None:
    program = parse_with_positions(TEXT).program
    assert list(ProfiledNames(program).of(event)) == kernels


def test_kernels_have_their_time_lines_and_source() -> None:
    found = explained(
        host("scale", ts=1, dur=9),
        device("scale_kernel", dur=3),
        device("scale_kernel", dur=2.5),
        host("graph_0_cpp_fused_add_1", dur=40),
        host("aten::mul", dur=1000),
        device("at::native::vectorized", dur=1000),
        device("shared", dur=50),
    )
    assert [
        (kernel.names, kernel.events, kernel.ns, [x.number for x in lines.lines])
        for kernel, lines in found.kernels
    ] == [
        (("small", "large"), 1, 50_000, [FIRST + 2]),
        (("cpp_fused_add_1",), 1, 40_000, [FIRST + 3]),
        (("scale",), 2, 5_500, [FIRST + 1]),
    ]
    assert found.kernels[2][0].host_ns == 9_000
    assert found.absent == ("triton_poi_fused_add_0",)


def test_an_event_within_one_of_the_same_kernel_is_a_part_of_it() -> None:
    (row,) = explained(
        host("graph_0_cpp_fused_add_1", ts=2, dur=5),
        host("cpp_fused_add_1", ts=1, dur=10),
        host("cpp_fused_add_1", ts=11, dur=10),
        host("aten::mul", ts=11, dur=10),
        host("cpp_fused_add_1", ts=12, dur=3),
        host("cpp_fused_add_1", ts=12, dur=3, tid=3),
    ).kernels
    assert (row[0].events, row[0].ns) == (3, 23_000)


def test_the_text_has_times_lines_and_places() -> None:
    found = explained(device("triton_poi_fused_add_0", dur=30), device("scale", dur=10))
    text = format_trace_explanation(found)
    assert (
        text
        == f"""\
kernels of @main in the trace
2 kernels, 2 events, 40.0 µs

30.0 µs, 75%, 1 event: @triton_poi_fused_add_0
  {FIRST}: kernel_call @triton_poi_fused_add_0(%x, %y)
      from add
      reads 32 bytes, writes 32 bytes, of whole values
  model.py:12, in forward
    add (aten.add.Tensor) in layers.0

10.0 µs, 25%, 1 event: @scale
  {FIRST + 1}: kernel_call @scale(%x, %y)
      from mul
      reads 32 bytes, writes 32 bytes, of whole values
  mul (aten.mul.Tensor)

not in the trace: @cpp_fused_add_1, @either
"""
    )
    document = json.loads(format_trace_explanation_json(found))
    assert document["absent"] == ["cpp_fused_add_1", "either"]
    (first, _) = document["kernels"]
    assert (first["names"], first["events"]) == (["triton_poi_fused_add_0"], 1)
    assert (first["ns"], first["host_ns"], first["device_ns"]) == (30_000, 0, 30_000)
    assert first["lines"][0]["line"] == FIRST
    assert first["nodes"][0]["stack"][0]["file"] == "model.py"


@pytest.mark.parametrize(
    "event",
    [
        {"ph": "B"},
        {"cat": "gpu_user_annotation"},
        {"dur": None},
        {"dur": "3"},
        {"dur": float("nan")},
        {"ts": float("inf")},
        {"dur": 10**400},
        {"name": ["scale"]},
        {"cat": ["kernel"]},
    ],
)
def test_other_events_are_left_out(event: dict[str, object]) -> None:
    assert explained(host("scale") | event, *[5, None]).kernels == ()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", ["", "[", "5", "{}", '{"traceEvents": 5}', "[" * 10_000, '"traceEvents"']
)
def test_what_is_no_trace_is_refused(text: str) -> None:
    program = parse_with_positions(TEXT).program
    with pytest.raises(ValueError, match=r"it is not JSON|it has no list"):
        kernels_of_trace(program, text)


def test_a_list_of_events_is_a_trace() -> None:
    program = parse_with_positions(TEXT).program
    (kernel,) = kernels_of_trace(program, json.dumps([device("scale")]))
    assert kernel.names == ("scale",)


@pytest.mark.parametrize("name", ["graph_0_cpp_fused_add_1", "scale_kernel", "shared"])
def test_a_name_in_a_profile_is_a_subject(name: str) -> None:
    parsed = parse_with_positions(TEXT)
    found = explain(parsed.program, parsed.positions, name)
    (line,) = found.lines
    assert line.number in {FIRST + 1, FIRST + 2, FIRST + 3}


def test_a_choice_has_the_calls_of_its_multi_kernel() -> None:
    parsed = parse_with_positions(TEXT)
    (line,) = explain(parsed.program, parsed.positions, "@large").lines
    assert line.number == FIRST + 2


@st.composite
def events_of(draw: st.DrawFn, names: st.SearchStrategy[str]) -> dict[str, Any]:
    """Draw an event; two of one thread are apart, or one is within the other."""
    duration = 2 ** draw(st.integers(0, 3))
    begin = duration * draw(st.integers(0, 16 // duration))
    category = draw(st.sampled_from(["kernel", "cpu_op"]))
    return host(
        draw(names), begin, duration, cat=category, tid=draw(st.sampled_from([1, 2]))
    )


def is_part(event: dict[str, Any], others: list[dict[str, Any]]) -> bool:
    """Say whether an event is within an earlier one of the same kernel."""
    return any(
        (other["name"], other["tid"]) == (event["name"], event["tid"])
        and other["ts"] <= event["ts"]
        and other["ts"] + other["dur"] >= event["ts"] + event["dur"]
        for other in others
    )


@settings(max_examples=draws(30, 300), deadline=None)
@given(programs(), st.data())
def test_no_time_is_lost_or_counted_twice(program: Program, data: st.DataObject) -> None:
    names = [line.name for line in program.definitions]
    events = data.draw(st.lists(events_of(st.sampled_from([*names, "aten::mm"]))))
    _, positions = format_with_positions(program)
    found = explain_trace(program, positions, json.dumps({"traceEvents": events}))
    of_kernels = [x for x in events if x["name"] in names]
    kernels = {kernel.names[0]: kernel for kernel, _ in found.kernels}
    assert set(kernels) == {x["name"] for x in of_kernels}
    for name, kernel in kernels.items():
        own = [x for x in of_kernels if x["name"] == name]
        on_device = [x["dur"] for x in own if x["cat"] == "kernel"]
        assert (kernel.device_events, kernel.device_ns) == (
            len(on_device),
            1000 * sum(on_device),
        )
        on_host = [x for x in own if x["cat"] == "cpu_op"]
        on_host.sort(key=lambda x: (x["ts"], -x["dur"]))
        counted = [x["dur"] for i, x in enumerate(on_host) if not is_part(x, on_host[:i])]
        assert (kernel.host_events, kernel.host_ns) == (len(counted), 1000 * sum(counted))
    assert format_trace_explanation(found)
    assert json.loads(format_trace_explanation_json(found))["program"] == program.name
