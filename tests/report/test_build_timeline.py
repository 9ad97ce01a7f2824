"""Timelines of programs, held against the analysis and against a count by hand."""

from itertools import pairwise

from hypothesis import given, settings

from tests.draws import draws
from wrapperir.analysis import analyze_memory
from wrapperir.ir import Program
from wrapperir.report import build_timeline, choose_values
from wrapperir.report.spans import MOST
from wrapperir.report.timeline import (
    BufferKind,
    MemoryTimeline,
    ProgramTimeline,
    at_peak,
)
from wrapperir.testing import programs
from wrapperir.text import format_with_positions, parse_with_positions


def timeline_of(text: str) -> ProgramTimeline:
    parsed = parse_with_positions(f"wrapperir 1\n\n{text}")
    values = {s.name: s.value for s in choose_values(parsed.program, {})}
    return build_timeline(parsed.program, parsed.positions, values, "as given")


def memory_of(text: str) -> MemoryTimeline:
    (memory,) = timeline_of(text).memories
    return memory


def test_a_buffer_lives_from_its_line_until_its_last_name_is_dropped() -> None:
    version = timeline_of("""\
program @main(%x: f32[64]) {
  %a = allocate f32[128] from(n0, n1)
  %v = reinterpret %a as f32[64; offset 64]
  free %a
  free %x
  %b = reuse %v as f32[16]
  extern_kernel aten.zero_.default(%b) writes(%b)
  return %b
}

origins {
  place 0: "m.py" 7
  n0: aten.f at 0
}
""")
    (memory,) = version.memories
    x, a = memory.buffers
    assert (x.kind, x.begin, x.end, x.line) == (BufferKind.INPUT, 0, 3, None)
    assert (a.kind, a.begin, a.end, a.line) == (BufferKind.ALLOCATED, 0, 6, 0)
    names = [a.value_at(line).name for line in range(6)]
    assert names == ["a", "a", "a", "a", "b", "b"]
    assert (a.aliases, a.writer, a.type) == (("v", "b"), None, "f32[128]")
    assert a.provenance == "m.py:7, aten.f, n0 and 1 more"
    assert [line.number for line in version.lines] == [4, 5, 6, 7, 8, 9]
    assert version.lines[0].text == "%a = allocate f32[128]"
    assert memory.live == memory.held == (512,) * 6
    assert memory.uncounted == (256, 256, 256, 0, 0, 0)


REUSED = """\
program @main(%x: f32[64]) {
  %a = allocate f32[64] from(sin)
  extern_kernel aten.sin.out(%x, out = %a) writes(%a) from(sin)
  %b = reuse %a as f32[8, 8] from(cos)
  extern_kernel aten.cos.out(%x, out = %b) writes(%b) from(cos)
  %c = extern_kernel aten.exp.default(%b) : f32[8, 8] from(exp)
  %d = reuse %b as f32[64] from(tan)
  extern_kernel aten.tan.out(%x, out = %d) writes(%d) from(tan)
  free %x
  return %c, %d
}

origins {
  place 0: "m.py" 7
  place 1: "m.py" 8
  sin: aten.sin.default at 0
  cos: aten.cos.default at 1
  exp: aten.exp.default at 1
  tan: aten.tan.default at 1
}
"""


def test_each_value_of_reused_memory_has_its_own_lines_and_nodes() -> None:
    (_, memory, _) = memory_of(REUSED).buffers
    values = [memory.value_at(line) for line in (1, 3, 4, 6)]
    assert [(v.name, v.type, v.line, v.writer) for v in values] == [
        ("a", "f32[64]", 0, 1),
        ("b", "f32[8, 8]", 2, 3),
        ("b", "f32[8, 8]", 2, 3),
        ("d", "f32[64]", 5, 6),
    ]
    assert [v.provenance.split(", ")[-1] for v in values] == ["sin", "cos", "cos", "tan"]


SCALAR = """\
program @main(%x: f32[64]) {
  %a = allocate f32[16]
  free %a
  %b = extern_kernel aten.sin.default(%x) : f32[64]
  %c = extern_kernel aten.cos.default(%b) : f32[4096]
  %n = allocate f32[]
  extern_kernel aten.zero_.default(%n) writes(%n)
  free %n
  free %b
  return %c
}
"""


def test_the_line_that_took_most_of_the_peak_is_known() -> None:
    memory = memory_of(SCALAR)
    assert memory.peak == 256 + 16384 + 64
    assert (memory.peak_line, memory.peak_rise) == (4, (3, 16384))
    within = SCALAR.replace("  %a =", "  %pool = allocate_pool pool[65536]\n  %a =")
    for name in ("%a", "%n"):
        within = within.replace(f"{name} = allocate", f"{name} = place")
    memory = memory_of(
        within.replace("f32[16]", "f32[16] in %pool at 0")
        .replace("f32[]", "f32[] in %pool at 0")
        .replace("  free %b\n", "  free %b\n  free %pool\n")
    )
    assert memory.peak_rise == (4, 16384)


def test_allocations_are_pools_buffers_in_none_and_results() -> None:
    memory = memory_of("""\
program @main(%x: f32[64]) {
  constant %w: f32[64] = "w"
  %kept = allocate f32[64] workspace(zero_per_program)
  %p = allocate_pool pool[512]
  %inner = place pool[256] in %p at 256
  %a = place f32[64] in %p at 0
  %b = place f32[64] in %inner at 0
  free %inner
  free %p
  extern_kernel aten.f(%kept, out = %a) writes(%kept, %a)
  extern_kernel aten.add.out(%a, %w, out = %b) writes(%b)
  free %a
  %c = extern_kernel aten.reshape.default(%x, [8, 8]) aliases(%x) : f32[8, 8]
  %d = reuse %b as f32[64]
  %e = allocate f32[64] workspace(zero_on_call)
  free %x
  return %c, %d, %e
}
""")
    assert memory.allocations == 3  # %p, %e, and perhaps %c


def test_blocks_come_one_after_the_other() -> None:
    version = timeline_of("""\
program @main(%x: f32[1024], %n: bool[]) {
  %p = allocate f32[256]
  %r = conditional %n (%x) : f32[16] {
    true (%t: f32[1024]) {
      %big = allocate f32[4096]
      free %big
      %u = extern_kernel aten.a.default(%t) : f32[16]
      return %u
    }
    false (%e: f32[1024]) {
      %w = extern_kernel aten.b.default(%e) : f32[16]
      return %w
    }
  }
  free %p
  free %x
  free %n
  return %r
}
""")
    (memory,) = version.memories
    assert [line.depth for line in version.lines] == [0, 0, 1, 1, 1, 1, 0, 0, 0]
    assert memory.allocations == 4  # %p, %big, %u, %w
    assert [line.number for line in version.lines] == [4, 5, 7, 8, 9, 13, 17, 18, 19]
    assert version.lines[1].text == "%r = conditional %n (%x) : f32[16]"
    lives = {b.name: (b.begin, b.end) for b in memory.buffers}
    assert lives == {
        "x": (0, 7),
        "n": (0, 8),
        "p": (0, 6),
        "r": (6, 9),
        "big": (2, 3),
        "u": (4, 5),
        "w": (5, 6),
    }
    assert memory.live == (1024, 1024, 17408, 1024, 1088, 1088, 64, 64, 64)
    assert [b.name for b in at_peak(memory)] == ["big", "p"]


def test_a_loop_holds_what_its_last_iteration_left() -> None:
    memory = memory_of("""\
program @main(%x: f32[16]) {
  %r = while_loop (%x) () : f32[16] {
    condition (%p: f32[16]) {
      %go = extern_kernel aten.any.default(%p) : bool[]
      return %go
    }
    body (%q: f32[16]) {
      %next = extern_kernel aten.sin.default(%q) : f32[16]
      return %next
    }
  }
  free %x
  return %r
}
""")
    assert {b.name: (b.begin, b.end) for b in memory.buffers} == {
        "x": (0, 3),
        "r": (0, 4),
        "go": (1, 2),
        "next": (2, 3),
    }
    assert memory.live == (64, 128, 128, 64)


def test_what_is_placed_lies_in_its_pool_and_a_pool_in_a_pool() -> None:
    memory = memory_of("""\
program @main(%x: f32[16]) {
  %own = allocate f32[32]
  free %own
  %pool = allocate_pool pool[1024]
  %a = place f32[32] in %pool at 128
  %inner = place pool[512] in %pool at 256
  subgraph_call @part(%x, %inner) {
    body (%y: f32[16], %lent: pool[512]) {
      %b = place f32[64] in %lent at 64
      free %b
      return
    }
  }
  free %inner
  free %pool
  free %x
  return %a
}
""")
    places = {b.name: (b.kind, b.pool, b.offset, b.address) for b in memory.buffers}
    assert places["own"] == (BufferKind.ALLOCATED, None, None, 0)
    assert places["a"] == (BufferKind.PLACED, "pool", 128, 128)
    assert places["b"] == (BufferKind.PLACED, "inner", 64, 256 + 64)
    pools = {p.name: (p.pool, p.address, p.size, p.end) for p in memory.pools}
    assert pools == {"pool": (None, 0, 1024, 11), "inner": ("pool", 256, 512, 8)}
    assert memory.held == (128, 0, *(1024,) * 9)
    assert max(memory.live) == 128 + 256
    assert memory.pool_height == memory.peak == 1024
    assert (memory.lower_bound, memory.peak_line) == (384, 6)


def test_sizes_beyond_all_memory_are_held_at_a_bound() -> None:
    memory = memory_of("""\
program @main(%x: f32[s0]) {
  symbol s0: int = size(%x, 0)
  symbol s1: int = s0 ** 100 * s0 ** 100 * s0 ** 100
  %a = allocate f32[s0 ** 100 * s0 ** 100 * s0 ** 100]
  free %a
  %b = allocate f32[s1]
  free %b
  free %x
  return
}
""")
    assert [b.size for b in memory.buffers] == [256, MOST, 256]


def test_neighbours_in_a_pool_do_not_overlap_for_rounding() -> None:
    memory = memory_of("""\
program @main() {
  %pool = allocate_pool pool[1000]
  %a = place f32[2] in %pool at 0
  %b = place f32[2] in %pool at 8
  free %pool
  free %b
  free %a
  return
}
""")
    assert [(b.address, b.size) for b in memory.buffers] == [(0, 8), (8, 8)]
    assert memory.peak == 1024


def test_each_device_and_space_is_a_memory_of_its_own() -> None:
    version = timeline_of("""\
program @main() {
  %a = allocate f32[16]
  %b = allocate f32[32]@cuda:0
  %c = allocate f32[64]{pinned}
  %d = allocate f32[128]@cuda:0{space = comm}
  %w = allocate f32[16]@cuda:0 workspace(zero_per_program)
  free %a
  free %b
  free %c
  free %d
  return
}
""")
    peaks = [(m.memory, m.peak, max(m.uncounted)) for m in version.memories]
    assert peaks == [
        ("cuda:0 comm", 512, 0),
        ("cpu pinned", 256, 0),
        ("cuda:0", 128, 64),
        ("cpu", 64, 0),
    ]
    workspace = next(b for b in version.memories[2].buffers if b.name == "w")
    assert (workspace.kind, workspace.begin, workspace.end) == (BufferKind.WORKSPACE, 0, 9)


def test_a_result_that_may_be_a_view_says_so() -> None:
    memory = memory_of("""\
program @main(%x: f32[16]) {
  %y = extern_kernel aten.contiguous.default(%x) aliases(%x) : f32[16]
  free %x
  return %y
}
""")
    x, y = memory.buffers
    assert (x.aliases, x.end) == (("y",), 2)
    assert y.kind is BufferKind.PERHAPS_RESULT
    assert memory.live == (64, 64)


def test_what_a_size_cannot_be_counts_as_nothing() -> None:
    memory = memory_of("""\
program @main(%x: f32[s0]) {
  symbol s0: int = size(%x, 0)
  %a = allocate f32[s0 - 100]
  %b = allocate f32[64 // (s0 - 64)]
  free %a
  free %b
  free %x
  return
}
""")
    assert [b.size for b in memory.buffers] == [256, 0, 0]
    assert memory.peak == 0


@settings(max_examples=draws(60, fuzz=150))
@given(programs())
def test_any_program_has_the_peak_that_the_analysis_finds(program: Program) -> None:
    text, positions = format_with_positions(program)
    values = {s.name: s.value for s in choose_values(program, {})}
    version = build_timeline(program, positions, values, "as given")
    written = text.splitlines()
    for line in version.lines:
        assert written[line.number - 1].strip().startswith(line.text)
    numbers = [line.number for line in version.lines]
    assert numbers == sorted(set(numbers))
    peak = analyze_memory(program, values).peak
    if len(version.memories) == 1:
        assert version.memories[0].peak == peak
    else:
        assert max((m.peak for m in version.memories), default=0) <= peak
    for memory in version.memories:
        assert memory.lower_bound <= memory.peak
        rise, taken = memory.peak_rise
        assert 0 <= rise <= memory.peak_line
        assert taken <= memory.peak
        for buffer in memory.buffers:
            for at in range(buffer.begin, buffer.end):
                assert buffer.value_at(at).name in (buffer.name, *buffer.aliases)
        check_addresses(memory)


def check_addresses(memory: MemoryTimeline) -> None:
    """Buffers alive together share no byte."""
    for at in range(len(memory.live)):
        alive = [b for b in memory.buffers if b.begin <= at < b.end and b.size]
        spans = sorted((b.address, b.address + b.size) for b in alive)
        assert all(a[1] <= b[0] for a, b in pairwise(spans))
        assert sum(b.size for b in alive if b.kind.counted) == memory.live[at]
