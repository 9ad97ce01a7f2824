"""Passes over memory keep programs valid, their bits the same, and their peak no higher."""

import pytest
from hypothesis import given, settings

from tests.draws import draws
from wrapperir.ir import Language, Program
from wrapperir.passes import MEMORY_PASSES, PASSES
from wrapperir.passes.plan_memory import Planned, plan_pools
from wrapperir.testing.pass_check import behaviour, pass_faults
from wrapperir.testing.programs import programs
from wrapperir.text import format_program, parse_program

EXAMPLES = settings(max_examples=draws(30, fuzz=60))


def check(program: Program, names: list[str]) -> None:
    """Run passes one after the other, each on what the one before made."""
    for name in names:
        before = behaviour(program)
        after = PASSES[name](program)
        faults = pass_faults(before, behaviour(after, before.symbols))
        assert not faults, "\n".join(
            [name, *faults, format_program(program), format_program(after)]
        )
        program = after


@pytest.mark.parametrize("name", MEMORY_PASSES)
@EXAMPLES
@given(program=programs(languages=()))
def test_a_pass(name: str, program: Program) -> None:
    check(program, [name])


@pytest.mark.slow
@settings(max_examples=draws(40, fuzz=100))
@given(program=programs(languages=()))
def test_all_of_them(program: Program) -> None:
    check(program, list(MEMORY_PASSES))


@settings(max_examples=draws(6, fuzz=12))
@given(program=programs(languages=(Language.CPP,), max_steps=10))
def test_with_kernels(program: Program) -> None:
    check(program, list(MEMORY_PASSES))


@pytest.mark.slow
@EXAMPLES
@given(program=programs(languages=(), max_steps=30))
def test_long_programs(program: Program) -> None:
    check(program, list(MEMORY_PASSES))


def test_results_of_blocks_keep_no_pool() -> None:
    program = parse_program("""\
wrapperir 1

program @main(%x: f32[16]) {
  %r = subgraph_call @f (%x) : f32[16] {
    body (%p: f32[16]) {
      %a = allocate f32[16]
      extern_kernel aten.neg.out(%p, out = %a) writes(%a)
      %b = allocate f32[16]
      extern_kernel aten.neg.out(%a, out = %b) writes(%b)
      free %a
      %c = allocate f32[16]
      extern_kernel aten.neg.out(%b, out = %c) writes(%c)
      free %b
      return %c
    }
  }
  %s = allocate f32[16]
  extern_kernel aten.neg.out(%r, out = %s) writes(%s)
  free %r
  return %s
}
""")
    before = behaviour(program)
    for planned in Planned:
        after = plan_pools(program, planned).program
        assert not pass_faults(before, behaviour(after, before.symbols))
