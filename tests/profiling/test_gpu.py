"""Profiles of programs on a GPU: work that takes known times, gaps, and memory."""

from collections.abc import Iterator
from typing import Any, cast

import pytest
import torch

from wrapperir.emit import Emitter
from wrapperir.profiling import profile_program
from wrapperir.report import Profile
from wrapperir.text import parse_program
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_python.emitter import PythonEmitter

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.parametrize(
        "emitter", [PythonEmitter(), CppEmitter()], ids=lambda emitter: emitter.name
    ),
]

LARGE = 1 << 26
PROGRAM = f"""\
wrapperir 1

program @main(%x: f32[{LARGE}]@cuda:0, %y: f32[8]@cuda:0) {{
  %a = extern_kernel aten.neg.default(%x) @cuda:0 : f32[{LARGE}]@cuda:0
  free %a
  %b = extern_kernel aten.neg.default(%y) @cuda:0 : f32[8]@cuda:0
  %e = record_event @cuda:0
  wait_event %e @cuda:0 stream(1)
  %c = extern_kernel aten.neg.default(%b) @cuda:0 stream(1) : f32[8]@cuda:0
  %e2 = record_event @cuda:0 stream(1)
  wait_event %e2 @cuda:0
  free %b
  return %c
}}
"""


@pytest.fixture(autouse=True)
def without_cached_memory() -> Iterator[None]:
    yield
    torch.cuda.empty_cache()


def profiled(text: str, emitter: Emitter, *inputs: torch.Tensor) -> Profile:
    return profile_program(parse_program(text), inputs, {}, emitter, repeats=5)


def event_ns(x: torch.Tensor) -> float:
    """Return the time of a negation by events around many of them."""
    begin, end = (cast(Any, torch.cuda.Event)(enable_timing=True) for _ in range(2))
    for _ in range(3):
        x.neg()
    begin.record()
    for _ in range(20):
        x.neg()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 20 * 1e6


def test_large_and_small_work_take_what_events_around_them_say(emitter: Emitter) -> None:
    x, y = torch.randn(LARGE, device="cuda"), torch.randn(8, device="cuda")
    found = profiled(PROGRAM, emitter, x, y)
    large, small, other = (line for line in found.lines if line.operator)
    assert large.device_ns == pytest.approx(event_ns(x), rel=0.1)
    assert small.device_ns is not None
    assert other.device_ns is not None
    # Less than what the host takes to launch it: the time is that of the device.
    assert small.device_ns < 8_000
    assert other.device_ns < 12_000  # with an order between streams
    assert large.bandwidth is not None
    assert large.bandwidth > 1e12
    assert found.allocator_peak_bytes is not None
    assert found.allocator_peak_bytes >= 4 * LARGE
    lanes = {each.lane for each in found.slices}
    assert lanes == {"host", "cuda:0 stream 0", "cuda:0 stream 1"}


def test_a_device_that_waits_for_the_host_has_gaps(emitter: Emitter) -> None:
    lines = "".join(
        f"  %b{n + 1} = extern_kernel aten.neg.default(%b{n}) @cuda:0 : f32[8]@cuda:0\n"
        f"  free %b{n}\n"
        for n in range(50)
    )
    text = (
        "wrapperir 1\n\nprogram @main(%b0: donated f32[8]@cuda:0) {\n"
        f"{lines}  return %b50\n}}\n"
    )
    found = profiled(text, emitter, torch.randn(8, device="cuda"))
    assert found.work_ns < 50 * 5_000
    assert found.gaps_ns > found.work_ns / 4
    assert found.unprofiled_ns < found.profiled_ns


def test_regions_are_replayed_without_marks(emitter: Emitter) -> None:
    text = """\
wrapperir 1

program @main(%x: f32[8]@cuda:0) {
  %y = graph_region @region (%x) @cuda:0 : f32[8]@cuda:0 {
    body (%p: f32[8]@cuda:0) {
      %a = extern_kernel aten.neg.default(%p) @cuda:0 : f32[8]@cuda:0
      %b = extern_kernel aten.cos.default(%a) @cuda:0 : f32[8]@cuda:0
      free %a
      return %b
    }
  }
  return %y
}
"""
    found = profiled(text, emitter, torch.randn(8, device="cuda"))
    assert found.opened_regions
    assert [line.operator for line in found.lines if line.device_ns and line.operator] == [
        "aten.neg.default",
        "aten.cos.default",
    ]
