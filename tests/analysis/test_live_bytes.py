"""Bytes alive are those that the brute-force checker counts, and units bound them."""

from hypothesis import given, settings

from wrapperir import parse_program
from wrapperir.analysis import (
    Dimension,
    Footprints,
    ProgramMemory,
    analyze_memory,
    program_entry,
)
from wrapperir.ir import Program, evaluate_int
from wrapperir.testing import peak_bytes, programs
from wrapperir.testing.pass_check import behaviour

PROGRAMS = programs(languages=())
EXAMPLES = settings(max_examples=60)


@EXAMPLES
@given(program=PROGRAMS)
def test_the_peak_is_that_of_the_checker(program: Program) -> None:
    found = behaviour(program)
    analysis, checker = found.peaks
    if may_share(analyze_memory(program, found.symbols)):  # each counts, the checker knows
        assert analysis >= checker
    else:
        assert analysis == checker


def may_share(memory: ProgramMemory) -> bool:
    """Say whether one storage of a program may be another's memory."""
    return any(s.perhaps for block in memory.blocks.values() for s in block.storages)


@EXAMPLES
@given(program=PROGRAMS)
def test_units_bound_the_bytes_of_each_line(program: Program) -> None:
    symbols = behaviour(program).symbols
    entry = program_entry(program)
    footprints = Footprints.of_program(program)
    _, footprint = footprints.of(program.lines, program.outputs, entry)

    def bytes_at(line: int, profiles: dict[Dimension, list[int]]) -> int:
        return sum(
            profile[line] * evaluate_int(unit.expr, symbols)
            for (_, unit), profile in profiles.items()
        )

    for line, live in enumerate(analyze_memory(program, symbols).top.live):
        assert bytes_at(line, footprint.low) <= live <= bytes_at(line, footprint.high)


def memory(lines: str) -> ProgramMemory:
    """Analyze a program; its peak must be the checker's."""
    program = parse_program(f"wrapperir 1\n\nprogram @main(%x: f32[16]) {{\n{lines}}}\n")
    found = analyze_memory(program, {})
    assert found.peak == peak_bytes(program, {})
    return found


def test_a_line_that_frees_runs_without_what_it_frees() -> None:
    found = memory("""\
  %a = allocate f32[16]
  %view = reinterpret %a as f32[1]
  free %a
  %b = allocate f32[17]
  free %view
  return %b
""")
    assert found.top.bytes == (64, 64, 128)  # of the input, too
    assert found.top.live == (64, 64, 64, 192, 128)
    assert found.peak == 192


def test_reused_memory_keeps_its_size_and_pools_count_for_what_is_placed() -> None:
    found = memory("""\
  %a = allocate f32[32]
  %b = reuse %a as f32[16]
  %pool = allocate_pool pool[256]
  free %b
  %c = place f32[16] in %pool at 64
  free %pool
  free %c
  return
""")
    assert found.top.live == (128, 128, 384, 256, 256, 256, 0)


def test_blocks_are_inside_their_line() -> None:
    found = memory("""\
  %a = allocate f32[16]
  %r = subgraph_call @f (%x) : f32[16] {
    body (%p: f32[16]) {
      %t = allocate f32[64]
      free %t
      %y = extern_kernel aten.neg.default(%p) : f32[16]
      return %y
    }
  }
  free %a
  return %r
""")
    assert found.blocks[("lines", 1, "body")].live == (256, 0, 64)
    assert found.top.inside == (0, 256, 0)
    assert found.top.live == (64, 320, 64)


def test_blocks_that_return_memory_differently_count_for_both() -> None:
    """Which of the two the result is, is not known before it runs."""
    program = parse_program("""\
wrapperir 1

program @main(%x: f32[16], %n: bool[]) {
  %r = conditional %n (%x) : f32[16] {
    true (%p: f32[16]) {
      %y = extern_kernel aten.neg.default(%p) : f32[16]
      return %y
    }
    false (%p: f32[16]) {
      %pool = allocate_pool pool[128]
      %y = place f32[16] in %pool at 0
      free %pool
      return %y
    }
  }
  free %r
  return
}
""")
    assert may_share(analyze_memory(program, {}))
    assert analyze_memory(program, {}).peak == 192
    assert peak_bytes(program, {}) == 128


def test_sizes_that_are_not_known_count_as_nothing() -> None:
    program = parse_program("""\
wrapperir 1

program @main(%x: f32[s0]) {
  symbol s0: int 1.. = size(%x, 0)

  %a = allocate f32[s0]
  free %a
  return
}
""")
    assert analyze_memory(program, {}).peak == 0
    assert analyze_memory(program, {"s0": 17}).peak == 128


def test_donated_inputs_count_in_a_program_without_lines() -> None:
    inputs = "%x: f32[2], %y: donated f32[16]"
    text = f"wrapperir 1\n\nprogram @main({inputs}) {{\nLINES  return %y\n}}\n"
    peaks = [
        analyze_memory(parse_program(text.replace("LINES", lines)), {}).peak
        for lines in ("", "  free %x\n")
    ]
    assert peaks == [64, 64]
