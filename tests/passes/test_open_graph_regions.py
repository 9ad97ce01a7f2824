"""Graph regions become subgraph calls whose work is on stream 0."""

import pytest
from hypothesis import given, settings

from tests.draws import draws
from tests.emit.test_pipeline import Recorder
from wrapperir.emit import Support
from wrapperir.emit.pipeline import emit_program
from wrapperir.ir import LINES, GraphRegionLine, Program
from wrapperir.ir.blocks import walk_lines
from wrapperir.passes import open_graph_regions
from wrapperir.testing.pass_check import behaviour, pass_faults
from wrapperir.testing.programs import programs
from wrapperir.text import format_program, parse_program
from wrapperir.verify import verify


def has_regions(program: Program) -> bool:
    return any(isinstance(line, GraphRegionLine) for line in walk_lines(program.lines))


def read(lines: str) -> Program:
    program = parse_program(f"wrapperir 1\n\nprogram @main(%x: f32[8]) {{\n{lines}\n}}\n")
    assert verify(program) == ()
    return program


FORKED = """
  %y = graph_region @region (%x) stream(1) : f32[8] {
    body (%p: f32[8]) {
      %e = record_event stream(1)
      wait_event %e stream(2)
      %a = extern_kernel aten.relu.default(%p) stream(2) : f32[8]
      %f = record_event stream(2)
      free %e
      wait_event %f stream(1)
      %b = extern_kernel aten.neg.default(%a) stream(1) : f32[8]
      free %a
      return %b
    }
  }
  return %y
"""


def test_work_moves_to_stream_0_between_events() -> None:
    opened = open_graph_regions(read(FORKED))
    assert verify(opened) == ()
    assert (
        format_program(opened)
        == """wrapperir 1

program @main(%x: f32[8]) {
  %event0 = record_event stream(1)
  wait_event %event0
  %y = subgraph_call @region (%x) : f32[8] {
    body (%p: f32[8]) {
      %a = extern_kernel aten.relu.default(%p) : f32[8]
      %b = extern_kernel aten.neg.default(%a) : f32[8]
      free %a
      return %b
    }
  }
  %event1 = record_event
  wait_event %event1 stream(1)
  return %y
}
"""
    )


def test_regions_in_blocks_are_opened() -> None:
    program = read("""
  %y = conditional 1 < 2 (%x) : f32[8] {
    true (%p: f32[8]) {
      %a = graph_region @inner (%p) : f32[8] {
        body (%q: f32[8]) {
          %b = extern_kernel aten.relu.default(%q) : f32[8]
          return %b
        }
      }
      return %a
    }
    false (%r: f32[8]) {
      %c = extern_kernel aten.neg.default(%r) : f32[8]
      return %c
    }
  }
  return %y
""")
    opened = open_graph_regions(program)
    assert verify(opened) == ()
    assert not has_regions(opened)
    assert "subgraph_call @inner (%p)" in format_program(opened)


def test_a_program_without_regions_is_the_same_object() -> None:
    program = read("  return %x")
    assert open_graph_regions(program) is program


@pytest.mark.slow
@settings(max_examples=draws(40, fuzz=200))
@given(program=programs(languages=(), max_steps=24).filter(has_regions))
def test_opened_programs_do_the_same(program: Program) -> None:
    opened = open_graph_regions(program)
    assert not has_regions(opened)
    assert verify(opened) == ()
    assert pass_faults(behaviour(program), behaviour(opened)) == ()


def test_an_emitter_without_regions_is_given_an_opened_program() -> None:
    program = read(FORKED)
    recorder = Recorder(Support(lines=frozenset(LINES) - {GraphRegionLine}))
    emit_program(program, recorder)
    assert recorder.programs == [open_graph_regions(program)]
    keeping = Recorder(Support())
    emit_program(program, keeping)
    assert keeping.programs == [program]
