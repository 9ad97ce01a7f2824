"""Profiles as text, JSON and a trace."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from tests.report.test_perfetto import check_format
from wrapperir.report import (
    LineProfile,
    MemoryPeak,
    Profile,
    Slice,
    format_profile,
    format_profile_json,
    format_profile_trace,
)
from wrapperir.report.profile_text import format_ns


def line(index: int, **changes: Any) -> LineProfile:
    made = LineProfile(
        path=("lines", index),
        number=index + 4,
        text=f"kernel_call @scale(%a, %b{index})",
        kernel="scale",
        operator=None,
        device="cpu",
        count=1,
        host_ns=2_000,
        device_ns=None,
        gap_ns=500,
        read_bytes=1 << 20,
        written_bytes=0,
        touched=True,
        held_bytes=4096,
        nodes=("mul", "add"),
        source="model.py:12",
    )
    return evolve(made, **changes)


def profile(lines: Sequence[LineProfile], **changes: Any) -> Profile:
    made = Profile(
        program="main",
        emitter="python",
        repeats=10,
        symbols=(("s0", 7),),
        unprofiled_ns=10_000,
        profiled_ns=12_500,
        mark_ns=100,
        marks=9,
        opened_regions=False,
        entry_ns=300,
        return_ns=200,
        peak_bytes=4096,
        peaks=(MemoryPeak(memory="cpu", bytes=4096, path=("lines", 0), number=4),),
        allocator_peak_bytes=None,
        lines=tuple(lines),
        slices=(
            Slice(lane="host", line=None, begin_ns=0, ns=300),
            *(
                Slice(lane="host", line=n, begin_ns=300 + 2_000 * n, ns=2_000)
                for n in range(len(lines))
            ),
        ),
    )
    return evolve(made, **changes)


def test_the_text_says_where_the_time_goes() -> None:
    free = line(
        2,
        text="free %a",
        kernel=None,
        device=None,
        host_ns=90,
        gap_ns=None,
        read_bytes=0,
        nodes=(),
        source=None,
    )
    gpu = line(1, device="cuda:0", device_ns=7_000, operator="aten.mm", kernel=None)
    shown = format_profile(profile([line(0, count=3), gpu, free], opened_regions=True))
    assert (
        shown
        == """\
profile of @main with python, medians of 10 calls
with s0 = 7

  a call       10.0 µs
  with marks   12.5 µs (+25%), for 9 marks
               graph regions are replayed in a call, and opened with marks
  work         9.00 µs, of 2 lines with kernels and operators
  gaps         1.00 µs, in which a device waits for these lines
  host         300 ns and 200 ns before the first line and after the last one
  memory       4 KiB at most, of the program's own, at line 4

the slowest lines:
     time  share  gap before  moved  GB/s  line
  7.00 µs    70%      500 ns  1 MiB   150  5: kernel_call @scale(%a, %b1)
      from model.py:12 (mul, add)
  2.00 µs    20%      500 ns  1 MiB   524  4: kernel_call @scale(%a, %b0) (3 times)
      from model.py:12 (mul, add)

kernels and operators:
     time  share  calls  moved  GB/s  name
  7.00 µs    70%      1  1 MiB   150  aten.mm
  2.00 µs    20%      3  1 MiB   524  @scale
"""
    )


def test_lines_of_equal_layers_are_counted_together() -> None:
    layers = [
        line(n, modules=(f"layers.{n}.fc",), equal_to=("lines", 0), text=f"free %a{n}")
        for n in range(3)
    ]
    shown = format_profile(profile([*layers, line(3)]))
    row = "6.00 µs    60%     1.50 µs  3 MiB   524  4: free %a0 (3 times, in layers.0-2.fc)"
    assert f"  {row}\n      from model.py:12 (mul, add); also lines 5, 6\n" in shown
    assert "more with kernels" not in shown


def test_a_time_that_marks_hide_has_a_bound_and_no_bandwidth() -> None:
    short = line(0, host_ns=40, resolution_ns=240)
    assert short.bandwidth is None
    shown = format_profile(profile([short, line(1, kernel="other", resolution_ns=240)]))
    row = "<240 ns     1%      500 ns  1 MiB        4: kernel_call @scale(%a, %b0)"
    assert f"  {row}\n" in shown
    assert "  <240 ns     1%      1  1 MiB        @scale\n" in shown
    found = json.loads(format_profile_json(profile([short])))
    assert [each["resolution_ns"] for each in found["lines"]] == [240]


def test_each_memory_has_its_peak() -> None:
    peaks = tuple(
        MemoryPeak(memory=name, bytes=size, path=("lines", 0), number=number)
        for name, size, number in (("cuda:0", 1 << 20, 7), ("cpu", 512, None))
    )
    shown = format_profile(profile([line(0)], peaks=peaks, allocator_peak_bytes=2 << 20))
    row = "cuda:0 1 MiB at line 7; cpu 512 bytes; 2 MiB of the GPU's allocator"
    assert f"  memory       {row}\n" in shown


def test_names_of_kernels_are_whole() -> None:
    name = f"kernel_call @{'fused_' * 30}(%a, %b)"
    assert f"{name[:-8]}(..." in format_profile(profile([line(0, text=name)]))


def test_the_text_of_many_lines_counts_the_rest() -> None:
    shown = format_profile(profile([line(n) for n in range(40)]))
    assert "  and 25 lines more with kernels and operators\n" in shown


def test_a_program_without_lines_has_a_profile() -> None:
    nothing = profile([], unprofiled_ns=0)
    assert "the slowest lines" not in format_profile(nothing)
    assert nothing.overhead is None
    check_format(format_profile_trace(nothing))


def test_bytes_of_whole_values_are_marked() -> None:
    shown = format_profile(profile([line(0), line(1, kernel=None, touched=False)]))
    assert "  1 MiB  " in shown
    assert "  1 MiB*  " in shown
    assert shown.endswith(
        "\n\n* bytes of whole values: how much of them is touched is not known\n"
    )
    assert "*" not in format_profile(profile([line(0), line(1)]))


def test_json_has_each_line_with_its_kernel() -> None:
    unknown = line(1, read_bytes=None)
    found = json.loads(format_profile_json(profile([line(0), unknown])))
    assert found["symbols"] == {"s0": 7}
    assert [each["line"] for each in found["lines"]] == [4, 5]
    assert found["lines"][0]["bandwidth"] == pytest.approx((1 << 20) / 2e-6)
    assert found["lines"][1]["bandwidth"] is None
    assert found["kernels"] == [
        {
            "name": "@scale",
            "calls": 2,
            "ns": 4_000,
            "resolution_ns": 0,
            "moved_bytes": None,
            "touched": True,
            "bandwidth": None,
            "lines": [0, 1],
        }
    ]
    assert found["slices"][1] == {"lane": "host", "line": 0, "begin_ns": 300, "ns": 2_000}


def test_a_trace_has_a_row_for_each_lane() -> None:
    lines = [line(0, text="bad \u202e text"), line(1, held_bytes=64)]
    made = profile(lines)
    work = Slice(lane="cuda:0 stream 1", line=1, begin_ns=2_500, ns=1_000)
    events = check_format(format_profile_trace(evolve(made, slices=(*made.slices, work))))
    rows = [e["args"]["name"] for e in events if e["name"] == "thread_name"]
    assert rows == ["host", "cuda:0 stream 1"]
    drawn = [e for e in events if e["ph"] == "X"]
    assert [(e["ts"], e["dur"], e["cat"]) for e in drawn] == [
        (0, 0.3, "call"),
        (0.3, 2, "work"),
        (2.3, 2, "work"),
        (2.5, 1, "work"),
    ]
    assert drawn[1]["args"]["source"] == "model.py:12"
    counters = [(e["ts"], e["args"]["bytes"]) for e in events if e["ph"] == "C"]
    assert counters == [(0.3, 4096), (2.3, 64)]


@given(st.integers(0, 10**13))
def test_times_have_three_digits_and_their_unit(ns: int) -> None:
    value, unit = format_ns(ns).split()
    factor = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}[unit]
    assert float(value) * factor == pytest.approx(ns, rel=5e-3)
    assert float(value) < 1000.5 or unit == "s"
