"""Profiles of a simulated machine: each line gets the time that it took there."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.profiling.simulated import SimulatedClock, SimulatedEmitter
from wrapperir.diagnostics import DiagnosticError
from wrapperir.ir import ExternKernelLine, Program
from wrapperir.profiling import profile_program
from wrapperir.report import Profile, build_timeline, format_profile
from wrapperir.text import format_with_positions, parse_program
from wrapperir_python.emitter import PythonEmitter

HOST = """\
wrapperir 1

program @main(%x: f32[8]) {
  %a = extern_kernel aten.sin.default(%x) : f32[8]
  %b = allocate f32[8]
  extern_kernel aten.cos.out(%a, out = %b) writes(%b)
  free %a
  return %b
}
"""

GPU = """\
wrapperir 1

program @main(%x: f32[s0]@cuda:0) {
  symbol s0: int 2..9 = size(%x, 0)

  %a = extern_kernel aten.sin.default(%x) @cuda:0 : f32[s0]@cuda:0
  %b = extern_kernel aten.cos.default(%a) @cuda:0 : f32[s0]@cuda:0
  free %a
  return %b
}
"""


def profiled(text: str, emitter: SimulatedEmitter) -> Profile:
    program = parse_program(text)
    _, positions = format_with_positions(program)
    return profile_program(
        program, [None], {}, emitter, positions=positions, repeats=3, clock=emitter.clock
    )


def test_symbols_that_are_only_checked_are_left_out() -> None:
    text = HOST.replace("  return", '  assert_scalar code != 1 "wrong"\n  return').replace(
        "  free", "  symbol_definition code: int = item(%x)\n  free"
    )
    text = text.replace("f32", "i32").replace("sin", "neg").replace("cos", "neg")
    emitter = SimulatedEmitter(SimulatedClock(), lambda _: 1)
    assert profiled(text, emitter).symbols == ()
    used = text.replace("  return", "  %c = allocate i32[code]\n  free %c\n  return")
    assert [name for name, _ in profiled(used, emitter).symbols] == ["code"]


def test_lines_of_the_host_get_their_time_and_gaps() -> None:
    program = parse_program(HOST)
    times = dict(zip(program.lines, (500, 30, 700, 20), strict=True))
    emitter = SimulatedEmitter(SimulatedClock(), times.__getitem__, mark_ns=9)
    found = profiled(HOST, emitter)
    assert [line.host_ns for line in found.lines] == [500, 30, 700, 20]
    assert [line.number for line in found.lines] == [4, 5, 6, 7]
    # Before the first line the host has taken the time of the mark that precedes it.
    assert [line.gap_ns for line in found.lines] == [9, None, 30, None]
    assert found.mark_ns == 9
    assert (found.unprofiled_ns, found.profiled_ns) == (1250, 1250 + 8 * 9)
    assert found.marks == 8
    assert found.work_ns == 1200
    assert [line.read_bytes for line in found.lines] == [32, 0, 32 + 32, 0]
    assert [line.written_bytes for line in found.lines] == [32, 0, 32, 0]
    sine = found.lines[0]
    assert sine.bandwidth == pytest.approx(64 / 500e-9)
    assert [(kernel.name, kernel.ns) for kernel in found.kernels] == [
        ("aten.cos.out", 700),
        ("aten.sin.default", 500),
    ]


def test_no_more_is_taken_off_than_a_mark_is_known_to_take() -> None:
    program = parse_program(HOST)
    times = dict(zip(program.lines, (100, 30, 700, 0), strict=True))
    emitter = SimulatedEmitter(
        SimulatedClock(), times.__getitem__, mark_ns=60, start_ns=240
    )
    found = profiled(HOST, emitter)
    assert [line.host_ns for line in found.lines] == [100, 30, 700, 0]
    assert found.mark_ns == 60
    assert {line.resolution_ns for line in found.lines} == {240}
    sine, _, cosine, _ = found.lines
    assert sine.bandwidth is None
    assert cosine.bandwidth == pytest.approx(96 / 700e-9)
    assert "<240 ns" in format_profile(found)


POOLS = """\
wrapperir 1

program @main(%x: f32[16]) {
  %pool = allocate_pool pool[128]
  %a = place f32[16] in %pool at 0
  extern_kernel aten.sin.out(%x, out = %a) writes(%a)
  %b = place f32[16] in %pool at 64
  extern_kernel aten.cos.out(%a, out = %b) writes(%b)
  free %a
  free %b
  free %pool
  return
}
"""


def test_the_peak_is_that_of_the_memory_report() -> None:
    program = parse_program(POOLS)
    _, positions = format_with_positions(program)
    (peak,) = profiled(POOLS, SimulatedEmitter(SimulatedClock(), lambda _: 1)).peaks
    (memory,) = build_timeline(program, positions, {}, "").memories
    assert (peak.bytes, peak.memory) == (memory.peak, memory.memory) == (128, "cpu")
    assert peak.number == 7  # where both are alive
    assert peak.path == ("lines", memory.peak_line)


def test_a_device_that_waits_for_the_host_has_gaps() -> None:
    clock = SimulatedClock(event_ns=5)
    emitter = SimulatedEmitter(
        clock, lambda line: 10_000, device_ns=lambda line: 3_000, mark_ns=100
    )
    found = profiled(GPU, emitter)
    sine, cosine, free = found.lines
    assert (sine.device_ns, cosine.device_ns, free.device_ns) == (3_000, 3_000, None)
    # The host takes 10000 for the line; the device 3000, and 5 for an event.
    assert cosine.gap_ns == 10_000 - 3_000 - 5
    assert found.gaps_ns > found.work_ns
    assert found.symbols == (("s0", 7),)
    assert cosine.read_bytes == 7 * 4
    assert {each.lane for each in found.slices} == {"host", "cuda:0 stream 0"}


def test_a_device_that_is_busy_has_none() -> None:
    emitter = SimulatedEmitter(
        SimulatedClock(), lambda line: 100, device_ns=lambda line: 90_000
    )
    _, cosine, _ = profiled(GPU, emitter).lines
    assert (cosine.device_ns, cosine.gap_ns) == (90_000, 0)


@given(
    times=st.lists(st.integers(0, 50_000), min_size=2, max_size=2),
    host=st.integers(0, 50_000),
    mark=st.integers(0, 5_000),
    event=st.integers(0, 2_000),
)
def test_device_times_are_known_whatever_the_host_takes(
    times: Sequence[int], host: int, mark: int, event: int
) -> None:
    named = dict(zip(("aten.sin.default", "aten.cos.default"), times, strict=True))
    emitter = SimulatedEmitter(
        SimulatedClock(event_ns=event),
        lambda line: host,
        device_ns=lambda line: (
            named[line.operator] if isinstance(line, ExternKernelLine) else 0
        ),
        mark_ns=mark,
    )
    found = profiled(GPU, emitter)
    assert [line.device_ns for line in found.lines[:2]] == list(times)
    assert [line.host_ns for line in found.lines] == [host] * 3
    # A call ends when the host and the device are done.
    assert found.unprofiled_ns == max(3 * host, host + sum(times), 2 * host + times[1])


@given(times=st.lists(st.integers(0, 1_000_000), min_size=4, max_size=4))
def test_the_parts_of_a_call_are_its_time(times: Sequence[int]) -> None:
    program = parse_program(HOST)
    took = dict(zip(program.lines, times, strict=True))
    emitter = SimulatedEmitter(SimulatedClock(), took.__getitem__, mark_ns=3)
    found = profiled(HOST, emitter)
    lines = sum(line.host_ns for line in found.lines)
    parts = found.entry_ns + found.return_ns + lines
    # The mark before the first interval is in the entry.
    assert parts + (found.marks - 1) * found.mark_ns == found.profiled_ns
    assert found.overhead is None or found.overhead >= 0
    host = [each for each in found.slices if each.lane == "host"]
    assert sum(each.ns for each in host) == found.profiled_ns


def test_inputs_and_random_numbers_stay_as_they_are() -> None:
    program = parse_program("""\
wrapperir 1

program @main(%x: mutated f32[2]) {
  constant %w: mutated f32[2] = "w"

  extern_kernel aten.add_.Tensor(%x, 1) writes(%x)
  extern_kernel aten.uniform_.default(%w) writes(%w)
  return
}
""")
    x, w = torch.zeros(2), torch.zeros(2)
    state = torch.get_rng_state()
    found = profile_program(program, [x], {"w": w}, PythonEmitter(), repeats=2)
    assert not x.any()
    assert not w.any()
    assert torch.equal(torch.get_rng_state(), state)
    assert [line.count for line in found.lines] == [1, 1]
    assert all(line.host_ns > 0 for line in found.lines)


def test_an_error_of_emitted_code_is_a_diagnostic() -> None:
    program = parse_program("""\
wrapperir 1

program @main(%x: f32[2]) {
  assert_scalar 0 "no"
  return %x
}
""")
    with pytest.raises(DiagnosticError, match="WIR906"):
        profile_program(program, [torch.zeros(2)], {}, PythonEmitter(), repeats=1)


def regions(program: Program) -> int:
    return sum(type(line).__name__ == "GraphRegionLine" for line in program.lines)


def test_regions_run_as_they_are_without_marks_and_line_by_line_with_them() -> None:
    text = """\
wrapperir 1

program @main(%x: f32[8]@cuda:0) {
  %y = graph_region @region (%x) : f32[8]@cuda:0 {
    body (%p: f32[8]@cuda:0) {
      %buf = extern_kernel aten.relu.default(%p) @cuda:0 : f32[8]@cuda:0
      return %buf
    }
  }
  return %y
}
"""
    emitter = SimulatedEmitter(SimulatedClock(), lambda line: 10, device_ns=lambda line: 40)
    program = parse_program(text)
    found = profile_program(program, [None], {}, emitter, clock=emitter.clock)
    assert found.opened_regions
    assert [regions(each) for each in emitter.emitted] == [1, 0]
    assert [line.device_ns for line in found.lines if line.operator] == [40]
