"""Streams of programs whose names share memory."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from wrapperir.testing.stream_assignment import assign_streams
from wrapperir.text import parse_program
from wrapperir.verify import verify

SHARED = parse_program("""
wrapperir 1

program @main(%x: mutated f32[4]) {
  %y = graph_region @twice (%x, %x) : f32[4] {
    body (%a: f32[4], %b: f32[4]) {
      extern_kernel aten.neg_.default(%a) writes(%a)
      %c = extern_kernel aten.neg.default(%b) : f32[4]
      return %c
    }
  }
  return %y
}
""")


@settings(max_examples=draws(30, fuzz=60))
@given(st.data())
def test_parameters_of_a_region_may_share_memory(data: st.DataObject) -> None:
    assert verify(assign_streams(data.draw, SHARED)) == ()
