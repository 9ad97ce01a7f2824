"""Bytes that lines read and write, by what they access."""

import pytest

from wrapperir.analysis.line_traffic import KernelTraffic, LineTraffic, line_traffic
from wrapperir.ir import EvaluationError
from wrapperir.ir.line_effects import LineEffects, value_types
from wrapperir.text import parse_program

TEXT = """\
wrapperir 1

kernel_definition @scale cpp(x: read f32*, y: read_write f32*, n: i64) {
  entry = scale
  source {
    | extern "C" void scale(const float* x, float* y, long n) {}
  }
}

program @main(%x: f32[s0, 8], %w: f32[4, 3; stride 0, 1]) {
  symbol s0: int 2..9 = size(%x, 0)

  %y = allocate f32[s0, 8]
  kernel_call @scale(%x, %y, s0)
  %v = reinterpret %x as f32[8]
  %t = extern_kernel aten.reshape.default(%x, [8, s0]) aliases(%x) : f32[8, s0]
  %p = extern_kernel aten.topk.default(%w, 1) : (f32[4, 1], i64[4, 1])
  extern_kernel aten.add_.Tensor(%y, %y) writes(%y)
  %z = extern_kernel aten.nonzero.default(%x) : i64[u0, 2]
  symbol_definition u0: int 0.. = size(%z, 0)
  return
}
"""


@pytest.mark.parametrize(
    ("index", "read", "written"),
    [
        (0, 0, 0),
        (1, 3 * 8 * 4 * 2, 3 * 8 * 4),
        (2, 0, 0),
        (3, 0, 0),  # it may be a view
        (4, 3 * 4, 4 * 4 + 4 * 8),  # the rows of %w are one row
        (5, 3 * 8 * 4, 3 * 8 * 4),  # an argument that is given twice
    ],
)
def test_each_value_counts_once_as_read_and_once_as_written(
    index: int, read: int, written: int
) -> None:
    program = parse_program(TEXT)
    done = LineEffects.of_program(program).visit(program.lines[index])
    assert line_traffic(done, value_types(program), {"s0": 3}) == LineTraffic(read, written)


def test_sizes_that_are_not_known_are_an_error() -> None:
    program = parse_program(TEXT)
    done = LineEffects.of_program(program).visit(program.lines[6])
    with pytest.raises(EvaluationError):
        line_traffic(done, value_types(program), {"s0": 3})


def test_a_kernel_that_says_what_it_touches_is_counted_by_that() -> None:
    text = TEXT.replace(
        "  entry = scale\n",
        """  entry = scale
  metadata "touched.reads" = "x 10, y 100"
  metadata "touched.writes" = "y 4"
""",
    )
    program = parse_program(text)
    types = value_types(program)
    kernels = KernelTraffic(program)
    found = kernels.of(program.lines[1], types, {"s0": 3})
    # never more than the values, of 3 * 8 elements
    assert found == LineTraffic((10 + 24) * 4, 4 * 4, touched=True)
    assert kernels.of(program.lines[5], types, {"s0": 3}) is None
    assert KernelTraffic(parse_program(TEXT)).of(program.lines[1], types, {}) is None
    malformed = parse_program(
        text.replace('"x 10, y 100"', '"x ten"').replace('"y 4"', "4")
    )
    assert KernelTraffic(malformed).of(malformed.lines[1], types, {}) is None
