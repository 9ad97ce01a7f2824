"""Two runs of one program agree, and a planted fault is named by its line."""

import re
from collections.abc import Callable

import pytest
import torch
from attrs import evolve
from hypothesis import HealthCheck, assume, given, settings

from tests.draws import draws
from tests.trace.captured import captured
from tests.trace.planted import PLANTED, emitting
from wrapperir.diagnostics import Code
from wrapperir.emit import Artifact, Emitter
from wrapperir.emit.support import check_support, fit_program
from wrapperir.ir import Program
from wrapperir.passes import MEMORY_PASSES
from wrapperir.pipelines import run_passes
from wrapperir.reduce import reduce_program
from wrapperir.reduce.lines import line_count
from wrapperir.testing import example_constants, example_inputs, programs
from wrapperir.text import parse_program
from wrapperir.trace import Agreement, Difference, DifferenceKind, RunSide, diff_runs
from wrapperir.trace.alone import line_text
from wrapperir_fx.emitter import FxEmitter
from wrapperir_python.emitter import ENTRY, PythonEmitter

slow = settings(
    max_examples=draws(5, fuzz=150), suppress_health_check=list(HealthCheck), deadline=None
)


def agree(first: RunSide, second: RunSide, program: Program) -> None:
    inputs, constants = example_inputs(program), example_constants(program)
    found = diff_runs(first, second, inputs, constants, tolerance=0.0)
    assert isinstance(found, Agreement), found


@pytest.mark.parametrize("emitter", [PythonEmitter(), FxEmitter()], ids=lambda e: e.name)
@slow
@given(programs(max_steps=10))
def test_emitters_agree_with_the_interpreter(emitter: Emitter, program: Program) -> None:
    fitted = fit_program(program, emitter.support)
    assume(not check_support(fitted, emitter.name, emitter.support))
    agree(RunSide("interpreter", program), RunSide("emitter", program, emitter), program)


@slow
@given(programs(max_steps=12))
def test_memory_passes_change_no_value(program: Program) -> None:
    changed = run_passes(program, MEMORY_PASSES)
    agree(RunSide("before", program), RunSide("after", changed), program)


@slow
@given(programs(max_steps=8))
def test_two_emitters_agree_where_values_are_not_wholly_written(program: Program) -> None:
    for emitter in (PythonEmitter(), FxEmitter()):
        fitted = fit_program(program, emitter.support)
        assume(not check_support(fitted, emitter.name, emitter.support))
    agree(
        RunSide("python", program, PythonEmitter()),
        RunSide("fx", program, FxEmitter()),
        program,
    )


COMPILED = ("live_memory_is_reused", "wrong_dimension")
"""Faults of code in C++, which takes long to compile."""
QUICK = ("dropped_free", "swapped_arguments", "wrong_constant", "free_too_early")
"""Faults whose programs are reduced at once."""


def named(is_quick: Callable[[str], bool]) -> list[object]:
    """Return the names of faults; the others are for ``make sweep-features``."""
    sweep = [pytest.mark.sweep]
    return [pytest.param(x, marks=() if is_quick(x) else sweep) for x in PLANTED]


@pytest.mark.slow
@pytest.mark.parametrize("name", named(lambda name: name not in COMPILED))
def test_a_planted_fault_is_named_by_its_line(name: str) -> None:
    planted = PLANTED[name]
    given = captured(planted.kind)
    first, second = planted.sides(given.program)
    found = diff_runs(first, second, given.inputs, given.constants)
    assert isinstance(found, Difference)
    assert found.path == planted.path(second.program), found.message


def test_there_are_ten_planted_faults() -> None:
    assert len(PLANTED.keys() - set(COMPILED)) >= 10


@pytest.mark.slow
@pytest.mark.parametrize("name", named(lambda name: name in QUICK))
def test_a_planted_fault_is_reduced_to_few_lines(name: str) -> None:
    planted = PLANTED[name]
    kinds: list[DifferenceKind] = []

    def is_interesting(program: Program) -> bool:
        try:
            first, second = planted.sides(program)
        except AssertionError:  # the fault has no place any more
            return False
        found = diff_runs(
            first, second, example_inputs(program), example_constants(program)
        )
        if not isinstance(found, Difference):
            return False
        kinds.append(found.kind)
        return found.kind is kinds[0]

    reduced = reduce_program(captured(planted.kind).program, is_interesting)
    assert line_count(reduced) <= 12


TWO_LINES = """\
wrapperir 1

program @main(%x: f32[8]) {
  %a = extern_kernel aten.sin.default(%x) : f32[8]
  %b = extern_kernel aten.cos.default(%a) : f32[8]
  free %a
  return %b
}
"""


def differ(first: Program, second: Program, **options: float) -> Difference | Agreement:
    x = torch.arange(8.0)
    return diff_runs(RunSide("A", first), RunSide("B", second), [x], {}, **options)  # type: ignore[arg-type]


def test_the_tolerance_is_of_the_greatest_magnitude() -> None:
    program = parse_program(TWO_LINES)
    same, other = (
        parse_program(TWO_LINES.replace("sin.default(%x)", f"mul.Tensor(%x, {factor})"))
        for factor in (1.0, 1.00001)
    )
    assert isinstance(differ(program, other), Difference)
    assert isinstance(differ(same, other), Agreement)
    assert isinstance(differ(same, other, tolerance=0.0), Difference)


def test_a_difference_is_a_diagnostic_at_the_line() -> None:
    program = parse_program(TWO_LINES)
    found = differ(program, parse_program(TWO_LINES.replace("aten.cos", "aten.tan")))
    assert isinstance(found, Difference)
    assert found.kind is DifferenceKind.VALUE
    diagnostic = found.diagnostic
    assert (diagnostic.code, diagnostic.path) == (Code.RUNS_DIFFER, ("lines", 1))
    assert diagnostic.message.startswith("%b differs in B from A: 8 of 8 elements")


def test_a_run_that_keeps_few_values_at_once_finds_the_same() -> None:
    planted = PLANTED["swapped_arguments"]
    given = captured(planted.kind)
    first, second = planted.sides(given.program)
    whole, few = (
        diff_runs(first, second, given.inputs, given.constants, budget=budget)
        for budget in (1 << 30, 1)
    )
    assert whole == few


def test_values_without_a_partner_are_told() -> None:
    program = parse_program(TWO_LINES)
    renamed = TWO_LINES.replace("%a", "%c").replace("aten.sin", "aten.tan")
    found = differ(program, parse_program(renamed))
    assert isinstance(found, Difference)
    assert found.path == ("lines", 1)
    assert found.unmatched == (("lines", 0),)


def test_an_output_differs_although_no_line_does() -> None:
    two = TWO_LINES.replace("  free %a\n", "").replace("return %b", "return %a, %b")
    found = differ(parse_program(two), parse_program(two.replace("%a, %b\n}", "%b, %a\n}")))
    assert isinstance(found, Difference)
    assert (found.kind, found.path) == (DifferenceKind.RESULT, ("outputs", 0))


class Failing(PythonEmitter):
    """Emits code that raises an error before the second line."""

    def emit(self, program: Program) -> Artifact:
        artifact = super().emit(program)
        text = artifact.files[ENTRY]
        assert isinstance(text, str)
        changed = re.sub(r"^( +)(b = )", r"\1raise OSError('no')\n\1\2", text, flags=re.M)
        assert changed != text
        return evolve(artifact, files={**artifact.files, ENTRY: changed})


def test_a_failure_is_placed_after_the_last_value() -> None:
    program = parse_program(TWO_LINES)
    found = diff_runs(
        RunSide("A", program), RunSide("B", program, Failing()), [torch.ones(8)], {}
    )
    assert isinstance(found, Difference)
    assert (found.kind, found.path) == (DifferenceKind.FAILURE, ("lines", 1))
    assert found.message == "B fails, at or before this line: OSError: no"
    assert found.diagnostic.code is Code.ONE_RUN_FAILS


def test_runs_that_both_fail_are_not_compared() -> None:
    first, second = (
        parse_program(TWO_LINES.replace("aten.sin", operator))
        for operator in ("aten.sin", "aten.tan")
    )
    found = diff_runs(
        RunSide("A", first, Failing()),
        RunSide("B", second, Failing()),
        [torch.ones(8)],
        {},
    )
    assert isinstance(found, Difference)
    assert found.kind is DifferenceKind.BOTH_FAIL
    assert found.message.startswith("both runs fail")
    assert found.diagnostic.code is Code.BOTH_RUNS_FAIL


def test_memory_that_emitted_code_keeps_is_found_where_it_is_asked_for() -> None:
    planted = PLANTED["dropped_free"]
    assert planted.by_pass is not None
    program = captured(planted.kind).program
    emitter = emitting(planted.by_pass)
    sides = RunSide("A", program), RunSide("B", program, emitter)
    given = captured(planted.kind)
    found = diff_runs(*sides, given.inputs, given.constants)
    assert isinstance(found, Agreement)
    found = diff_runs(*sides, given.inputs, given.constants, check_memory=True)
    assert isinstance(found, Difference)
    assert "WIR842" in found.message


IN_PLACE = """\
wrapperir 1

kernel_definition @double cpp(x: read_write f32*) {
  entry = double_all
  source {
    | extern "C" void double_all(float* x) {
    |   for (int i = 0; i < 8; ++i) x[i] *= 2;
    | }
  }
}

program @main(%x: f32[8]) {
  %a = extern_kernel aten.sin.default(%x) : f32[8]
  kernel_call @double(%a)
  %b = extern_kernel aten.cos.default(%x) : f32[8]
  %c = extern_kernel aten.add.Tensor(%a, %b) : f32[8]
  free %a
  free %b
  return %c
}
"""


@pytest.mark.parametrize(
    "call", ["kernel_call @double(%a)", "%b = extern_kernel aten.cos.default(%x) : f32[8]"]
)
def test_a_call_that_one_program_lacks_is_named_in_both_orders(call: str) -> None:
    whole = parse_program(IN_PLACE)
    assert call in IN_PLACE
    without = IN_PLACE.replace(f"  {call}\n", "")
    if "%b =" in call:
        without = without.replace("  free %b\n", "").replace("%b", "%x")
    found = differ(whole, parse_program(without))
    assert isinstance(found, Difference)
    assert found.subject == "%c"
    assert (found.absent, found.unmatched) == ((call,), ())
    assert call in found.diagnostic.notes[-1].message
    found = differ(parse_program(without), whole)
    assert isinstance(found, Difference)
    assert [line_text(whole, path) for path in found.unmatched] == [call]
    assert found.absent == ()


def test_a_view_that_both_programs_have_is_not_named() -> None:
    """Views are observed only once something is written there under that name."""
    call = "kernel_call @double(%r)"
    reused = "  %r = reuse %a as f32[8]\n"
    view = "  %v = reinterpret %r as f32[4]\n"
    text = IN_PLACE.replace("  kernel_call @double(%a)\n", f"{reused}  {call}\n{view}")
    text = text.replace("add.Tensor(%a, %b)", "cat.default([%v, %v])")
    text = text.replace("free %a", "free %r\n  free %v")
    found = differ(parse_program(text), parse_program(text.replace(f"  {call}\n", "")))
    assert isinstance(found, Difference)
    assert (found.subject, found.absent) == ("%c", (call,))


def test_a_call_that_writes_an_output_is_named_too() -> None:
    text = IN_PLACE.replace("return %c", "return %c, %x").replace(
        "%x: f32", "%x: mutated f32", 1
    )
    text = text.replace("  free %b\n", "  free %b\n  kernel_call @double(%x)\n")
    whole, without = (
        parse_program(text),
        parse_program(text.replace("  kernel_call @double(%x)\n", "")),
    )
    found = differ(whole, without)
    assert isinstance(found, Difference)
    assert found.kind is DifferenceKind.RESULT
    assert found.absent == ("kernel_call @double(%x)",)


UNWRITTEN = """\
wrapperir 1

program @main(%x: f32[8]) {
  %a = allocate f32[8]
  %b = reinterpret %a as f32[4]
  extern_kernel aten.zero_.default(%b) writes(%b)
  return %a
}
"""


class Dirty(PythonEmitter):
    """Emits code in which memory holds something before anything is written there."""

    def emit(self, program: Program) -> Artifact:
        artifact = super().emit(program)
        text = artifact.files[ENTRY]
        assert isinstance(text, str)
        changed = re.sub(r"^( +)(a = .*)$", r"\1\2\n\1a.fill_(7)", text, flags=re.M)
        assert changed != text
        return evolve(artifact, files={**artifact.files, ENTRY: changed})


def test_elements_of_an_output_that_nothing_wrote_are_not_compared() -> None:
    program = parse_program(UNWRITTEN)
    sides = RunSide("A", program, PythonEmitter()), RunSide("B", program, Dirty())
    found = diff_runs(*sides, [torch.ones(8)], {})
    assert isinstance(found, Agreement), found
    lines = UNWRITTEN.splitlines(keepends=True)
    other = parse_program("".join(line for line in lines if "zero_" not in line))
    found = diff_runs(sides[0], RunSide("B", other, Dirty()), [torch.ones(8)], {})
    assert isinstance(found, Difference)
    assert (found.kind, found.path) == (DifferenceKind.RESULT, ("outputs", 0))
    assert found.absent == ("extern_kernel aten.zero_.default(%b) writes(%b)",)
