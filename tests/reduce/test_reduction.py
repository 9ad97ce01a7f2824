"""Reductions keep what they look for, stay valid, and leave no part that can go."""

import random
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.draws import draws
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.ir import BufferRef, ExternKernelLine, KernelCallLine, Program
from wrapperir.ir.blocks import walk_lines
from wrapperir.reduce import reduce_program
from wrapperir.reduce.lines import line_count
from wrapperir.reduce.parts import PART_KINDS
from wrapperir.testing import FAULTS, inject, programs
from wrapperir.text import format_program, parse_program
from wrapperir.verify import verify

slow = settings(
    max_examples=draws(12, fuzz=200), suppress_health_check=list(HealthCheck), deadline=None
)

CHAIN = """\
wrapperir 1

program @main(%x: f32[8], %y: f32[8], %go: bool[], %n: f32[s0]) {
  symbol s0: int 1..9 = size(%n, 0)
  constant %w: f32[8] = "w"
  constant %unused: f32[8] = "unused"

  comment "the beginning"
  %a = extern_kernel aten.sin.default(%x) : f32[8]
  %b = extern_kernel aten.add.Tensor(%a, %w) : f32[8]
  free %a
  %c = conditional %go (%b) : f32[8] {
    true (%p: f32[8]) {
      %i = extern_kernel aten.cos.default(%p) : f32[8]
      %q = extern_kernel aten.exp.default(%i) : f32[8]
      free %i
      return %q
    }
    false (%p2: f32[8]) {
      %r = extern_kernel aten.neg.default(%p2) : f32[8]
      return %r
    }
  }
  free %b
  %d = extern_kernel aten.mul.Tensor(%c, %y) : f32[8]
  return %c, %d, s0
}
"""


def calls(name: str) -> Callable[[Program], bool]:
    """Return an oracle: a kernel or operator of this name is called."""

    def is_interesting(program: Program) -> bool:
        return any(
            (isinstance(line, KernelCallLine) and line.kernel == name)
            or (isinstance(line, ExternKernelLine) and line.operator == name)
            for line in walk_lines(program.lines)
        )

    return is_interesting


def codes(program: Program) -> set[Code]:
    return {diagnostic.code for diagnostic in verify(program)}


def test_what_one_operator_needs_becomes_inputs() -> None:
    reduced = reduce_program(parse_program(CHAIN), calls("aten.mul.Tensor"))
    assert (
        format_program(reduced)
        == """\
wrapperir 1

program @main(%y: f32[1], %c: f32[1]) {
  %d = extern_kernel aten.mul.Tensor(%c, %y) : f32[1]
  return %d
}
"""
    )


def test_a_line_of_a_block_comes_out_of_it() -> None:
    reduced = reduce_program(parse_program(CHAIN), calls("aten.exp.default"))
    (line,) = reduced.lines
    assert isinstance(line, ExternKernelLine)
    assert line.operator == "aten.exp.default"
    assert len(reduced.inputs) == 1


def test_what_is_left_is_returned_if_results_matter() -> None:
    def is_interesting(program: Program) -> bool:
        made = {getattr(line, "result", None) for line in program.lines}
        has_output = any(
            isinstance(each, BufferRef) and each.name in made for each in program.outputs
        )
        return has_output and calls("aten.sin.default")(program)

    reduced = reduce_program(parse_program(CHAIN), is_interesting)
    assert line_count(reduced) == 1
    assert reduced.outputs == (BufferRef("a"),)


def test_configs_and_choices_go() -> None:
    kernel = """\
kernel_definition @k{} triton(x: write f32*, B: constexpr) {{
  grid = (B, 1, 1)
  config B = 1
  config B = 2
  config B = 4
  entry = k
  source {{
    | def k(x, B): pass
  }}
}}
"""
    text = f"""\
wrapperir 1

{kernel.format(0)}
{kernel.format(1)}
multi_kernel @m(x: write f32*) {{
  choice @k0(0)
  choice @k1(0)
  select forced(1)
}}

program @main() {{
  %out = allocate f32[8]
  kernel_call @m(%out)
  return %out
}}
"""
    program = parse_program(text)
    assert not verify(program)
    reduced = reduce_program(program, calls("m"))
    configs = [len(getattr(line, "configs", ())) for line in reduced.definitions]
    choices = [len(getattr(line, "choices", ())) for line in reduced.definitions]
    assert max(configs) <= 1
    assert sum(choices) == 1
    assert len(reduced.definitions) == 2
    assert not verify(reduced)


def test_a_program_that_shows_nothing_is_refused() -> None:
    with pytest.raises(DiagnosticError, match="WIR913"):
        reduce_program(parse_program(CHAIN), calls("aten.tan.default"))


@slow
@given(programs(max_steps=8), st.randoms(use_true_random=False))
def test_reduced_programs_are_minimal_and_no_worse(
    program: Program, rng: random.Random
) -> None:
    names = [
        line.kernel if isinstance(line, KernelCallLine) else line.operator
        for line in walk_lines(program.lines)
        if isinstance(line, KernelCallLine | ExternKernelLine)
    ]
    assume(names)
    is_interesting = calls(rng.choice(names))
    reduced = reduce_program(program, is_interesting)
    assert is_interesting(reduced)
    assert not verify(reduced)
    for kind in PART_KINDS:
        for at in range(kind.count(reduced)):
            for smaller in kind.without(reduced, at, at + 1):
                is_kept = smaller != reduced and not verify(smaller)
                assert not (is_kept and is_interesting(smaller)), kind.name


@slow
@given(programs(max_steps=8))
def test_jobs_change_nothing(program: Program) -> None:
    names = [x.operator for x in program.lines if isinstance(x, ExternKernelLine)]
    assume(names)
    one, more = (reduce_program(program, calls(names[-1]), jobs=jobs) for jobs in (1, 3))
    assert one == more


def test_a_reduction_that_was_stopped_goes_on() -> None:
    program, wanted = parse_program(CHAIN), calls("aten.mul.Tensor")
    asked: list[Program] = []
    smaller: list[Program] = []
    rejected: set[str] = set()

    def stops(candidate: Program) -> bool:
        if len(asked) == 6:
            raise KeyboardInterrupt
        asked.append(candidate)
        return wanted(candidate)

    def keep(candidate: Program, tried: int) -> None:
        assert tried == len(asked) - 1  # the first was the program itself
        smaller.append(candidate)

    with pytest.raises(KeyboardInterrupt):
        reduce_program(program, stops, rejected=rejected, tell=keep)
    assert smaller
    assert rejected
    again: list[Program] = []

    def is_interesting(candidate: Program) -> bool:
        again.append(candidate)
        return wanted(candidate)

    reduced = reduce_program(smaller[-1], is_interesting, rejected=rejected)
    assert reduced == reduce_program(program, wanted)
    refused = [each for each in asked if not wanted(each)]
    assert not any(each in again for each in refused)


def _faulty(kind: str) -> tuple[Program, Code] | None:
    found: list[tuple[Program, Code]] = []

    @settings(max_examples=40, deadline=None, database=None, derandomize=True)
    @given(programs(max_steps=16))
    def search(program: Program) -> None:
        if not found and (faulty := inject(program, kind)) is not None:
            found.append((faulty.program, faulty.code))

    search()
    return found[0] if found else None


@pytest.mark.parametrize("kind", FAULTS)
def test_a_planted_fault_is_left_in_few_lines(kind: str) -> None:
    planted = _faulty(kind)
    if planted is None:
        pytest.skip("no program of a few has a place for this fault")
    program, code = planted
    reduced = reduce_program(program, lambda each: code in codes(each))
    assert code in codes(reduced)
    assert line_count(reduced) <= 12
