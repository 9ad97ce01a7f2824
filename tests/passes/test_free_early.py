from wrapperir import format_program, parse_program
from wrapperir.analysis import analyze_memory
from wrapperir.passes import free_early, insert_frees
from wrapperir.verify import verify


def after(text: str) -> str:
    """Return the lines of the program after the pass, which must be valid."""
    program = parse_program(f"wrapperir 1\n\n{text}")
    assert verify(program) == ()
    moved = free_early(program)
    assert verify(moved) == ()
    assert free_early(moved) == moved
    return format_program(moved).split("\n\n", 1)[1]


def test_frees_move_up_to_the_last_use() -> None:
    assert (
        after("""\
program @main(%x: f32[8]) {
  %buf0 = extern_kernel aten.relu.default(%x) : f32[8]
  %buf1 = extern_kernel aten.neg.default(%buf0) : f32[8]
  %buf2 = extern_kernel aten.neg.default(%buf1) : f32[8]
  free %buf1
  free %x
  free %buf0
  return %buf2
}
""")
        == """\
program @main(%x: f32[8]) {
  %buf0 = extern_kernel aten.relu.default(%x) : f32[8]
  free %x
  %buf1 = extern_kernel aten.neg.default(%buf0) : f32[8]
  free %buf0
  %buf2 = extern_kernel aten.neg.default(%buf1) : f32[8]
  free %buf1
  return %buf2
}
"""
    )


def test_unused_names_are_freed_where_they_appear() -> None:
    assert (
        after("""\
program @main(%x: f32[8], %y: f32[8]) {
  %buf0 = allocate f32[8]
  comment "later"
  free %buf0
  free %y
  return %x
}
""")
        == """\
program @main(%x: f32[8], %y: f32[8]) {
  free %y
  %buf0 = allocate f32[8]
  free %buf0
  comment "later"
  return %x
}
"""
    )


def test_views_keep_memory_and_symbols_read_names() -> None:
    assert (
        after("""\
program @main(%x: f32[8], %mask: bool[8]) {
  %buf0 = extern_kernel aten.nonzero.default(%mask) : i64[u0, 1]
  symbol_definition u0: int 0..8 = size(%buf0, 0)
  %view0 = reinterpret %x as f32[4]
  %buf1 = extern_kernel aten.relu.default(%view0) : f32[4]
  free %mask
  free %buf0
  free %x
  free %view0
  return %buf1, u0
}
""")
        == """\
program @main(%x: f32[8], %mask: bool[8]) {
  %buf0 = extern_kernel aten.nonzero.default(%mask) : i64[u0, 1]
  free %mask
  symbol_definition u0: int 0..8 = size(%buf0, 0)
  free %buf0
  %view0 = reinterpret %x as f32[4]
  free %x
  %buf1 = extern_kernel aten.relu.default(%view0) : f32[4]
  free %view0
  return %buf1, u0
}
"""
    )


def test_blocks_are_done_inside_and_operands_are_uses() -> None:
    assert (
        after("""\
program @main(%p: bool[], %x: f32[8]) {
  %r = conditional %p (%x) : f32[8] {
    true (%a: f32[8]) {
      %y = extern_kernel aten.relu.default(%a) : f32[8]
      %z = extern_kernel aten.neg.default(%y) : f32[8]
      %w = extern_kernel aten.neg.default(%z) : f32[8]
      free %y
      free %z
      return %w
    }
    false (%b: f32[8]) {
      %v = extern_kernel aten.clone.default(%b) : f32[8]
      return %v
    }
  }
  %s = extern_kernel aten.neg.default(%r) : f32[8]
  free %x
  free %p
  free %r
  return %s
}
""")
        == """\
program @main(%p: bool[], %x: f32[8]) {
  %r = conditional %p (%x) : f32[8] {
    true (%a: f32[8]) {
      %y = extern_kernel aten.relu.default(%a) : f32[8]
      %z = extern_kernel aten.neg.default(%y) : f32[8]
      free %y
      %w = extern_kernel aten.neg.default(%z) : f32[8]
      free %z
      return %w
    }
    false (%b: f32[8]) {
      %v = extern_kernel aten.clone.default(%b) : f32[8]
      return %v
    }
  }
  free %x
  free %p
  %s = extern_kernel aten.neg.default(%r) : f32[8]
  free %r
  return %s
}
"""
    )


def test_the_peak_falls() -> None:
    program = parse_program("""\
wrapperir 1

program @main(%x: f32[64]) {
  %buf0 = extern_kernel aten.relu.default(%x) : f32[64]
  %buf1 = extern_kernel aten.neg.default(%buf0) : f32[64]
  %buf2 = extern_kernel aten.neg.default(%buf1) : f32[64]
  free %buf0
  free %buf1
  return %buf2
}
""")
    assert analyze_memory(program, {}).peak == 3 * 256
    assert analyze_memory(free_early(program), {}).peak == 2 * 256
    assert insert_frees(free_early(program)) == free_early(insert_frees(program))
