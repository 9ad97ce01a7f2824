"""What is certain is reported; what depends on a run is not."""

import pytest

from wrapperir.diagnostics import Code
from wrapperir.text import parse_program
from wrapperir.verify import verify

KERNEL = """
kernel_definition @kernel triton(in_ptr0: read f32*, out_ptr0: write f32*, xnumel: i32) {
  grid = (1)
  entry = kernel
  source {
    | ...
  }
}
"""
WIDE = """
kernel_definition @wide triton(in_ptr0: read f64*, out_ptr0: write f32*, xnumel: i32) {
  grid = (1)
  entry = wide
  source {
    | ...
  }
}
"""


def codes(lines: str, *, symbol: str = "2..", kernels: str = KERNEL) -> list[Code]:
    text = f"""wrapperir 1
{kernels}
program @main(%x: f32[s0, 8], %y: mutated f32[s0, 8], %n: i64, %flag: bool[]) {{
  symbol s0: int {symbol} = size(%x, 0)
  symbol n: int = value(%n)
  constant %w: f32[8] = "w"

{lines}
}}
"""
    return [diagnostic.code for diagnostic in verify(parse_program(text))]


def view_codes(buffer: str, view: str, symbol: str = "2..") -> list[Code]:
    return codes(
        f"""  %a = allocate {buffer}
  %v = reinterpret %a as {view}
  free %a
  free %v
  return""",
        symbol=symbol,
    )


@pytest.mark.parametrize(
    ("buffer", "view"),
    [
        ("f32[8]", "f32[8]"),
        ("f32[8]", "f32[4; offset 4]"),
        ("f32[8]", "i8[32]"),
        ("f32[8]", "f32[0; offset 100]"),
        ("f32[8]", "f32[3; stride 3; offset 1]"),
        ("f32[s0, 8]", "f32[8, s0; stride 1, 8]"),
        ("f32[s0, 8]", "f32[s0 * 8]"),
        ("f32[s0 * 8]", "f32[8 * s0]"),
        ("f32[s0, 8]", "f32[8; offset 8]"),  # fits where s0 is 2 or more
        ("f32[s0, 8]", "f32[n]"),  # perhaps
        ("f32[n]", "f32[s0]"),
        ("f32[s0 * s0]", "f32[s0]"),
        ("f32[s0]", "f32[s0 * s0]"),  # never, but intervals do not see it
        ("f32[max(s0, 8)]", "f32[8]"),
        ("f32[ceildiv(s0, 2) * 2]", "f32[ceildiv(s0, 2)]"),
        ("f32[s0, 8; stride 64, 1]", "f32[s0 * 64 - 56]"),
    ],
)
def test_views_that_may_fit_are_accepted(buffer: str, view: str) -> None:
    assert view_codes(buffer, view) == []


@pytest.mark.parametrize(
    ("buffer", "view"),
    [
        ("f32[8]", "f32[9]"),
        ("f32[8]", "f64[8]"),
        ("f32[8]", "f32[3; stride 4]"),
        ("f32[0]", "f32[1]"),
        ("f32[8]", "f32[s0, 8]"),  # more than 8 where s0 is 2 or more
        ("f32[s0, 8]", "f32[s0, 9]"),
        ("f32[s0]", "f32[s0 + 1]"),
        ("f32[s0]", "f32[s0; offset s0]"),
        ("f32[s0 % 4]", "f32[4]"),
        ("f32[min(s0, 4)]", "f32[5]"),
        ("f32[s0, 8; stride 64, 1]", "f32[s0 * 64]"),
    ],
)
def test_views_that_never_fit_are_reported(buffer: str, view: str) -> None:
    assert view_codes(buffer, view) == [Code.OUT_OF_BOUNDS]


def test_a_size_that_may_be_zero_counts_as_one() -> None:
    assert view_codes("f32[s0, 4]", "f32[s0, 8]", symbol="0..") == [Code.OUT_OF_BOUNDS]
    assert view_codes("f32[s0 * 4]", "f32[4]", symbol="0..") == []


def overlap_codes(left: str, right: str, kernel: str = "kernel") -> list[Code]:
    return codes(
        f"""  %a = extern_kernel aten.ones.default((64)) : f32[64]
  %l = reinterpret %a as {left}
  %r = reinterpret %a as {right}
  kernel_call @{kernel}(%l, %r, 8)
  free %l
  free %r
  free %a
  return""",
        kernels=KERNEL + WIDE,
    )


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("f32[8]", "f32[8]"),
        ("f32[8]", "f32[8; offset 8]"),
        ("f32[4, 2; stride 4, 1]", "f32[4, 2; stride 4, 1; offset 2]"),  # side by side
        ("f32[8; stride 2]", "f32[8; stride 2; offset 1]"),  # interleaved
        ("f32[2, 4]", "f32[8]"),  # all the same bytes
        ("f32[2, 4]", "f32[4, 2; stride 1, 4]"),
        ("f32[0]", "f32[8]"),
        ("f32[s0]", "f32[n; offset 9]"),  # perhaps
        ("f32[s0]", "f32[s0]"),
    ],
)
def test_arguments_that_may_be_apart_are_accepted(left: str, right: str) -> None:
    assert overlap_codes(left, right) == []


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("f32[8]", "f32[8; offset 4]"),
        ("f32[8]", "f32[4]"),
        ("f32[8; stride 2]", "f32[8]"),
        ("f32[4, 2; stride 4, 1]", "f32[4, 2; stride 4, 1; offset 1]"),
        ("f32[s0]", "f32[s0 + 1]"),
    ],
)
def test_arguments_that_overlap_are_reported(left: str, right: str) -> None:
    assert overlap_codes(left, right) == [Code.PARTIAL_OVERLAP]


def test_overlap_counts_bytes() -> None:
    assert overlap_codes("f64[4]", "f32[8; offset 8]", kernel="wide") == []
    assert overlap_codes("f64[4]", "f32[8; offset 7]", "wide") == [Code.PARTIAL_OVERLAP]


def test_writing_what_may_be_an_input_is_reported() -> None:
    lines = """  %t = extern_kernel aten.f.default(%{0}) aliases(%{0}) : f32[s0, 8]
  extern_kernel aten.zero_.default(%t) writes(%t)
  free %t
  return"""
    assert codes(lines.format("x")) == [Code.FORBIDDEN_WRITE]
    assert codes(lines.format("y")) == []


def test_an_element_of_a_tuple_may_be_an_input() -> None:
    lines = """  %t = extern_kernel aten.f.default(%x) aliases(%x) : (f32[4], f32[4])
  %e = multi_output %t[0] : f32[4]
  %r = reuse %e as f32[1]
  free %t
  free %r
  return"""
    assert codes(lines) == [Code.REUSE_OF_BORROWED]


def test_a_write_may_come_through_a_view() -> None:
    lines = """  %a = allocate f32[8]
  %b = allocate f32[8]
  %v = reinterpret %a as f32[8]
  extern_kernel aten.zero_.default(%v) writes(%v)
  kernel_call @kernel(%a, %b, 8)
  free %a
  free %b
  free %v
  return"""
    assert codes(lines) == []


def test_a_write_may_happen_in_a_block() -> None:
    block = """  %a = allocate f32[8]
  %b = allocate f32[8]
  %c = conditional %flag (%a) : f32[8] {{
    true (%p: f32[8]) {{
      {0}
      %d = extern_kernel aten.ones.default((8)) : f32[8]
      return %d
    }}
    false (%q: f32[8]) {{
      %e = extern_kernel aten.ones.default((8)) : f32[8]
      return %e
    }}
  }}
  kernel_call @kernel(%a, %b, 8)
  free %a
  free %b
  free %c
  return"""
    write = "extern_kernel aten.zero_.default(%p) writes(%p)"
    assert codes(block.format(write)) == []
    assert codes(block.format('comment ""')) == [Code.UNINITIALIZED_READ]
    read = "kernel_call @kernel(%p, %p, 8)"
    assert codes(block.format(read)) == [Code.UNINITIALIZED_READ]


def test_a_view_of_a_parameter_is_not_a_result() -> None:
    lines = """  %c = subgraph_call @block (%x) : f32[8] {
    body (%p: f32[s0, 8]) {
      %v = reinterpret %p as f32[8]
      return %v
    }
  }
  free %c
  return"""
    assert codes(lines) == [Code.BORROWED_RESULT]


def test_a_constant_is_not_a_result_of_a_block() -> None:
    lines = """  %c = subgraph_call @block () : f32[8] {
    body () {
      return %w
    }
  }
  free %c
  return"""
    assert codes(lines) == [Code.BORROWED_RESULT]


def test_a_parameter_is_written_only_if_its_operand_may_be() -> None:
    lines = """  %c = subgraph_call @block (%{0}) : f32[8] {{
    body (%p: f32[s0, 8]) {{
      extern_kernel aten.zero_.default(%p) writes(%p)
      %d = extern_kernel aten.ones.default((8)) : f32[8]
      return %d
    }}
  }}
  free %c
  return"""
    assert codes(lines.format("x")) == [Code.FORBIDDEN_WRITE]
    assert codes(lines.format("y")) == []


def test_symbols_of_a_block_stay_there() -> None:
    lines = """  %c = subgraph_call @block () : f32[8] {
    body () {
      symbol_definition u0: int = 3
      %d = extern_kernel aten.ones.default((s0)) : f32[8]
      assert_scalar u0 > s0
      return %d
    }
  }
  assert_scalar u0 > 3
  free %c
  return"""
    assert codes(lines) == [Code.UNKNOWN_SYMBOL]


def test_all_faults_are_reported_in_the_order_of_the_text() -> None:
    text = """wrapperir 1

multi_kernel @either(in_ptr0: read f32*) {
  select first
}

program @main(%x: f32[s1], %y: f32[2; stride 1, 1]) {
  symbol u0: int 3..2 = size(%x, 0)
  constant %w: f32[-1] = "w"

  free %w
  free %a
  assert_alignment %x 3
  return %b
}
"""
    diagnostics = verify(parse_program(text))
    assert [d.code for d in diagnostics] == [
        Code.NO_CHOICES,
        Code.UNKNOWN_SYMBOL,
        Code.RANK_MISMATCH,
        Code.EMPTY_RANGE,
        Code.NEGATIVE_EXTENT,
        Code.CONSTANT_FREED,
        Code.UNDEFINED_NAME,
        Code.INVALID_ALIGNMENT,
        Code.UNDEFINED_NAME,
    ]


def test_a_truth_value_is_a_number_but_no_size() -> None:
    assert (
        codes("  assert_scalar true\n  symbol_definition b: bool = false\n  return") == []
    )
    assert codes("  %a = allocate f32[true]\n  free %a\n  return") == [Code.NOT_AN_INTEGER]


def test_an_element_of_a_tuple_needs_an_index() -> None:
    lines = """  %t = extern_kernel aten.f.default() : (f32[4])
  %e = multi_output %t : f32[4]
  free %t
  free %e
  return"""
    assert codes(lines) == [Code.TUPLE_INDEX]
