"""Parts are the fewest that keep the order of lines, and are programs of their own."""

import torch
from attrs import evolve

from tests.emit.partition.cutting import calls_of, cut, read
from wrapperir.emit.partition.cut import Side
from wrapperir.text import format_program

C, F = Side.CHOSEN, Side.FALLBACK
INTERLEAVED = """
  %a = extern_kernel aten.relu.default(%x) : f32[8]
  %b = extern_kernel aten.exp.default(%x) : f32[8]
  %c = extern_kernel aten.relu.default(%a) : f32[8]
  free %a
  %d = extern_kernel aten.exp.default(%b) : f32[8]
  free %b
  %e = extern_kernel aten.add.Tensor(%c, %d) : f32[8]
  free %c
  free %d
  return %e
"""


def test_lines_that_do_not_depend_on_each_other_are_reordered() -> None:
    program = read(INTERLEAVED)
    made = cut(program, calls_of(program, "aten.exp"))
    assert made.cut.sides == (F, C)
    first, second = made.parts.parts
    assert (first.arguments, first.results) == (("%x",), ("%d",))
    assert second.arguments == ("%x", "%d")
    assert second.program.inputs[1].donated
    (found,) = made.run([torch.arange(8.0)], {})
    assert torch.equal(found, torch.arange(8.0) + torch.arange(8.0).exp().exp())


def test_an_input_of_a_part_keeps_its_path() -> None:
    program = read(INTERLEAVED)
    inputs = tuple(evolve(each, path=f"model.{each.name}") for each in program.inputs)
    program = evolve(program, inputs=inputs)
    parts = cut(program, calls_of(program, "aten.exp")).parts.parts
    given = [each for part in parts for each in part.program.inputs]
    assert {each.name: each.path for each in given} == {"x": "model.x", "d": None}


def test_a_program_without_such_lines_is_one_part() -> None:
    made = cut(read(INTERLEAVED), ())
    assert made.cut.sides == (C,)
    assert made.parts.entry is None


def test_a_part_never_needs_a_later_one() -> None:
    program = read("""
  %a = extern_kernel aten.relu.default(%x) : f32[8]
  %b = extern_kernel aten.exp.default(%a) : f32[8]
  %c = extern_kernel aten.add.Tensor(%a, %b) : f32[8]
  free %a
  free %b
  return %c
""")
    made = cut(program, calls_of(program, "aten.exp"))
    assert made.cut.sides == (C, F, C)
    assert made.parts.plan.steps[0].results == ("%a",)
    assert made.parts.plan.steps[1].last == (False,)  # %a is needed again


def test_what_needs_nothing_runs_just_before_it_is_used() -> None:
    program = read("""
  %m = extern_kernel aten.relu.default(%x) : f32[8]
  %a = extern_kernel aten.exp.default(%x) : f32[8]
  %b = extern_kernel aten.neg.default(%a) : f32[8]
  free %a
  %c = extern_kernel aten.exp.default(%b) : f32[8]
  free %b
  %d = extern_kernel aten.add.Tensor(%c, %m) : f32[8]
  free %c
  free %m
  return %d
""")
    made = cut(program, calls_of(program, "aten.exp"))
    assert made.cut.sides == (F, C, F, C)
    assert "aten.relu" in made.lines()[3][0]


def test_writes_and_reads_of_one_memory_keep_their_order() -> None:
    program = read(
        """
  %a = extern_kernel aten.exp.default(%x) : f32[8]
  extern_kernel aten.add_.Scalar(%x, 1) writes(%x)
  %b = extern_kernel aten.exp.default(%x) : f32[8]
  return %a, %b
""",
        "%x: mutated f32[8]",
    )
    made = cut(program, calls_of(program, "aten.exp"))
    assert made.cut.sides == (F, C, F)
    assert [part.program.inputs[0].mutated for part in made.parts.parts] == [
        *(False, True, False)
    ]


def test_checks_and_random_numbers_keep_their_order() -> None:
    program = read("""
  %a = extern_kernel aten.rand_like.default(%x) : f32[8]
  %b = extern_kernel aten.relu.default(%x) : f32[8]
  assert_not_nan %b
  %c = extern_kernel aten.rand_like.default(%x) : f32[8]
  free %b
  return %a, %c
""")
    made = cut(program, calls_of(program, "aten.rand"))
    assert made.cut.sides == (C, F)
    last = [line for line in made.lines()[1] if "rand" in line or "assert" in line]
    assert ["rand" in line for line in last] == [True, False, True]


def test_each_part_makes_the_views_that_it_uses() -> None:
    program = read("""
  %a = allocate f32[8]
  extern_kernel aten.relu.out(%x, out = %a) writes(%a)
  %v = reinterpret %a as f32[4; offset 4]
  %b = reuse %a as f32[2, 4]
  %c = extern_kernel aten.exp.default(%v) : f32[4]
  free %v
  extern_kernel aten.neg_.default(%b) writes(%b)
  return %b, %c
""")
    made = cut(program, calls_of(program, "aten.exp"))
    assert made.cut.sides == (C, F, C)
    assert format_program(made.parts.parts[1].program).splitlines()[2:] == [
        "program @main(%a: f32[8]) {",
        "  %v = reinterpret %a as f32[4; offset 4]",
        "  %c = extern_kernel aten.exp.default(%v) : f32[4]",
        "  free %v",
        "  return %c",
        "}",
    ]
    assert format_program(made.parts.parts[2].program).splitlines()[2:] == [
        "program @main(%a: donated f32[8]) {",
        "  %b = reinterpret %a as f32[2, 4]",
        "  extern_kernel aten.neg_.default(%b) writes(%b)",
        "  free %a",
        "  return %b",
        "}",
    ]


def test_a_buffer_that_two_parts_fill_is_zeroed() -> None:
    program = read("""
  %a = allocate f32[16]
  %v = reinterpret %a as f32[8]
  extern_kernel aten.relu.out(%x, out = %v) writes(%v)
  free %v
  %w = reinterpret %a as f32[8; offset 8]
  extern_kernel aten.exp.out(%x, out = %w) writes(%w)
  free %w
  return %a
""")
    made = cut(program, calls_of(program, "aten.exp"))
    assert made.cut.sides == (C, F)
    assert made.lines()[0][0] == "%a = allocate f32[16] workspace(zero_on_call)"


def test_symbols_are_passed_as_numbers() -> None:
    program = read(
        """
  symbol s0: int 1..64 = size(%x, 0)
  %a = extern_kernel aten.nonzero.default(%x) : i64[u0, 1; stride 1, u0]
  symbol_definition u0: int 0.. = size(%a, 0)
  %b = allocate f32[u0 + s0]
  extern_kernel aten.fill_.Scalar(%b, u0) writes(%b)
  return %a, %b, u0 * 2
""",
        "%x: f32[s0]",
    )
    made = cut(program, calls_of(program, "aten.nonzero"))
    assert made.cut.sides == (F, C)
    entry = made.parts.entry
    assert entry is not None
    assert entry.results == ("s0",)
    assert made.parts.plan.steps[1].results == ("%a", "u0")
    assert made.parts.plan.steps[2].arguments == ("u0", "s0")
    a, b, n = made.run([torch.tensor([1.0, 0, 3, 0])], {})
    assert a.tolist() == [[0], [2]]
    assert b.tolist() == [2.0] * 6
    assert n == 4


def test_a_block_goes_where_all_of_its_lines_can_run() -> None:
    program = read(
        """
  %a = extern_kernel aten.relu.default(%x) : f32[8]
  %b = conditional %p (%a) : f32[8] {
    true (%y: f32[8]) {
      %c = extern_kernel aten.exp.default(%y) : f32[8]
      return %c
    }
    false (%z: f32[8]) {
      %d = extern_kernel aten.neg.default(%z) : f32[8]
      return %d
    }
  }
  free %a
  return %b
""",
        "%x: f32[8], %p: bool[]",
    )
    made = cut(program, {1})
    assert made.cut.sides == (C, F)
    assert made.parts.parts[1].arguments == ("%p", "%a")


def test_each_part_has_a_zeroed_workspace_of_its_own() -> None:
    kernel = """
kernel_definition @count cpp(p: read_write f32*, w: read_write f32*) {
  entry = count
  source {
    | extern "C" void count(float* p, float* w) { p[0] += w[0]; }
  }
}
"""
    program = read(
        """
  %w = allocate f32[4] workspace(zero_per_program)
  kernel_call @count(%x, %w)
  extern_kernel aten.neg_.default(%x) writes(%x)
  kernel_call @count(%x, %w)
  return
""",
        "%x: mutated f32[8]",
        kernel,
    )
    made = cut(program, calls_of(program, "aten.neg"))
    assert made.cut.sides == (C, F, C)
    for part in (made.parts.parts[0], made.parts.parts[2]):
        assert [each.name for each in part.program.inputs] == ["x"]
        assert "zero_per_program" in format_program(part.program)


def test_events_order_streams_in_a_part_only() -> None:
    program = read(
        """
  %a = extern_kernel aten.relu.default(%x) @cuda:0 : f32[8]@cuda:0
  %e = record_event @cuda:0
  wait_event %e @cuda:0 stream(1)
  %b = extern_kernel aten.neg.default(%a) @cuda:0 stream(1) : f32[8]@cuda:0
  free %a
  %c = extern_kernel aten.exp.default(%b) @cuda:0 stream(1) : f32[8]@cuda:0
  %f = record_event @cuda:0 stream(1)
  wait_event %f @cuda:0
  %d = extern_kernel aten.neg.default(%b) @cuda:0 : f32[8]@cuda:0
  free %b
  return %c, %d
""",
        "%x: f32[8]@cuda:0",
    )
    made = cut(program, calls_of(program, "aten.exp"))
    events = [sum("event" in line for line in lines) for lines in made.lines()]
    assert made.cut.sides == (C, F, C)
    assert events == [2, 2, 0]
