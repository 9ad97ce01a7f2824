"""No peak is raised where it is hard to see what lines with blocks and devices take."""

import pytest

from wrapperir import parse_program
from wrapperir.analysis import analyze_memory
from wrapperir.passes import PASSES
from wrapperir.testing import memory_conflicts, peak_bytes
from wrapperir.verify import verify

FREED_BEFORE_ITS_BLOCK_RETURNS = """\
program @main(%x: f32[s0, 64]) {
  symbol s0: int 1.. = size(%x, 0)
  %r = subgraph_call @f (%x) : f32[s0, 64] {
    body (%p: f32[s0, 64]) {
      %t = extern_kernel aten.ones.default([512]) : f32[512]
      free %t
      %q = extern_kernel aten.neg.default(%p) : f32[s0, 64]
      return %q
    }
  }
  free %r
  %a = allocate f32[448]
  free %a
  %z = extern_kernel aten.neg.default(%x) : f32[s0, 64]
  free %z
  %b = allocate f32[448]
  free %b
  return
}
"""
PART_OF_A_BUFFER = """\
program @main() {
  %large = extern_kernel aten.ones.default([2000]) : f32[2000]
  free %large
  %r = subgraph_call @f () : f32[16] {
    body () {
      %q = extern_kernel aten.ones.default([1900]) : f32[1900]
      %v = reinterpret %q as f32[16]
      free %q
      return %v
    }
  }
  %a = allocate f32[448]
  free %a
  %s = extern_kernel aten.ones.default([64]) : f32[64]
  free %s
  %b = allocate f32[448]
  free %b
  free %r
  return
}
"""
ONE_BUFFER_TWICE = """\
program @main() {
  %r, %also = subgraph_call @f () : f32[1000], f32[1000] {
    body () {
      %q = extern_kernel aten.ones.default([1000]) : f32[1000]
      return %q, %q
    }
  }
  free %r
  free %also
  %a = allocate f32[400]
  free %a
  %z = extern_kernel aten.ones.default([1000]) : f32[1000]
  free %z
  %b = allocate f32[400]
  free %b
  return
}
"""
WHAT_LIES_IN_A_POOL = """\
program @main(%x: bool[]) {
  %large = extern_kernel aten.ones.default([2000]) : f32[2000]
  free %large
  %r = conditional %x () : f32[16] {
    true () {
      %pool = allocate_pool pool[7600]
      %q = place f32[16] in %pool at 0
      free %pool
      extern_kernel aten.ones.out([16], out = %q) writes(%q)
      return %q
    }
    false () {
      %t = extern_kernel aten.ones.default([16]) : f32[16]
      return %t
    }
  }
  %a = allocate f32[448]
  free %a
  %s = extern_kernel aten.ones.default([64]) : f32[64]
  free %s
  %b = allocate f32[448]
  free %b
  free %r
  return
}
"""
A_DEVICE_BY_TWO_NAMES = """\
program @main() {
  %a = allocate f32[256]@cuda:0
  free %a
  %b = allocate f32[64]@cuda:0
  %k = allocate f32[128]@cuda
  free %k
  free %b
  %c = allocate f32[64]@cuda:0
  free %c
  return
}
"""


@pytest.mark.parametrize("name", ["plan_memory", "reuse_buffers"])
@pytest.mark.parametrize(
    "text",
    [
        FREED_BEFORE_ITS_BLOCK_RETURNS,
        PART_OF_A_BUFFER,
        ONE_BUFFER_TWICE,
        WHAT_LIES_IN_A_POOL,
        A_DEVICE_BY_TWO_NAMES,
    ],
)
def test_no_pass_raises_the_peak(text: str, name: str) -> None:
    program = parse_program(f"wrapperir 1\n\n{text}")
    assert verify(program) == ()
    changed = PASSES[name](program)
    assert verify(changed) == ()
    for rows in (1, 100, 5000):
        symbols = {"s0": rows}
        assert memory_conflicts(changed, symbols) == ()
        before, after = analyze_memory(program, symbols), analyze_memory(changed, symbols)
        assert after.peak <= before.peak
        assert peak_bytes(changed, symbols) <= peak_bytes(program, symbols)
