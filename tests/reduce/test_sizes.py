"""Sizes become smaller with strides, offsets and arguments, if kernels allow it."""

import pytest

from wrapperir.diagnostics import DiagnosticError
from wrapperir.ir import ExternKernelLine, Program
from wrapperir.reduce import reduce_program
from wrapperir.reduce.sizes import sizes_of, with_smaller_size
from wrapperir.testing.inputs import run_example
from wrapperir.text import format_program, parse_program
from wrapperir.verify import verify

VIEWS = """\
wrapperir 1

program @main(%x: f32[4, 48], %w: f32[16, 4; stride 1, 16]) {
  %q = reinterpret %x as f32[4, 16; stride 48, 1; offset 16]
  %y = extern_kernel aten.mm.default(%w, %q) : f32[16, 16]
  free %q
  %z = extern_kernel aten.reshape.default(%y, [2, 8, 16]) aliases(%y) : f32[2, 8, 16]
  free %y
  return %z
}
"""
KERNEL = """\
wrapperir 1

kernel_definition @twice cpp(x: read f32*, y: write f32*) {
  entry = twice
  source {
    | extern "C" void twice(const float* x, float* y) {
    |   for (int i = 0; i < 8; ++i) y[i] = 2 * x[i];
    | }
  }
}

program @main(%x: f32[8], %other: f32[6]) {
  %y = allocate f32[8]
  kernel_call @twice(%x, %y)
  %z = extern_kernel aten.exp.default(%other) : f32[6]
  return %y, %z
}
"""


def runs(program: Program) -> bool:
    """Return whether a program runs, and multiplies matrices."""
    names = [x.operator for x in program.lines if isinstance(x, ExternKernelLine)]
    try:
        run_example(program, 0)
    except (DiagnosticError, ValueError):
        return False
    return {"aten.mm.default", "aten.reshape.default"} <= set(names)


def test_sizes_of_views_and_arguments_become_smaller() -> None:
    reduced = reduce_program(parse_program(VIEWS), runs)
    assert not verify(reduced)
    assert runs(reduced)
    assert max(sizes_of(reduced), default=1) <= 2
    # Where rows lie in the memory of %x is not part of a size.
    assert "48" not in format_program(reduced)


def test_what_kernels_are_given_keeps_its_size() -> None:
    program = parse_program(KERNEL)
    assert sizes_of(program) == [8, 6]
    assert not [*with_smaller_size(program, 8)]
    smaller = next(with_smaller_size(program, 6))
    assert "%other: f32[1]" in format_program(smaller)
    reduced = reduce_program(program, lambda each: len(each.outputs) == 2)
    assert sizes_of(reduced) in ([8], [])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f32[16, 4]", "f32[1, 4]"),
        ("f32[16, 4; stride 1, 16]", "f32[1, 4; stride 1, 1]"),
        ("f32[4, 16; stride 48, 1; offset 16]", "f32[4, 1; stride 48, 1; offset 1]"),
        ("f32[s0, 16]", "f32[s0, 1]"),
    ],
)
def test_dense_types_stay_dense(before: str, after: str) -> None:
    text = f"""\
wrapperir 1

program @main(%x: {before}, %n: f32[s0]) {{
  symbol s0: int 1..9 = size(%n, 0)

  %y = extern_kernel aten.exp.default(%x) : {before}
  return %y
}}
"""
    smaller = next(with_smaller_size(parse_program(text), 16))
    assert format_program(smaller).count(after) == 2
