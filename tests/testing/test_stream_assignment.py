"""Streams of programs whose names share memory."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from wrapperir.ir import Program
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


@st.composite
def with_streams(draw: st.DrawFn) -> Program:
    return assign_streams(draw, SHARED)


@settings(max_examples=draws(30, fuzz=60))
@given(with_streams())
def test_parameters_of_a_region_may_share_memory(program: Program) -> None:
    assert verify(program) == ()
