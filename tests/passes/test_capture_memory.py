"""Capture of graph regions: memory, what is allocated, viewed and returned."""

import math

from tests.passes.captured_regions import body_of, captured, cuda, mm, regions
from wrapperir.emit.graph_report import format_capture
from wrapperir.ir import BufferRef
from wrapperir.passes import capture_graphs, capture_regions
from wrapperir.passes.replay_cost import count_calls
from wrapperir.text import format_program, parse_program
from wrapperir.verify import verify


def test_a_buffer_that_outlives_a_region_is_allocated_before_it() -> None:
    program = cuda(
        f"""\
  %a = allocate f32[8, 8]@cuda
{mm("%x", "%a")}
  free %x
  %b = allocate f32[8, 8]@cuda
{mm("%a", "%b")}
  free %a
  %v = reinterpret %b as f32[64]@cuda
  free %b""",
        outputs="%v",
    )
    found = capture_graphs(program)
    assert verify(found) == ()
    assert (
        body_of(found)
        == """\
  %b = allocate f32[8, 8]@cuda
  graph_region @graph0 (%x, %b) @cuda {
    body (%x_0: f32[8, 8]@cuda, %b_0: f32[8, 8]@cuda) {
      %a = allocate f32[8, 8]@cuda
      extern_kernel aten.mm.out(%x_0, %x_0, out = %a) writes(%a) @cuda
      extern_kernel aten.mm.out(%a, %a, out = %b_0) writes(%b_0) @cuda
      free %a
      return
    }
  }
  free %x
  %v = reinterpret %b as f32[64]@cuda
  free %b
  return %v
"""
    )


def test_reuse_across_the_border_is_a_view_in_the_region() -> None:
    program = cuda(
        f"""\
  %a = allocate f32[8, 8]@cuda
{mm("%x", "%a")}
  %r = reuse %a as f32[8, 8]@cuda
{mm("%x", "%r")}
  %s = reuse %r as f32[64]@cuda
  free %x""",
        outputs="%s",
    )
    found = capture_graphs(program)
    assert verify(found) == ()
    assert (
        body_of(found)
        == """\
  %a = allocate f32[8, 8]@cuda
  graph_region @graph0 (%x, %a) @cuda {
    body (%x_0: f32[8, 8]@cuda, %a_0: f32[8, 8]@cuda) {
      extern_kernel aten.mm.out(%x_0, %x_0, out = %a_0) writes(%a_0) @cuda
      %r_0 = reinterpret %a_0 as f32[8, 8]@cuda
      extern_kernel aten.mm.out(%x_0, %x_0, out = %r_0) writes(%r_0) @cuda
      free %r_0
      return
    }
  }
  %r = reuse %a as f32[8, 8]@cuda
  %s = reuse %r as f32[64]@cuda
  free %x
  return %s
"""
    )


def test_what_operators_return_are_results_of_the_region() -> None:
    program = cuda(
        """\
  %t = extern_kernel aten.max.dim(%x, 0) @cuda : (f32[8]@cuda, i64[8]@cuda)
  %m = multi_output %t[0] : f32[8]@cuda
  %i = multi_output %t[1] : i64[8]@cuda
  free %t
  %n = extern_kernel aten.neg.default(%m) @cuda : f32[8]@cuda
  %v = reinterpret %n as f32[4]@cuda
  free %n
  %w = reinterpret %v as f32[2]@cuda
  %y = extern_kernel aten.abs.default(%w) @cuda : f32[2]@cuda
  free %w
  free %y
  free %m
  free %x""",
        outputs="%v, %i",
    )
    found = capture_graphs(program)
    assert verify(found) == ()
    assert (
        body_of(found)
        == """\
  %i, %n = graph_region @graph0 (%x) @cuda : i64[8]@cuda, f32[8]@cuda {
    body (%x_0: f32[8, 8]@cuda) {
      %t = extern_kernel aten.max.dim(%x_0, 0) @cuda : (f32[8]@cuda, i64[8]@cuda)
      %m = multi_output %t[0] : f32[8]@cuda
      %i_0 = multi_output %t[1] : i64[8]@cuda
      free %t
      %n_0 = extern_kernel aten.neg.default(%m) @cuda : f32[8]@cuda
      %v_0 = reinterpret %n_0 as f32[4]@cuda
      %w_0 = reinterpret %v_0 as f32[2]@cuda
      %y = extern_kernel aten.abs.default(%w_0) @cuda : f32[2]@cuda
      free %w_0
      free %y
      free %m
      free %v_0
      return %i_0, %n_0
    }
  }
  %v = reinterpret %n as f32[4]@cuda
  free %n
  free %x
  return %v, %i
"""
    )


def test_frees_at_the_end_of_a_program_are_in_the_region() -> None:
    program = cuda(
        f"""\
  %a = allocate f32[8, 8]@cuda
{mm("%x", "%a")}
  %b = extern_kernel aten.neg.default(%a) @cuda : f32[8, 8]@cuda
{mm("%b", "%x")}
  extern_kernel aten.copy_.default(%c, %x) writes(%c)
  free %a
  free %b""",
        outputs="%x",
        entry="%x: mutated f32[8, 8]@cuda, %c: mutated f32[8, 8]",
    )
    found = capture_graphs(program)
    assert verify(found) == ()
    (region,) = regions(found)
    assert region.operands == (BufferRef("x"),)
    assert format_program(found).count("free") == 2
    assert len(found.lines) == 2


def test_a_result_that_is_dear_to_copy_stays_outside() -> None:
    program = cuda(
        """\
  %a = extern_kernel aten.neg.default(%x) @cuda : f32[8, 8]@cuda
  %b = extern_kernel aten.neg.default(%a) @cuda : f32[8, 8]@cuda
  %y = extern_kernel aten.repeat.default(%b, [4096, 256]) @cuda : f32[32768, 2048]@cuda
  %c = extern_kernel aten.neg.default(%b) @cuda : f32[8, 8]@cuda
  %d = extern_kernel aten.neg.default(%c) @cuda : f32[8, 8]@cuda
  free %a
  free %b
  free %c
  free %x""",
        outputs="%y, %d",
    )
    found = capture_regions(program)
    assert verify(found.program) == ()
    assert [count_calls(line) for line in regions(found.program)] == [2, 2]
    ((_, why),) = found.report.outside.items()
    assert why.reason.value == "no gain"
    assert "would take longer" in why.detail


def test_views_that_an_operator_may_return_do_not_leave_a_region() -> None:
    inner = f"""\
{mm("%x", "%x")}
  %v = extern_kernel aten.reshape.default(%x, [64]) aliases(%x) @cuda : f32[64]@cuda
  extern_kernel aten.neg_.default(%v) writes(%v) @cuda
"""
    entry = "%x: mutated f32[8, 8]@cuda"
    program = cuda(f"{inner}  free %v", outputs="%x", entry=entry)
    found = capture_graphs(program)
    assert verify(found) == ()
    assert [count_calls(line) for line in regions(found)] == [3]
    program = cuda(f"{inner}  free %x\n", outputs="%v", entry=entry)
    captured = capture_regions(program)
    assert captured.program == program
    assert "cannot return it" in format_capture(captured.report)


def test_numbers_and_host_tensors_beside_results_stay_in_the_region() -> None:
    program = cuda(
        """\
  %t = extern_kernel acme.attention.default(%x) @cuda : (f32[8, 8]@cuda, i64[], i64, opaque)
  %o = multi_output %t[0] : f32[8, 8]@cuda
  %seed = multi_output %t[1] : i64[]
  free %t
  free %seed
  %y = extern_kernel aten.neg.default(%o) @cuda : f32[8, 8]@cuda
  free %o
  free %x""",
        outputs="%y",
    )
    found = capture_graphs(program)
    assert verify(found) == ()
    assert [count_calls(line) for line in regions(found)] == [2]
    text = (
        format_program(program)
        .replace("free %seed\n", "")
        .replace("return %y", "return %y, %seed")
    )
    assert regions(capture_graphs(parse_program(text))) == []


WORKSPACES = """\
wrapperir 1

kernel_definition @count opaque(x: read f32*, ws: read_write i32*) {
  entry = count
  source {
    | count
  }
}

program @main(%x: f32[8]@cuda) {
  %kept = allocate i32[4]@cuda workspace(zero_per_program)
  kernel_call @count(%x, %kept) @cuda
  %zeroed = allocate i32[4]@cuda workspace(zero_on_call)
  kernel_call @count(%x, %zeroed) @cuda
  free %zeroed
  return %x
}
"""


def test_workspaces_of_the_program_are_allocated_outside() -> None:
    program = parse_program(WORKSPACES)
    assert verify(program) == ()
    found = capture_regions(program, least_gain=-math.inf).program
    assert verify(found) == ()
    (region,) = regions(found)
    assert region.operands == (BufferRef("x"), BufferRef("kept"))
    assert found.lines[0] == program.lines[0]
    assert "workspace(zero_on_call)" in format_program(found).partition("graph_region")[2]


REUSED = """wrapperir 1

program @main(%x: f32[8, 8]@cuda, %m: donated f32[64]@cuda) {
  assert_size_stride %m (64) (1) "input"
  %a = extern_kernel aten.sin.default(%x) @cuda : f32[8, 8]@cuda
  %b = extern_kernel aten.cos.default(%a) @cuda : f32[8, 8]@cuda
  free %a
  %r = reuse %m as f32[8, 8]@cuda
  extern_kernel aten.uniform_.default(%r) writes(%r) @cuda
  %c = extern_kernel aten.exp.default(%b) @cuda : f32[8, 8]@cuda
  free %b
  free %x
  return %c, %r
}
"""


def test_an_assert_of_memory_that_a_moved_line_uses_moves_too() -> None:
    program = parse_program(REUSED)
    assert verify(program) == ()
    found = captured(program)
    (region,) = regions(found.program)
    assert count_calls(region) == 3
    assert verify(found.program) == ()


DONATED = """wrapperir 1

program @main(%x: donated f32[64, 64]@cuda, %w: f32[64, 64]@cuda) {
  %a = allocate f32[64, 64]@cuda
  extern_kernel aten.mm.out(%x, %w, out = %a) writes(%a) @cuda
  %b = reuse %x as f32[64, 64]@cuda
  extern_kernel aten.mul.out(%b, %a, out = %b) writes(%b) @cuda
  free %a
  %c = allocate f32[64, 64]@cuda
  extern_kernel aten.mm.out(%b, %w, out = %c) writes(%c) @cuda
  free %b
  free %w
  return %c
}
"""


def test_a_region_writes_a_donated_input_that_is_reused() -> None:
    program = parse_program(DONATED)
    assert verify(program) == ()
    found = capture_graphs(program)
    assert verify(found) == ()
    text = format_program(found)
    assert "%b_0 = reinterpret %x_0 as f32[64, 64]@cuda\n" in text
    assert "aten.mul.out(%b_0, %a, out = %b_0) writes(%b_0)" in text
    assert text.count(" = allocate ") == 2
