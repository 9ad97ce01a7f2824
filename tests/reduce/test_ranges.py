"""Symbols become numbers, or have one value, and programs do what they did for it."""

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.draws import draws
from wrapperir.diagnostics import DiagnosticError
from wrapperir.interp import interpret
from wrapperir.ir import KernelCallLine, Program, SizeOf
from wrapperir.ir.blocks import walk_lines
from wrapperir.reduce import reduce_program
from wrapperir.reduce.ranges import integers_of, with_narrower_range
from wrapperir.testing import example_constants, example_inputs, programs
from wrapperir.text import format_program, parse_program
from wrapperir.verify import verify

TEXT = """\
wrapperir 1

kernel_definition @twice cpp(x: read f32*, y: write f32*, s0: i64) {
  entry = twice
  source {
    | extern "C" void twice(const float* x, float* y, long s0) {
    |   for (long i = 0; i < s0; ++i) y[i] = 2 * x[i];
    | }
  }
}

program @main(%x: f32[s0, 4], %n: i64) {
  symbol s0: int 2..64 = size(%x, 0)
  symbol s1: int = s0 * 4 + 1

  %y = allocate f32[s0, 4]
  kernel_call @twice(%x, %y, s0 * 4)
  symbol_definition u0: int 0..9 = value(%n)
  assert_scalar u0 < s1
  return %y, u0
}
"""


VALUE = """\
wrapperir 1

program @main(%n: i64) {{
  symbol s0: int {} = value(%n)

  return s0
}}
"""


def calls_a_kernel(program: Program) -> bool:
    return any(isinstance(line, KernelCallLine) for line in walk_lines(program.lines))


def test_a_symbol_is_replaced_by_a_number() -> None:
    reduced = reduce_program(parse_program(TEXT), calls_a_kernel)
    assert not verify(reduced)
    text = format_program(reduced)
    assert text[text.index("program") :] == (
        """\
program @main(%x: f32[2, 4], %y: mutated f32[2, 4]) {
  kernel_call @twice(%x, %y, 8)
  return
}
"""
    )
    # The parameter of a kernel is no symbol of the program.
    assert "y: write f32*, s0: i64)" in text


def test_a_range_is_narrowed_where_the_symbol_is_needed() -> None:
    def has_symbol(program: Program) -> bool:
        return any(line.symbol == "s0" for line in program.symbols)

    reduced = reduce_program(parse_program(TEXT), has_symbol)
    assert not verify(reduced)
    ((line,),) = (reduced.symbols,)
    assert (line.lower, line.upper) == (2, 2)


def test_values_are_in_the_range() -> None:
    for bounds, values in (
        ("2..64", [2, 64]),
        ("0..", [0, 1, 2]),
        ("..-5", [-5]),
        ("", [1, 2]),
        ("7..7", [7]),
    ):
        program = parse_program(VALUE.format(bounds))
        (line,) = program.symbols
        tried = list(with_narrower_range(program, line))
        assert [each.outputs for each in tried if not each.symbols] == [
            (value,) for value in values
        ]
        narrowed = [x for each in tried for x in each.symbols]
        assert [(x.lower, x.upper) for x in narrowed] == [
            (value, value) for value in values if bounds != "7..7"
        ]


def test_symbols_in_blocks_are_replaced() -> None:
    program = parse_program("""\
wrapperir 1

program @main(%x: f32[8], %n: i64[]) {
  %y = subgraph_call @f (%x) : f32[8] {
    body (%p: f32[8]) {
      symbol_definition u0: int 0..9 = item(%n)
      assert_scalar u0 < 10 "all of them"
      %a = extern_kernel aten.add.Scalar(%p, u0) : f32[8]
      return %a
    }
  }
  return %y
}
""")
    (line,) = integers_of(program)
    first = next(with_narrower_range(program, line))
    assert not verify(first)
    assert "aten.add.Scalar(%p, 0)" in format_program(first)
    assert "u0" not in format_program(first)


def outcome(program: Program, inputs: Program) -> object:
    """Return what a program returns and leaves of the example inputs of another."""
    given, constants = example_inputs(inputs, 0), example_constants(inputs, 0)
    try:
        returned = interpret(program, given, constants)
    except DiagnosticError as error:
        return [each.code for each in error.diagnostics]
    kept = [x for x, item in zip(given, program.inputs, strict=True) if not item.donated]
    return repr((returned, kept, constants))


@settings(max_examples=draws(60, fuzz=600), deadline=None)
@given(programs(languages=(), max_steps=12), st.data())
def test_a_number_does_what_the_symbol_did(program: Program, data: st.DataObject) -> None:
    of_sizes = [x for x in program.symbols if isinstance(x.source, SizeOf)]
    assume(of_sizes)
    line = data.draw(st.sampled_from(of_sizes))
    tried = list(with_narrower_range(program, line))
    replaced, narrowed = tried[: len(tried) // 2], tried[len(tried) // 2 :]
    checked = 0
    for fixed, other in zip(replaced, narrowed, strict=True):
        assert all(each.symbol != line.symbol for each in fixed.symbols)
        if not verify(fixed) and not verify(other):
            checked += 1
            assert outcome(fixed, other) == outcome(other, other)
    assume(checked)
